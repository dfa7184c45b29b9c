"""One short run of every family of algorithms, as the version before computes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compare import BEFORE, ROOT, Case, judge, wheel_before

TINY = "--task orbit --steps 40 --warmup-steps 320 --evaluate-every 20 --evaluation-episodes 2"
EPOCH = "--task orbit --steps 800 --epoch-steps 400 --evaluate-every 400 --evaluation-episodes 2"
FAMILIES = [
    Case("cal", f"train cal {TINY} --calibration episodes --calibration-episodes 1", True),
    Case("sac-pid", f"train sac-pid {TINY}"),
    Case("wcsac", f"train wcsac {TINY}"),
    Case("cvpo", f"train cvpo {TINY}"),
    Case("ppo-lag", f"train ppo-lag {EPOCH}", True),
    Case("rcpo", f"train rcpo {EPOCH}"),
]


def test_records_are_those_of_the_version_before(tmp_path, capfd):
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{BEFORE}^{{commit}}"], cwd=ROOT, capture_output=True
    )
    if known.returncode:
        assert not os.environ.get("PRUDENT_REQUIRE_HISTORY"), f"commit {BEFORE} is not here"
        pytest.skip(f"commit {BEFORE} is not here: this is no clone with its history")
    before = wheel_before(tmp_path)
    wrong = [case.name for case in FAMILIES if not judge(case, tmp_path, before)]
    assert not wrong, capfd.readouterr().out
