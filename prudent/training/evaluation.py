"""Evaluate now and then, and write down how training goes."""

from copy import deepcopy
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from prudent.settings.schedules import SemiBatchSchedule
from prudent.tasks.adapter import open_environment
from prudent.tasks.episodes import evaluation_seeds, run_in_turns
from prudent.training.session import Session, Window, check_finite

INFEASIBLE_AFTER = 10  # evaluations


def probably_infeasible(history: list[dict[str, float]]) -> bool:
    """A constraint broken in each of the last evaluations while its multiplier only grew."""
    if len(history) < INFEASIBLE_AFTER:
        return False
    multipliers = [entry["multiplier"] for entry in history]
    grew = all(b > a for a, b in pairwise(multipliers))
    return grew and all(e["violation"] > 0 and e["excess"] > 0 for e in history)


def evaluate_and_record(session: Session[Any]) -> None:
    """One line of `progress.jsonl`: test episodes, and the means of metrics since the last."""
    seconds = perf_counter() - session.window_started
    write_line(session, evaluate(session), seconds)


def write_line(session: Session[Any], evaluations: dict[str, Any], seconds: float) -> None:
    """`evaluations`: what the line says besides the means of the metrics in its window."""
    for name, values in evaluations["evaluation"].items():
        check_finite(session, **{f"{name} (in an evaluation)": np.asarray(values)})
    training = session.window.means()
    line: dict[str, Any] = {
        "step": session.step,
        "updates": session.updates,
        "episodes": session.collector.episodes_begun,
        **evaluations,
        "training": training,
    }
    if "multiplier" in training:
        excess = evaluations["evaluation"]["cost"] - session.run.budget
        entry = {name: training[name] for name in ("multiplier", "violation")}
        session.history.append({**entry, "excess": excess})
        del session.history[:-INFEASIBLE_AFTER]
    if probably_infeasible(session.history):
        line["probably_infeasible"] = True
    unit = session.collector.work_unit
    updates, steps = session.window.count, session.step - session.last_line.get("step", 0)
    line[f"{unit}_per_second"] = (updates if unit == "updates" else steps) / seconds
    line["window_seconds"] = seconds
    session.progress.write(line)
    session.reporter.evaluated(line)
    session.window = Window(session.learner.metric_names)
    session.window_started = perf_counter()
    session.last_line = line
    # A callback may stop the run, by a true answer or by an exception, which is raised later: first
    # everything is saved.
    try:
        for callback in session.callbacks:
            session.halted = bool(callback(deepcopy(line), session)) or session.halted
    except Exception as error:
        session.halted, session.callback_error = True, error


def evaluate(session: Session[Any]) -> dict[str, Any]:
    """Greedy episodes; where all of those are alike, one of them and sampled ones beside it."""
    schedule, shared = session.run.schedule, session.task.shared
    assert not isinstance(schedule, SemiBatchSchedule)  # its deployments are its evaluations
    episodes = schedule.evaluation_episodes
    while len(session.evaluation_environments) < (1 if shared else episodes):
        environment = open_environment(session.task)
        session.closing.callback(environment.close)
        session.evaluation_environments.append(environment)
    environments, seeds = session.evaluation_environments, evaluation_seeds(episodes)
    learner, state, budget = session.learner, session.state, session.run.budget
    # There is one environment only, training's: it ran all episodes, one after the other.
    note = {"evaluation_environments": 1} if shared else {}

    def greedily(observations: np.ndarray, time: int) -> np.ndarray:
        return np.asarray(learner.act_greedily(state, observations.astype(np.float32)))

    def sampling(observations: np.ndarray, time: int) -> np.ndarray:
        return np.asarray(learner.sample(state, observations.astype(np.float32), time))

    if not session.task.deterministic_reset:
        greedy = run_in_turns(greedily, environments, seeds, session.accounting)
        return {"evaluation": greedy.summary(budget), **note}
    greedy = run_in_turns(greedily, environments, seeds[:1], session.accounting)
    sampled = run_in_turns(sampling, environments, seeds, session.accounting)
    return {
        "evaluation": greedy.summary(budget),
        "sampled_evaluation": sampled.summary(budget),
        **note,
    }
