"""An on-policy run that was killed or interrupted goes on as if it had never been."""

import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from support import lines
from test_exact_resume import FILES, command, kill_after, newest

pytestmark = pytest.mark.slow

EPOCH = 200
OPTIONS = (
    f"--steps 3000 --epoch-steps {EPOCH} --environments 2 --horizon 100 --hidden 8 --passes 2 "
    f"--normalise-reward --checkpoint-every {EPOCH} --evaluate-every 1000 --evaluation-episodes 2"
)


def start(folder: Path) -> list[str]:
    return command(folder, "train", "ppo-lag", "--task", "orbit", *OPTIONS.split(), "--out")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume") / "whole"
    subprocess.run(start(folder), check=True)
    return folder


def reached(folder: Path) -> int:
    found = sorted(folder.glob("checkpoints/step-*.json"))
    return int(found[-1].stem.split("-")[1]) if found else -1


def assert_same(folder: Path, whole: Path) -> None:
    for name in FILES:
        assert lines(folder / name) == lines(whole / name)
    # Learner, scales: all that the run has become.
    ends = newest(folder, ".safetensors"), newest(whole, ".safetensors")
    assert ends[0].name == ends[1].name
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_killed_at_any_moment_and_resumed_ends_the_same(whole, tmp_path):
    folder = tmp_path / "killed"
    generator = np.random.default_rng(0)
    words, killed = start(folder), 0
    for least in (0, 600, 1400):

        def ready(least=least):
            if reached(folder) < least:
                return False
            time.sleep(generator.uniform(0, 0.2))  # somewhere in an epoch, or while it is saved
            return True

        killed += kill_after(words, ready)
        words = command(folder, "resume")
    subprocess.run(words, check=True)
    assert killed >= 2
    assert_same(folder, whole)


def test_interrupt_saves_the_epoch_and_says_how_to_go_on(whole, tmp_path):
    folder = tmp_path / "interrupted"
    process = subprocess.Popen(start(folder), stdout=subprocess.PIPE, text=True)
    while reached(folder) < EPOCH:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert f"Go on with: prudent resume {folder}" in output
    assert reached(folder) % EPOCH == 0
    subprocess.run(command(folder, "resume"), check=True)
    assert_same(folder, whole)
