"""From settings to a run that trains: its parts are opened, built and checked, each once."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from prudent.algorithms import ALGORITHMS, build_for
from prudent.pieces.types import Spec
from prudent.policies.policy import Policy, Recorded
from prudent.runs.folder import RunFolder, packages_of, policy_name, read_initial
from prudent.settings.registration import OURS
from prudent.settings.run import Run
from prudent.settings.schedules import (
    OffPolicySchedule,
    OnPolicySchedule,
    Schedule,
    SemiBatchSchedule,
)
from prudent.tasks.adapter import AdaptedEnv, describe_spaces, open_environment, probe
from prudent.tasks.finding import check_same_environment
from prudent.tasks.task import Task
from prudent.training import off_policy, on_policy, semi_batch
from prudent.training.collecting import open_off_policy
from prudent.training.contract import check_algorithm
from prudent.training.epoch_collector import compile_for_epochs, open_on_policy
from prudent.training.learner import Learner, compile_for_rows, make_spec
from prudent.training.reporter import Reporter, start_line
from prudent.training.session import Callback, Parts, Prepared, Session, run_session
from prudent.training.warmup import policy_of_run, with_initial_policy, with_warmup


def prepare(run: Run, task: Task, warmup: Any = None, init_from: str | Path | None = None) -> Parts:
    """The parts of a new run; its environment has taken a few steps."""
    environment = open_environment(task)
    try:
        probe(environment)
        first_steps, initial = None, dict[str, np.ndarray]()
        if warmup is not None:
            run, first_steps, initial = with_warmup(run, warmup, environment)
        if init_from is not None:
            initial |= policy_of_run(Path(init_from))
            run = replace(run, init_from=policy_name(initial))
        parts = Parts(run, task, environment, *build(run, environment), initial, first_steps)
        if initial:
            with_initial_policy(jax.eval_shape(parts.learner.init), initial)
    except BaseException:
        environment.close()
        raise
    return parts


def prepare_again(
    folder: RunFolder,
    task: Task,
    handed_in: bool = False,
    warmup: Any = None,
    built: tuple[Spec, Learner] | None = None,
) -> Parts:
    """Those of a run that was stopped. `handed_in`: its environment was, anew; `built`: what this
    process has compiled for the run before.
    """
    environment = open_environment(task)
    try:
        if handed_in:
            check_same_environment(environment, folder)
        first_steps = None
        if warmup is not None:
            run, first_steps, _ = with_warmup(folder.run, warmup, environment)
            if run != folder.run:
                raise ValueError(
                    f"{folder.path}: began with warm-up {folder.run.warmup}, not {run.warmup}"
                )
        built = built or build(folder.run, environment)
        return Parts(folder.run, task, environment, *built, read_initial(folder), first_steps)
    except BaseException:
        environment.close()
        raise


def build(run: Run, environment: AdaptedEnv) -> tuple[Spec, Learner]:
    spec = make_spec(environment, run.critic_budget(), run.cost_ahead())
    algorithm = build_for(run, spec)
    if ALGORITHMS.source(run.algorithm) != OURS:  # ours are tested
        check_algorithm(run, algorithm, spec)
    if isinstance(run.schedule, OnPolicySchedule):
        return spec, compile_for_epochs(algorithm, spec, run.schedule, run.seed)
    return spec, compile_for_rows(algorithm, spec, run.schedule.batch_size, run.seed)


def record_facts(parts: Parts) -> dict[str, Any]:
    """What `run.json` says of a run besides its settings and where it was made."""
    return {
        "spec": parts.spec._asdict(),
        "spaces": describe_spaces(parts.environment),
        "deterministic_reset": parts.task.deterministic_reset,
        "packages": packages_of(parts.run),
    }


LOOPS: dict[type[Schedule], tuple[Callable[..., Session[Any]], Callable[..., None]]] = {
    OffPolicySchedule: (open_off_policy, off_policy.run_to_end),
    OnPolicySchedule: (open_on_policy, on_policy.run_to_end),
    SemiBatchSchedule: (open_off_policy, semi_batch.run_to_end),
}


def train(
    folder: RunFolder, parts: Parts, reporter: Reporter, callbacks: Sequence[Callback] = ()
) -> dict[str, Any]:
    """Go on with the run until its schedule ends; returns the last line of `progress.jsonl`."""
    reporter.say(start_line(folder.run, folder.path))
    open_session, run_to_end = LOOPS[type(folder.run.schedule)]
    with ExitStack() as closing:
        closing.callback(parts.environment.close)
        session = open_session(Prepared(folder, parts, reporter, callbacks, closing))
        return run_session(session, run_to_end)


def policy_of(parts: Parts, state: Any = None, step: int = 0) -> Policy:
    """The policy of a learner's state, by default the one that the run begins with."""
    if state is None:
        state = parts.learner.init()
        if parts.initial:
            state = with_initial_policy(state, parts.initial)
    else:  # an update takes the memory of the state it is given
        state = jax.tree.map(jnp.copy, state)
    recorded = Recorded(parts.spec, describe_spaces(parts.environment))
    return Policy(parts.learner.algorithm, state, recorded, step)
