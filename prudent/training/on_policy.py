"""The on-policy training loop: collect an epoch, learn from it in one call, forget it.

Every epoch starts its episodes anew and its noise from (seed, epoch), so that a checkpoint at the
end of an epoch holds all that the next one needs, and a resumed run equals an uninterrupted one.
"""

import numpy as np

from prudent.pieces.normaliser import with_scale
from prudent.runs.snapshot import save_snapshot
from prudent.training.epoch_collector import OnPolicySession, collect, save
from prudent.training.evaluation import evaluate_and_record
from prudent.training.session import check_metrics


def run_to_end(session: OnPolicySession) -> None:
    schedule = session.collector.schedule
    if session.step == schedule.steps:
        session.reporter.say(f"{session.folder.path}: all {schedule.steps} steps are done already")
    if session.step == 0 and not session.last_line:
        evaluate_and_record(session)
        save(session)
    while session.step < schedule.steps and not session.halted:
        before = session.step
        take_epoch(session)
        step, ends = session.step, session.step == schedule.steps

        def passed(every: int, before: int = before, step: int = step, ends: bool = ends) -> bool:
            return ends or step // every > before // every

        if passed(schedule.evaluate_every):
            evaluate_and_record(session)
        if passed(schedule.snapshot_every):
            save_snapshot(session.folder, step, session.state)
        stops = session.stop_requested or session.halted
        if passed(schedule.checkpoint_every) or stops:
            save(session)
        session.reporter.advance(step)
        if stops:
            break


def take_epoch(session: OnPolicySession) -> None:
    """Collect, then learn from all of it in one call."""
    began = session.step
    rollout = collect(session)
    session.state = with_scale(session.state, session.collector.scales.observation.scaling())
    session.state, metrics = session.learner.update(session.state, rollout, began)
    values = np.asarray(metrics)
    check_metrics(session, values)
    session.window.add(values)
    session.updates += 1
