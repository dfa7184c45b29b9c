"""An agent: a policy that learns, and the run folder that it keeps everything in."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prudent import backend
from prudent.algorithms import find_algorithm
from prudent.algorithms.resolve import make_run, preset_named, resolved
from prudent.runs.folder import (
    RunFolder,
    copy_run,
    default_folder,
    note_packages,
    read_run,
    write_initial,
    write_run,
)
from prudent.runs.lock import check_free, new_run_folder, only_writer
from prudent.settings.run import Run, checked_run
from prudent.settings.schedules import with_steps
from prudent.tasks.costs import Cost
from prudent.tasks.finding import Environment, name_task, task_of
from prudent.tasks.task import Task
from prudent.training.reporter import SINKS, Reporter, check_log

if TYPE_CHECKING:  # JAX is imported only when something is computed
    import numpy as np

    from prudent.pieces.types import CostEstimate, Spec
    from prudent.policies.policy import Policy
    from prudent.training.learner import Learner
    from prudent.training.session import Parts, Session

# Called with each line of progress.jsonl, and with the agent if it takes a second argument.
Callback = Callable[..., Any]


class Agent:
    """Learns on one of our tasks (`task`) or in any Gymnasium environment (`env`).

    `env` is a function that makes the environment, an environment, `module:callable`, or a
    Gymnasium id; it needs a `budget` (cost allowed per episode; a plain sum unless `discounted`)
    and a `horizon` (steps per episode). `cost` says where a step's cost comes from, if not from
    `info["cost"]`: the key of another entry of `info`, or a function of (observation, action,
    reward, terminated, truncated, info). A budget below 0 needs `negative_costs`. `cost_range` is
    the least and the largest cost a step can have, for settings that make use of it.

    `warmup` replaces the first, untrained steps: a policy (observation -> action) or logged
    transitions (see `prudent.training.warmup`). `init_from` is the folder of a run whose policy is
    the first one here. Each of `callbacks` is called with every line of `progress.jsonl`, and with
    this agent if it takes a second argument; where one returns something true or raises, the run is
    saved and stops. Any setting of the algorithm or its schedule is an argument too
    (`prudent train ALGORITHM --task TASK --help` shows them).

    The folder is `out`, or what that function makes of the settings; without it, a temporary one
    that is removed with the agent. Nothing is written before `learn`.
    """

    def __init__(
        self,
        algorithm: str = "cal",
        *,
        task: str | None = None,
        env: Environment | None = None,
        cost: Cost | None = None,
        budget: float | None = None,
        horizon: int | None = None,
        discounted: bool | None = None,
        negative_costs: bool = False,
        cost_range: tuple[float, float] | None = None,
        preset: str | None = None,
        seed: int = 0,
        out: str | Path | Callable[[Run], Path] | None = None,
        warmup: Any = None,
        init_from: str | Path | None = None,
        callbacks: Sequence[Callback] = (),
        log: Sequence[str] = (),
        quiet: bool = False,
        **values: Any,
    ) -> None:
        backend.prepare()
        entry = find_algorithm(algorithm)
        limits = budget, horizon, discounted
        how = {"cost": cost, "negative_costs": negative_costs, "cost_range": cost_range}
        found = name_task(task, env, limits, **how)
        preset = preset_named(entry, found, preset)
        run = make_run(algorithm, found, preset, seed, resolved(entry, found, preset, values))
        self._set(run, out, callbacks, log, quiet)
        self._begin(found, warmup, init_from)

    @classmethod
    def of_run(cls, run: Run, task: Task, out: Path, quiet: bool = False) -> "Agent":
        """For settings that are put together already."""
        backend.prepare()
        agent = cls.__new__(cls)
        agent._set(run, out, quiet=quiet)
        agent._begin(task)
        return agent

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        env: Environment | None = None,
        cost: Cost | None = None,
        warmup: Any = None,
        callbacks: Sequence[Callback] = (),
        log: Sequence[str] = (),
        quiet: bool = False,
    ) -> "Agent":
        """The agent of a run's folder, trained or stopped on the way.

        To learn it needs `env` where the run's environment is neither a task known here nor a
        registered Gymnasium id, `cost` where it was a function, and `warmup` where the run stopped
        during its warm-up with a policy.
        """
        backend.prepare()
        stored = read_run(folder)
        note_packages(stored)
        agent = cls.__new__(cls)
        agent._set(stored.run, folder, callbacks, log, quiet)
        agent._stored, agent._given = stored, (env, cost, warmup)
        return agent

    def _set(
        self,
        run: Run,
        out: str | Path | Callable[[Run], Path] | None,
        callbacks: Sequence[Callback] = (),
        log: Sequence[str] = (),
        quiet: bool = False,
    ) -> None:
        if log:
            check_log(log)
        for callback in callbacks:
            if not callable(callback):
                raise ValueError(f"callbacks: {callback!r} is not callable")
        if out is None:
            above = tempfile.mkdtemp(prefix="prudent-")
            weakref.finalize(self, shutil.rmtree, above, ignore_errors=True)
            out = Path(above) / "run"
        self.folder, self.run = Path(out(run) if callable(out) else out), run
        self.evaluation: dict[str, Any] = {}  # the newest
        self._callbacks, self._log, self._quiet = callbacks, log, quiet
        self._begun: Parts | None = None  # built for the first `learn`
        self._stored: RunFolder | None = None  # once there is one
        self._task: Task | None = None  # once it is known
        self._given: tuple[Environment | None, Cost | None, Any] = (None, None, None)
        self._built: tuple[Spec, Learner] | None = None  # and compiled, for further `learn`s
        self._session: Session[Any] | None = None  # while a callback runs
        self._policy: Policy | None = None

    def _begin(self, task: Task, warmup: Any = None, init_from: str | Path | None = None) -> None:
        check_free(self.folder)
        from prudent.training.run import prepare

        self._begun = prepare(self.run, task, warmup, init_from)
        weakref.finalize(self, self._begun.environment.close)
        self.run, self._task, self._given = self._begun.run, task, (None, None, warmup)

    def __repr__(self) -> str:
        run = self.run
        done = f"{self.steps_done:,} of {run.schedule.steps:,} steps"
        return f"<Agent {run.algorithm} on {run.task}, seed {run.seed}, {done}, in {self.folder}>"

    @property
    def steps_done(self) -> int:
        """Environment steps after the warm-up: of the newest checkpoint; in a callback, so far."""
        if self._session is not None:
            return max(0, self._session.step)
        if self._stored is None:
            return 0
        from prudent.runs.checkpoint import newest_step

        return max(0, newest_step(self.folder))

    def learn(self, steps: int | None = None, *, until: int | None = None) -> dict[str, Any]:
        """Train for so many environment steps more, or `until` it has had so many; returns the last
        evaluation.

        With neither, to the end of what its settings ask for. Several calls give the records of one
        with as many steps. Where the algorithm's settings depend on how many steps there are, only
        the first call can name a number.
        """
        if steps is not None and until is not None:
            raise ValueError("learn: give steps or until, not both")
        total = until if steps is None else self.steps_done + steps
        if self._begun is not None:
            self._learn_first(self._begun, total)
        else:
            self._learn_on(total)
        return self.evaluation

    def _learn_first(self, parts: "Parts", steps: int | None) -> None:
        from prudent.training.run import record_facts

        run = parts.run
        if steps is not None:
            run = checked_run(replace(run, schedule=with_steps(run.schedule, steps)))
        with new_run_folder(self.folder):
            if parts.initial:
                write_initial(self.folder, parts.initial)
            stored = write_run(self.folder, run, record_facts(parts))
            self._begun = None
            self._train(stored, parts)

    def _learn_on(self, steps: int | None) -> None:
        from prudent.runs.prolong import prolong
        from prudent.training.run import prepare_again

        env, cost, warmup = self._given
        task = self._task = self._task or task_of(self.run, env, cost)
        with only_writer(self.folder):
            stored = read_run(self.folder)
            parts = prepare_again(stored, task, env is not None, warmup, self._built)
            try:
                if steps is not None or "earlier_steps" in stored.content:
                    total = stored.run.schedule.steps if steps is None else steps
                    stored = prolong(stored, total, task.shared)
            except BaseException:
                parts.environment.close()
                raise
            self._train(stored, parts)

    def _train(self, stored: RunFolder, parts: "Parts") -> None:
        from prudent.training.run import train

        self._stored, self._policy, self.run = stored, None, stored.run
        self._built = parts.spec, parts.learner
        reporter = Reporter(self._quiet, [SINKS[name](self.folder) for name in self._log])
        callbacks = [partial(self._call, callback) for callback in self._callbacks]
        self.evaluation = train(stored, parts, reporter, callbacks)["evaluation"]

    def _call(self, callback: Callback, line: dict[str, Any], session: "Session[Any]") -> Any:
        """A callback, to which the agent is as the session is at that moment."""
        self._session, self._policy = session, None
        try:
            return callback(line, self) if takes_two(callback) else callback(line)
        finally:
            self._session = self._policy = None

    @property
    def policy(self) -> "Policy":
        """What acts now: the newest of the run, or the one that it begins with."""
        from prudent.policies.policy import load_policy
        from prudent.training.run import policy_of

        if self._policy is None:
            if self._session is not None:
                state, step = self._session.state, self._session.step
                self._policy = policy_of(self._session.parts, state, step)
            elif self._begun is not None:
                self._policy = policy_of(self._begun)
            else:
                assert self._stored is not None
                self._policy = load_policy(self._stored, None)
        return self._policy

    def __call__(self, observation: Any) -> "np.ndarray":
        """The greedy action."""
        return self.policy(observation)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> "tuple[np.ndarray, Any]":
        """An action and, as Stable-Baselines3 has it, the state that was handed in."""
        return self.policy.predict(observation, state, episode_start, deterministic)

    def cost_value(self, observation: Any, action: Any) -> "CostEstimate":
        """What the critics believe that this action will cost, discounted: `mean`, `spread` over
        the critics, and the `conservative` estimate that the constraint is compared with.
        """
        return self.policy.cost_value(observation, action)

    def save(self, folder: str | Path) -> Path:
        """A copy of the run's folder, from which `Agent.load` goes on."""
        if self._stored is None:
            raise ValueError("save: there is no run yet; learn first")
        return copy_run(self.folder, Path(folder))


def takes_two(callback: Callback) -> bool:
    """Whether it can be handed the agent beside the line."""
    kinds = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    try:
        parameters = signature(callback).parameters.values()
    except (TypeError, ValueError):  # it does not say
        return False
    needed = [p for p in parameters if p.kind in kinds and p.default is Parameter.empty]
    return len(needed) >= 2


class Result(NamedTuple):
    folder: Path
    evaluation: dict[str, Any]  # the last one: return, cost, length, within_budget


def train(algorithm: str = "cal", *, out: str | Path | None = None, **arguments: Any) -> Result:
    """Train to the end of what the settings ask for; all arguments are those of `Agent`.

    Without `out` the folder is `runs/TASK/ALGORITHM/PRESET-HASH/seed-N`.
    """
    agent = Agent(algorithm, out=out or default_folder, **arguments)
    return Result(agent.folder, agent.learn())


def semi_batch(
    algorithm: str = "cal",
    *,
    deployments: int = 5,
    steps_per_deployment: int = 2_000,
    updates_per_deployment: int | None = None,
    **arguments: Any,
) -> Result:
    """Deploy a fixed policy, add its log, learn offline, and so on; all else as in `train`.

    By default as many updates follow a deployment as the preset makes in as many steps. The first
    policy deployed is the untrained one, that of the run `init_from`, or one that has learned from
    the log `warmup` already. The result is about the last deployment.
    """
    return train(
        algorithm,
        deployments=deployments,
        steps_per_deployment=steps_per_deployment,
        updates_per_deployment=updates_per_deployment,
        **arguments,
    )


def resume(folder: str | Path, *, steps: int | None = None, **arguments: Any) -> Result:
    """Go on with a run that was stopped, as if it never had been.

    With `steps`, to that many instead of those it was given: finished or not, it becomes the run
    that had them from the start. Its folder stays where it is. The other arguments are those of
    `Agent.load`.
    """
    agent = Agent.load(folder, **arguments)
    return Result(agent.folder, agent.learn(until=steps))
