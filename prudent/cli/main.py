"""The command line: prudent train, resume, evaluate, report and the rest of `USAGE`.

JAX is imported only by what computes; `--help` and `list` stay quick.
"""

import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro

from prudent import __version__
from prudent.algorithms import ALGORITHMS, find_algorithm
from prudent.cli.commands import find_package_command, package_commands
from prudent.cli.failures import OURS as OUR_CODE
from prudent.cli.failures import last_words
from prudent.cli.options import OneLineParser, parse, read
from prudent.files import to_json
from prudent.report.packages import report_of_packages
from prudent.settings.checks import Count, CountOrZero, Positive
from prudent.settings.registration import OURS

USAGE = """\
usage: prudent [--version] [--debug] COMMAND ...

  train ALGORITHM --task TASK   train; `prudent train cal --task orbit --help` shows every option
  semi-batch ALGORITHM --task TASK   deploy a fixed policy, learn from its log, and so on
  resume RUN                    go on with a run that was stopped, or to more --steps
  evaluate RUN                  fresh episodes of a run's policy, and a video
  certify RUN_OR_FILE           prove that a policy keeps its budget, or that it does not
  export RUN FILE               a run's policy as one file that acts without JAX
  diagnose RUN ...              how wrong the cost estimates at a run's snapshots are
  experiment NAME               the runs of one of the paper's figures, those that are missing
  sweep --algorithms A --tasks T   a grid of your own: settings with several values are its axes
  report PATH ...               figures, tables and a page to explore, of all runs below these paths
  seeds PATH ...                what each run below these paths did, one by one
  claims PATH ...               what runs below these paths say of the paper's claims
  list                          algorithms, and tasks with their budgets
  bench                         how fast this machine learns, against what it could
  completion SHELL              a script for bash, zsh or fish that completes these words

COMMAND --help says more. --debug shows the whole traceback of a failure.
"""

PRESETS = (
    "the values to begin with: `paper` as the paper states them, `head` as the official code has "
    "them now, `matched` a baseline with CAL's schedule, `million` on-policy for a million steps, "
    "`default` for an environment of your own"
)


Config = TypeVar("Config")
Plan = TypeVar("Plan")


@dataclass(frozen=True)
class TrainOptions(Generic[Config, Plan]):
    seed: int
    """Decides everything that is random."""
    config: Config
    schedule: Plan
    budget: float | None = None
    """Cost allowed per episode (default: the task's)."""
    negative_costs: bool = False
    """Costs can be negative, and so may the budget."""
    cost_range: tuple[float, float] | None = None
    """Least and largest cost of a step, which may be inf (default: the task's, if it knows)."""
    cost: str | None = None
    """The entry of `info` that is the cost (default: cost)."""
    horizon: int | None = None
    """Steps after which an episode is cut (default: the task's)."""
    discounted: bool | None = None
    """Whether an episode's cost is its discounted sum (default: the task's; else a plain sum)."""
    out: Path | None = None
    """The run's folder (default: runs/TASK/ALGORITHM/PRESET-HASH/seed-N)."""
    warmup: Path | None = None
    """Logged transitions (.npz) to learn from instead of untrained first steps."""
    init_from: Path | None = None
    """A run's folder, whose policy is the first one of this run."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Send progress there as well."""
    quiet: bool = False
    """Print nothing while training."""


def train(arguments: list[str]) -> None:
    """Two passes: algorithm, task and preset decide the defaults of everything else."""
    train_as("train", arguments)


def semi_batch(arguments: list[str]) -> None:
    train_as("semi-batch", arguments)


def train_as(command: Literal["train", "semi-batch"], arguments: list[str]) -> None:
    from prudent.algorithms.resolve import (
        Settings,
        in_deployments,
        make_run,
        preset_named,
        settings,
        with_updates,
    )
    from prudent.api import Extras, default_folder, start
    from prudent.tasks import TASKS
    from prudent.tasks.custom import find_task, unknown_task

    first = OneLineParser(prog=f"prudent {command}", add_help=False, allow_abbrev=False)
    first.add_argument("algorithm", choices=sorted(ALGORITHMS), nargs="?")
    where = first.add_mutually_exclusive_group()
    where.add_argument("--task", help="one of `prudent list`")
    where.add_argument("--env", help="a Gymnasium id or module:callable; needs --budget")
    first.add_argument("--preset", help=PRESETS)
    chosen, rest = first.parse_known_args(arguments)
    name = chosen.task or chosen.env
    if chosen.algorithm is None or name is None:
        first.print_help()
        print("\nWith an algorithm and a task, --help shows every setting and its value there.")
        sys.exit(0 if {"-h", "--help"} & set(arguments) else 2)
    note(*ALGORITHMS.unused(chosen.algorithm), *TASKS.unused(name))
    entry = find_algorithm(chosen.algorithm)
    known = TASKS.get(name) or unknown_task(name)
    preset = preset_named(entry, known, chosen.preset)
    find_settings = settings if command == "train" else in_deployments
    config, schedule = find_settings(entry, known, preset)
    form: Any = TrainOptions[type(config), type(schedule)]  # type: ignore[misc]
    options = parse(
        form,
        prog=f"prudent {command} {chosen.algorithm} --{'task' if chosen.task else 'env'} {name}",
        description=(
            f"Every setting; the defaults are those of preset {preset}. There is here: "
            f"{', '.join(entry.presets(known))}. --preset chooses {PRESETS}."
        ),
        default=TrainOptions(seed=0, config=config, schedule=schedule),
        args=rest,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    limits = options.budget, options.horizon, options.discounted
    how = options.cost, options.negative_costs, options.cost_range
    task = find_task(name, None, *limits, *how)
    settled = Settings(options.config, options.schedule)
    if command == "semi-batch":
        settled = with_updates(settled, entry, known, preset)
    run = make_run(chosen.algorithm, task, preset, options.seed, settled)
    folder = options.out or default_folder(run)
    extras = Extras(options.warmup, options.init_from, (), options.log, options.quiet)
    try:
        start(run, task, folder, extras)
    except KeyboardInterrupt:
        stopped(folder)


def stopped(folder: Path) -> None:
    """Says what there is to go on with."""
    if not (folder / "run.json").exists():
        words = "Stopped before the run began; nothing was written."
    elif not any((folder / "checkpoints").glob("step-*.json")):
        words = f"Stopped before the first checkpoint. Begin again with: prudent resume {folder}"
    else:
        words = f"Stopped; everything is saved. Go on with: prudent resume {folder}"
    print(f"\n{words}")
    sys.exit(130)


@dataclass(frozen=True)
class ResumeOptions:
    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    steps: Count | None = None
    """Go on to this many steps, more than the run was given."""
    env: str | None = None
    """The run's environment, named again where it is code (module:callable)."""
    warmup: Path | None = None
    """The same log again, where an older version stopped before its first checkpoint."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    quiet: bool = False


def resume(arguments: list[str]) -> None:
    from prudent.api import resume as go_on

    options = read(ResumeOptions, "prudent resume", arguments)
    try:
        go_on(
            options.run,
            steps=options.steps,
            env=options.env,
            warmup=options.warmup,
            log=options.log,
            quiet=options.quiet,
        )
    except KeyboardInterrupt:
        stopped(options.run)


@dataclass(frozen=True)
class EvaluateOptions:
    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    episodes: Count = 10
    step: CountOrZero | None = None
    """Take the snapshot of this step instead of the newest checkpoint."""
    seed: CountOrZero | None = None
    """Start elsewhere than training's evaluations did."""
    env: str | None = None
    """The environment, named again where it is code (module:callable)."""
    video: Path | None = None
    """Also write one episode as .mp4 or .gif."""
    json: bool = False


def evaluate(arguments: list[str]) -> None:
    from prudent.api import evaluate as measure
    from prudent.policies.video import VideoFailed

    options = read(EvaluateOptions, "prudent evaluate", arguments)
    try:
        results = measure(
            options.run,
            episodes=options.episodes,
            step=options.step,
            seed=options.seed,
            env=options.env,
            video=options.video,
        )
    except VideoFailed as failure:
        show_evaluation(failure.results or {}, options.json)
        raise
    show_evaluation(results, options.json)
    if options.video and not options.json:
        print(f"video: {options.video}")


def show_evaluation(results: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(to_json(results, indent=2))
        return
    print(f"policy of step {results['step']}, budget {results['budget']:g}")
    for name, title in (("evaluation", "greedy"), ("sampled_evaluation", "sampled")):
        if name in results:
            print(described(title, results[name]))


def described(title: str, part: dict[str, Any]) -> str:
    def with_interval(name: str) -> str:
        bounds = part[f"{name}_interval"]
        spread = f" [{bounds[0]:.4g}, {bounds[1]:.4g}]" if bounds else ""
        return f"{name} {part[name]:.4g}{spread}"

    count = len(part["returns"])
    return (
        f"{title}, {count} episode{'s' if count > 1 else ''}: {with_interval('return')}, "
        f"{with_interval('cost')}, length {part['length']:.4g}, "
        f"within budget {part['within_budget']:.0%}   (means with 95 % intervals)"
    )


@dataclass(frozen=True)
class ExportOptions:
    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    file: Annotated[Path, tyro.conf.Positional]
    """Where to write the policy: FILE.safetensors, or FILE.onnx (extra `onnx`)."""
    step: CountOrZero | None = None
    """Take the snapshot of this step instead of the newest checkpoint."""
    env: str | None = None
    """Write the policy only if it fits this environment (module:callable or a Gymnasium id)."""


def export(arguments: list[str]) -> None:
    from prudent.api import export as write

    options = read(ExportOptions, "prudent export", arguments)
    about = write(options.run, options.file, step=options.step, env=options.env).about
    print(f"{options.file}: {about['algorithm']} on {about['task']}, step {about['step']}")


def certify(arguments: list[str]) -> None:
    from prudent.certification.command import command

    command(arguments)


@dataclass(frozen=True)
class DiagnoseOptions:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs, whose snapshots are measured unless they were already."""
    episodes: Count = 100
    """Per snapshot, with the policy as it explored."""
    seed: CountOrZero | None = None
    """Start elsewhere than training's evaluations did."""
    env: str | None = None
    """The environment, named again where it is code (module:callable)."""


def diagnose(arguments: list[str]) -> None:
    from prudent.diagnostics.command import diagnose_all

    options = read(DiagnoseOptions, "prudent diagnose", arguments)
    if not options.runs:
        raise ValueError("prudent diagnose needs the folder of at least one run")
    try:
        complete = diagnose_all(options.runs, options.episodes, options.seed, options.env)
    except KeyboardInterrupt:
        sys.exit("\nStopped; what was measured is kept. The same command goes on with the rest.")
    if not complete:
        sys.exit(1)


@dataclass(frozen=True)
class ReportOptions:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders with runs in them, at any depth; seeds of the same settings are taken together. A
    package may report folders of its own kind; their page is in the folder."""
    out: Path = Path("report")
    """A folder for the page and the figures; or one picture of one task (.png, .svg, .pdf)."""
    log_steps: bool = False
    """Steps on a logarithmic axis, for runs of very different length."""
    follow: bool = False
    """Go on, and write anew when records have changed, until Ctrl-C."""
    every: Positive = 10.0
    """With --follow: seconds between looks."""


def report(arguments: list[str]) -> None:
    options = read(ReportOptions, "prudent report", arguments)
    ending = options.out.suffix.lower()
    if ending in (".jpg", ".jpeg", ".gif", ".webp", ".eps", ".html", ".htm", ".md"):
        raise ValueError(f"--out is a folder, or a picture (.png, .svg, .pdf), not {options.out}")
    others = report_of_packages(options.runs)
    if options.runs and not others:
        if options.out != ReportOptions.out:
            note(f"{options.out} is not written: these folders have their pages in themselves")
        return
    options = replace(options, runs=others)
    if ending in (".png", ".svg", ".pdf"):
        if options.follow:
            raise ValueError(f"--follow writes a folder; {options.out} is one picture")
        one_picture(options)
        return

    from prudent.report.command import follow, whole_report

    if options.follow:
        follow(options.runs, options.out, options.log_steps, options.every)
    else:
        whole_report(options.runs, options.out, options.log_steps)


def one_picture(options: ReportOptions) -> None:
    """Of one task. Every run must be sound here."""
    from prudent.report.figures import learning_figure
    from prudent.report.folders import runs_at
    from prudent.report.groups import by_label
    from prudent.report.records import read_record
    from prudent.report.tables import final_table

    groups = by_label([read_record(folder) for folder in runs_at(options.runs)])
    learning_figure(groups, options.out, options.log_steps)
    print(final_table(groups))
    print(f"\npicture: {options.out}")


@dataclass(frozen=True)
class SeedsOptions:
    paths: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders with runs in them, at any depth."""
    until: Count | None = None
    """Only what runs did in their first so many steps."""


def seeds(arguments: list[str]) -> None:
    from prudent.report.folders import collect
    from prudent.report.records import shortened
    from prudent.report.seeds import seed_tables
    from prudent.report.stored import printable

    options = read(SeedsOptions, "prudent seeds", arguments)
    found = collect(options.paths)
    if not found:
        below = ", ".join(map(str, options.paths)) or "nothing"
        raise ValueError(f"no run below {below}")
    if options.until is not None:
        found = [shortened(record, options.until) for record in found]
    print("\n".join(map(printable, seed_tables(found).split("\n"))))


@dataclass(frozen=True)
class ClaimsOptions:
    paths: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders with runs in them, at any depth."""


def claims(arguments: list[str]) -> None:
    from prudent.report.claims import CLAIMS, claims_table, collect, judge

    options = read(ClaimsOptions, "prudent claims", arguments)
    missing = [str(path) for path in options.paths if not path.is_dir()]
    if missing or not options.paths:
        raise ValueError(f"prudent claims needs folders; {', '.join(missing) or 'none'} given")
    print(claims_table(judge(CLAIMS, collect(options.paths))))


def list_all(arguments: list[str]) -> None:
    from prudent.tasks import TASKS

    read(NoOptions, "prudent list", arguments)
    algorithms, tasks = ALGORITHMS.usable(), TASKS.usable()
    print("algorithms")
    for name, source in algorithms.sources.items():
        print(f"  {name:<10} {ALGORITHMS.summary(name)}{from_package(source)}")
    print("\ntasks (budget: cost allowed per episode)")
    for name, source in tasks.sources.items():
        task = TASKS[name]
        budget = f"{task.constraint.budget:g} {task.constraint.unit}"
        about = f"{task.summary}{from_package(source)}"
        print(f"  {name:<24} {budget:<38} {task.horizon:>5} steps  {about}")
    note(*algorithms.complaints, *tasks.complaints)


def from_package(source: str) -> str:
    return "" if source == OURS else f" [{source}]"


def note(*lines: str) -> None:
    for line in lines:
        print(f"prudent: {line}", file=sys.stderr)


@dataclass(frozen=True)
class NoOptions:
    pass


def bench(arguments: list[str]) -> None:
    from prudent.bench import main as run_bench

    run_bench(arguments)


def experiment(arguments: list[str]) -> None:
    from prudent.experiments.command import experiment as run_experiment

    run_experiment(arguments)


def sweep(arguments: list[str]) -> None:
    from prudent.experiments.command import sweep as run_sweep

    run_sweep(arguments)


def run_one(arguments: list[str]) -> None:
    """For the engines of grids: the run that a file describes."""
    from prudent.experiments.engines import ELSEWHERE, read_job, run_job, stop_with_parent
    from prudent.files import FolderInUse

    if arguments[1:] == ["--with-parent"]:
        stop_with_parent()
    elif len(arguments) != 1:
        raise ValueError("prudent run-one takes the file that describes a run")
    job = read_job(Path(arguments[0]))
    try:
        run_job(job.run, job.folder)
    except FolderInUse as error:
        print(f"prudent: {error}", file=sys.stderr)
        sys.exit(ELSEWHERE)
    except KeyboardInterrupt:
        stopped(job.folder)


def completion(arguments: list[str]) -> None:
    from prudent.cli.completion import SCRIPTS

    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        raise ValueError(f"prudent completion takes one of {', '.join(SCRIPTS)}")
    print(SCRIPTS[arguments[0]], end="")


def complete(arguments: list[str]) -> None:
    """For the shell: candidates for the last of the words so far."""
    from prudent.cli.completion import candidates

    print("\n".join(candidates(arguments)))


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "train": train,
    "semi-batch": semi_batch,
    "resume": resume,
    "evaluate": evaluate,
    "certify": certify,
    "export": export,
    "diagnose": diagnose,
    "experiment": experiment,
    "sweep": sweep,
    "run-one": run_one,
    "report": report,
    "seeds": seeds,
    "claims": claims,
    "list": list_all,
    "bench": bench,
    "completion": completion,
    "complete": complete,
}


# Of a failure, where it is not 1: with that `certify` says that a limit is refuted.
FAILURE_CODES = {"certify": 2}


def print_help() -> None:
    usable, complaints = package_commands(COMMANDS)
    commands, others = USAGE.split("\n\nCOMMAND", 1)
    lines = [
        f"  {name:<29} {command.summary} [{command.package}]" for name, command in usable.items()
    ]
    print("\n".join([commands, *lines]), end=f"\n\nCOMMAND{others}")
    note(*complaints)


def main() -> None:
    arguments = sys.argv[1:]
    debug = arguments[:1] == ["--debug"]
    arguments = arguments[1:] if debug else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print_help()
        return
    if arguments[0] == "--version":
        print(f"prudent {__version__}")
        return
    name, *words = arguments
    home = OUR_CODE
    try:
        command: Callable[[list[str]], object] | None = COMMANDS.get(name)
        if command is None and (theirs := find_package_command(name)):
            command, home = theirs.run, theirs.home
        if command is None:
            sys.exit(f"prudent: no command {name!r}; `prudent --help` shows them")
        command(words)
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        sys.exit(FAILURE_CODES.get(name, 1))
    except Exception as error:
        code = FAILURE_CODES.get(name, 1)
        if code == 1 and debug:
            raise
        if code == 1:
            sys.exit(last_words(error, home))
        with suppress(OSError):  # nobody may be listening; the code is not lost for that
            print(traceback.format_exc() if debug else last_words(error), file=sys.stderr)
        sys.exit(code)
