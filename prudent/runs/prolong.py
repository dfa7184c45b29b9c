"""A run given more steps becomes, record for record, the run that had them from the start.

What a run does depends on how many steps it was given only at its end: there it is evaluated and
saved although no interval has passed. Where the longer run would do the same at that step, it goes
on from there; where not, from the checkpoint before. `run.json` is written once, and that decides:
before, the folder holds the shorter run, and after, the longer one; either can be resumed.
Checkpoints from before carry the `run_id` and checksums of the shorter run, which follow from
`earlier_steps` in `run.json`.
"""

from dataclasses import replace

from prudent.runs.checkpoint import (
    DamagedCheckpoint,
    read_checkpoint,
    remove_files,
    replay_folder,
)
from prudent.runs.folder import FORMATS, RunFolder, run_from_json, with_steps, write_content
from prudent.runs.manifest import manifests_in, read_manifest
from prudent.runs.snapshot import snapshot_path
from prudent.settings.configs import FirstOrderConfig, OnPolicyConfig
from prudent.settings.run import Run, identity_of
from prudent.settings.schedules import OnPolicySchedule, Schedule, SemiBatchSchedule


def prolong(folder: RunFolder, steps: int, shared: bool) -> RunFolder:
    """Give the run that many steps; `shared`: it has one environment for everything.

    With as many as it has, only what is left of an earlier end is tidied up. The caller holds the
    folder.
    """
    if steps != folder.run.schedule.steps:
        check_exact(folder, steps)
        if not goes_on_from_end(folder.run.schedule, shared):
            withdraw_end(folder)
        folder = write_prolonged(folder, steps)
    schedule = folder.run.schedule
    for earlier in folder.content.get("earlier_steps", []):
        if isinstance(schedule, SemiBatchSchedule):
            break  # it has a snapshot after every deployment
        if not passes(schedule, earlier, schedule.snapshot_every):
            remove_files([snapshot_path(folder.path, earlier)])
    return folder


def check_exact(folder: RunFolder, steps: int) -> None:
    """Refuse where the run would not be the one that had these steps from the start."""
    run, path = folder.run, folder.path
    if steps < run.schedule.steps:
        raise ValueError(
            f"{path} is a run of {run.schedule.steps} steps; --steps is {steps}, and must be more"
        )
    if folder.content["format"] != FORMATS[-1]:
        raise ValueError(
            f"{path} was written by an older version (format {folder.content['format']}), whose "
            "runs cannot be prolonged; train a new one"
        )
    if rate_falls(run):
        raise ValueError(
            f"{path}: the learning rate of {run.algorithm} falls to 0 over its "
            f"{run.schedule.steps} steps (rate_decay {getattr(run.config, 'rate_decay', '')}), so "
            f"a run of {steps} would have been another from the start; train a new one"
        )
    run_from_json(with_steps(folder.content["run"], steps), FORMATS[-1])


def rate_falls(run: Run) -> bool:
    """Whether some learning rate depends on how many steps there are."""
    if not isinstance(run.config, OnPolicyConfig):
        return False
    decay = run.config.rate_decay
    return decay == "all" or (decay == "policy" and isinstance(run.config, FirstOrderConfig))


def passes(schedule: Schedule, step: int, every: int) -> bool:
    """Whether a run that does not end at `step` does there what it does at each multiple of
    `every`. On-policy, that is at the end of the epoch in which the multiple falls.
    """
    if not isinstance(schedule, OnPolicySchedule):
        return step % every == 0
    epoch = schedule.epoch_steps
    return step % epoch == 0 and step // every > (step - epoch) // every


def goes_on_from_end(schedule: Schedule, shared: bool) -> bool:
    """Whether the run has done at its end what a longer one does there. One that has a single
    environment evaluates where episodes begin, so its end is never trusted.
    """
    if isinstance(schedule, SemiBatchSchedule):
        return True  # every deployment ends alike
    return not shared and passes(schedule, schedule.steps, schedule.evaluate_every)


def withdraw_end(folder: RunFolder) -> None:
    """Remove the checkpoint of the end, if there is another to go on from. What is left is the
    same run, stopped a little before it was done.
    """
    ends, whole = [], False
    for path in manifests_in(folder.path / "checkpoints"):
        try:
            if read_manifest(path).facts.get("step") == folder.run.schedule.steps:
                ends.append(path)
                continue
            rows = replay_folder(folder.path)
            read_checkpoint(path, folder.identity, rows, without_lost_rows=False)
            whole = True
        except DamagedCheckpoint:
            continue  # nobody goes on from it
    if ends and not whole:
        raise DamagedCheckpoint(
            f"{folder.path}: a longer run would not be evaluated where this one ends, so it must "
            "go on from the checkpoint before its end, and there is no whole one. Nothing was "
            "changed."
        )
    for path in ends:
        remove_files([path, path.with_suffix(".safetensors")])


def write_prolonged(folder: RunFolder, steps: int) -> RunFolder:
    """All else that `run.json` says stays as it was stored."""
    content = folder.content
    fields = with_steps(content["run"], steps)
    prolonged = {
        **content,
        "identity": identity_of(fields),
        "run": fields,
        "earlier_steps": [*content.get("earlier_steps", []), folder.run.schedule.steps],
    }
    write_content(folder.path, prolonged)
    run = run_from_json(fields, content["format"])
    return replace(folder, run=run, content=prolonged)
