"""Grids on a Ray cluster: two real nodes of this machine, one of which is killed."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_lines import prudent_command
from support import lines, need_ray
from test_grid import SMALL, flags, planned

import prudent
from prudent.experiments import clusters, on_ray
from prudent.experiments.engines import Job, Standing, write_job
from prudent.experiments.existing import existing_runs, folder_for
from prudent.runs.lock import only_writer

# Ray's own warnings are none of ours.
pytestmark = pytest.mark.filterwarnings("ignore")

LONG = {**SMALL, "steps": 3_000, "evaluate_every": 500, "checkpoint_every": 100}
LONG |= {"snapshot_every": 1_000, "replay_capacity": 5_000}
SWEEP = ("sweep", "--algorithms", "cal", "--tasks", "orbit", *flags(LONG))


@contextmanager
def two_nodes(monkeypatch):
    """A cluster of two nodes with one core each; nobody joins it without its token."""
    need_ray()
    for name, value in (("RAY_AUTH_MODE", "token"), ("RAY_AUTH_TOKEN", "f" * 64)):
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    try:
        yield cluster, cluster.add_node(**size)
    finally:
        cluster.shutdown()


def start_sweep(out, *words, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "prudent", *SWEEP, "--out", str(out), *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def wait_for(there, process, seconds=120.0):
    until = time.monotonic() + seconds
    while not (found := there()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def parents():
    """Of every process that is there."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                stat = Path(entry.path, "stat").read_text()
            except OSError:
                continue
            found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def run_below(ancestor):
    """The process of a run that descends from this one, and the name of what it runs."""
    above = parents()
    for process in above:
        place = process
        while place in above and place != ancestor:
            place = above[place]
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if place == ancestor and b"run-one" in words:
            return process, Path(words[words.index(b"run-one") + 1].decode()).stem
    return None


def checkpoints(out, seed):
    return list(out.rglob(f"seed-{seed}/checkpoints/step-*.json"))


@pytest.mark.slow
def test_a_grid_outlives_the_node_that_runs_it(tmp_path, monkeypatch):
    shared, local = tmp_path / "ray", tmp_path / "local"
    with two_nodes(monkeypatch) as (cluster, node):
        process = start_sweep(
            shared, "--seeds", 0, 1, "--engine", "ray", "--address", cluster.address
        )
        wait_for(lambda: checkpoints(shared, 0) and checkpoints(shared, 1), process)
        raylet = node.all_processes["raylet"][0].process.pid
        run, name = run_below(raylet)
        seed = int(name[-1])
        folder = checkpoints(shared, seed)[0].parents[1]
        assert len(lines(folder / "progress.jsonl")) < 7  # it has not ended
        os.kill(run, signal.SIGSTOP)  # so that it cannot save when the rest of its node is gone
        cluster.remove_node(node, allow_graceful=False)
        os.kill(run, signal.SIGKILL)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, output + errors
        assert "2 runs: 2 finished" in output
    alone = start_sweep(local, "--seeds", 0, 1)
    assert "2 runs: 2 finished" in alone.communicate(timeout=300)[0]
    starts = {
        number: path.read_text().count("into ")
        for number in (0, 1)
        for path in (shared / "grids" / "sweep").glob(f"*seed-{number}.log")
    }
    assert starts == {seed: 2, 1 - seed: 1}  # it was gone on with, once
    assert_same_records(shared, local)
    assert {e.name.rpartition(".")[2] for e in (shared / "grids" / "sweep").iterdir()} == {
        "json", "log",
    }  # fmt: skip


def assert_same_records(first, second):
    for folder in sorted(second.rglob("seed-*/")):
        other = first / folder.relative_to(second)
        for name in ("progress.jsonl", "episodes.jsonl"):
            assert lines(other / name) == lines(folder / name)
        snapshots = sorted(folder.glob("snapshots/*"))
        assert len(snapshots) == 3
        for path in snapshots:
            assert (other / "snapshots" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_a_signal_a_failure_and_another_writer_are_as_without_ray(tmp_path, monkeypatch):
    blocked, others = (tmp_path / "orbit" / "cal" / f"seed-{seed}" for seed in (0, 1))
    prudent.train(
        "cal", task="orbit", seed=1, out=others, quiet=True, **LONG, callbacks=[lambda line: True]
    )
    with two_nodes(monkeypatch) as (cluster, _), only_writer(others):
        words = ["--engine", "ray", "--address", cluster.address]
        dry = start_sweep(tmp_path, "--seeds", 0, *words, "--dry-run")
        assert "1 runs, 1 missing" in dry.communicate(timeout=60)[0]
        run = planned(0, **LONG)
        blocked = folder_for(run, tmp_path, {})
        blocked.mkdir(parents=True)
        (blocked / "mine.txt").write_text("precious")
        process = start_sweep(tmp_path, "--seeds", 0, 1, 2, *words)
        stranger = start_sweep(tmp_path / "x", "--seeds", 0, *words, RAY_AUTH_TOKEN="e" * 64)
        wait_for(lambda: checkpoints(tmp_path, 2), process)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=120)
        said = stranger.communicate(timeout=120)[1]
    assert process.returncode == 130, output + errors
    assert "it wants another token (RAY_AUTH_TOKEN" in said
    assert len(said.splitlines()) == 1
    assert "3 runs: 1 failed, 1 elsewhere, 1 stopped" in output
    assert "seed 0 failed: prudent: " in errors
    assert "is not empty (mine.txt)" in errors
    assert "Go on with: prudent sweep" in errors
    stopped = checkpoints(tmp_path, 2)[0].parents[1]
    with only_writer(stopped):  # nobody writes it any more
        pass
    reached = {e.run.seed: e.state for e in existing_runs(tmp_path, print).values()}
    assert reached == {1: "begun", 2: "begun"}


def test_a_run_whose_parent_is_gone_saves_and_stops(tmp_path):
    job = Job(planned(0, **{**LONG, "steps": 100_000}), tmp_path / "run", "cal", "cal")
    write_job(tmp_path / "job.json", job)
    process = subprocess.Popen(
        [sys.executable, "-m", "prudent", "run-one", str(tmp_path / "job.json"), "--with-parent"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        # As Ray's processes do, which hand it on to those they start.
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}),
    )  # fmt: skip
    wait_for(lambda: list(tmp_path.glob("run/checkpoints/*.json")), process)
    process.stdin.close()
    assert process.wait(timeout=60) == 130
    [existing] = existing_runs(tmp_path, print).values()
    assert existing.state == "begun"
    with only_writer(tmp_path / "run"):
        pass


# What is refused, in one line.


def refused(monkeypatch, tmp_path, *words):
    with pytest.raises(SystemExit) as stop:
        prudent_command(monkeypatch, *SWEEP, "--out", tmp_path, *words)
    assert "\n" not in str(stop.value.code)
    assert not list(tmp_path.rglob("run.json"))
    return str(stop.value.code)


def test_without_ray_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(clusters, "find_spec", lambda name: None)
    said = refused(monkeypatch, tmp_path, "--engine", "ray")
    assert said == "prudent: --engine ray needs an extra: pip install 'prudent[ray]'"


def test_an_address_without_the_engine_is_refused(monkeypatch, tmp_path):
    assert "needs --engine ray" in refused(monkeypatch, tmp_path, "--address", "auto")


@pytest.fixture
def pretend_ray(monkeypatch):
    monkeypatch.setattr(clusters, "find_spec", lambda name: True)
    monkeypatch.setattr(clusters, "import_module", lambda name: pytest.fail("Ray was started"))


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.parametrize("address", ["nowhere", "host:", ":1", "ray://host:10001", "a:b"])
def test_what_is_no_address_is_refused(address, pretend_ray, monkeypatch, tmp_path):
    said = refused(monkeypatch, tmp_path, "--engine", "ray", "--address", address)
    assert f"--address is {address!r}; it must be the HOST:PORT" in said


def test_an_address_nobody_answers_at_is_refused(pretend_ray, monkeypatch, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    said = refused(monkeypatch, tmp_path, "--engine", "ray", "--address", address)
    assert f"{address} (Connection refused)" in said
    impossible = "127.0.0.1:99999"
    assert impossible in refused(monkeypatch, tmp_path, "--engine", "ray", "--address", impossible)


def test_what_is_no_cluster_is_refused(pretend_ray, monkeypatch, tmp_path):
    monkeypatch.setattr(clusters, "STATUS_SECONDS", 0.01)  # of those that `ray status` would take
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        error = refused(monkeypatch, tmp_path, "--engine", "ray", "--address", address)
    assert f"what answers at {address} is no Ray cluster" in error


def test_what_ray_says_of_a_cluster_that_it_cannot_join_is_one_line(monkeypatch, tmp_path):
    def init(**options):
        raise ConnectionError("no GCS\nat that address.")

    ray = SimpleNamespace(init=init, shutdown=lambda: None)
    monkeypatch.setattr(clusters, "find_spec", lambda name: True)
    monkeypatch.setattr(clusters, "import_module", lambda name: ray)
    monkeypatch.setattr(clusters.subprocess, "run", lambda *words, **how: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        error = refused(monkeypatch, tmp_path, "--engine", "ray", "--address", address)
    assert address in error
    assert "no GCS at that address" in error


# Nodes that cannot share the runs.


def test_a_node_sees_whether_the_storage_and_its_locks_are_shared(tmp_path):
    assert "does not see" in on_ray.look(str(tmp_path / "marker"))
    with on_ray.marked(tmp_path) as marker:
        assert on_ray.look(str(marker)) == ""
        copy = tmp_path / "copy"  # as a node would see it whose storage is another's copy
        copy.write_bytes(marker.read_bytes())
        assert "do not hold between" in on_ray.look(str(copy))
    assert not marker.exists()


class FakeRay:
    """Two nodes, of which the second found this."""

    exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=LookupError)

    def __init__(self, trouble="", version=prudent.__version__):
        self.found = [on_ray.Looked("a", "", prudent.__version__)]
        self.found.append(on_ray.Looked("b", trouble, version))

    def nodes(self):
        return [{"Alive": True, "NodeID": i, "NodeManagerHostname": "ab"[i]} for i in (0, 1)]

    def remote(self, **how):
        return lambda function: self

    def options(self, scheduling_strategy):
        return SimpleNamespace(remote=lambda marker: scheduling_strategy)

    def get(self, task, timeout):
        return self.found[task]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"trouble": "it does not see /runs"}, "node b .* cannot share the runs: it does not see"),
        ({"version": "0.0.0"}, "node b of the Ray cluster has prudent 0.0.0, not"),
    ],
)
def test_a_cluster_with_a_node_that_cannot_is_refused(found, message, monkeypatch, tmp_path):
    strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
    monkeypatch.setattr(on_ray, "import_module", lambda name: strategies)
    on_ray.check_nodes(FakeRay(), tmp_path)
    with pytest.raises(ValueError, match=message):
        on_ray.check_nodes(FakeRay(**found), tmp_path)


class RayError(Exception):
    pass


class RayTaskError(RayError):
    cause = RuntimeError("first\nit does not see /runs")


@pytest.mark.parametrize(
    ("result", "stopping", "begun", "stage", "told"),
    [
        (0, False, True, "finished", None),
        (130, True, True, "stopped", None),
        (75, False, True, "elsewhere", None),
        (3, False, True, "failed", "last words (all of it: "),
        (3, False, False, "failed", "ended with code 3 (all of it: "),
        (RayTaskError(), False, False, "failed", "on one of the nodes: it does not see /runs"),
        (
            RayError("a node\ndied"),
            False,
            True,
            "failed",
            "21 tries, the last of which Ray lost: a",
        ),
        (RayError("cancelled"), True, True, "stopped", None),
        (RayError("cancelled"), True, False, "waiting", None),
    ],
)
def test_what_became_of_a_task(result, stopping, begun, stage, told, tmp_path):
    def get(task):
        if isinstance(task, Exception):
            raise task
        return task

    found = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    ray = SimpleNamespace(get=get, exceptions=found)
    cluster = on_ray.Cluster(ray, tmp_path, tmp_path / ".prudent-0.tmp")
    standing = Standing(Job(planned(0), tmp_path / "run", "cal", "cal"))
    if begun:
        (tmp_path / "cal.prudent-0.stderr").write_text("first words\nlast words\n")
    on_ray.conclude(cluster, standing, result, stopping)
    assert standing.stage == stage
    assert (standing.error is None) if told is None else told in standing.error
    assert not (tmp_path / "cal.prudent-0.stderr").exists()


def test_a_run_that_is_tried_again_waits_for_its_lock(tmp_path, monkeypatch):
    (tmp_path / "run.json").touch()
    monkeypatch.setattr(on_ray, "LOCK_SECONDS", 1.5)
    assert on_ray.lock_is_free(tmp_path)
    descriptor = os.open(tmp_path / ".lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    began = time.monotonic()
    assert not on_ray.lock_is_free(tmp_path)
    assert time.monotonic() - began >= 1.0
    threading.Timer(0.5, os.close, [descriptor]).start()
    assert on_ray.lock_is_free(tmp_path)
