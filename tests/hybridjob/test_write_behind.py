"""Whole jobs whose checkpoints are written while they train, as deltas."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ROOT
from test_failing_jobs import assert_nothing_is_left
from test_recovery import Running

from hybridjob.checkpoint.manifest import all_checkpoints, read_manifest, verify

pytestmark = [pytest.mark.processes, pytest.mark.timeout(500)]

SPARSE = [
    "data.features.0.cardinality=40000",
    "training.max_steps=60",
    "checkpoint.max_delta_fraction=0.9",
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return Running(folder, *SPARSE, "checkpoint.every_steps=0").end()["state_digest"]


def checkpoints_of(running):
    (folder,) = running.run_folder.glob("*/checkpoints")
    return folder


def test_deltas_written_behind_change_no_number_and_bring_a_killed_run_back(tmp_path, undisturbed):
    running = Running(tmp_path, *SPARSE, "checkpoint.every_steps=5", "checkpoint.keep_last=100")
    running.wait_for_step(30)
    running.send(signal.SIGKILL, 2)
    summary = running.end()
    assert running.process.returncode == 0, running.stderr
    assert summary["state_digest"] == undisturbed
    assert summary["generations"] == 2
    manifests = [verify(one) for one in all_checkpoints(checkpoints_of(running))]
    assert manifests[-1].step == 60
    assert {one.base is None for one in manifests} == {True, False}
    whole = max(sum(file.size for file in one.files) for one in manifests if one.base is None)
    for one in manifests:
        assert one.base is None or sum(file.size for file in one.files) < whole / 5


def flip_a_bit(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def truncate(path):
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, Path.unlink])
def test_a_damaged_checkpoint_costs_steps_and_no_number(tmp_path, undisturbed, damage):
    running = Running(tmp_path, *SPARSE, "checkpoint.every_steps=5")
    running.wait_for_step(30)
    running.send(signal.SIGSTOP, 0)  # no newer checkpoint comes
    newest = all_checkpoints(checkpoints_of(running))[-1]
    victim = next(newest.glob("*-*.0-*.safetensors"))
    damage(victim)
    running.send(signal.SIGKILL, 0)
    summary = running.end()
    assert running.process.returncode == 0, running.stderr
    assert summary["state_digest"] == undisturbed
    said = "".join(log.read_text() for log in running.run_folder.glob("*/logs/*master*"))
    assert re.search(f"passed over a damaged checkpoint: .*{victim.name}", said)
    assert "lost_steps=" in said


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(disk)], check=False
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(("max_failures", "code"), [(100, 0), (2, 1)])
def test_a_full_disk_is_a_warning_and_then_an_error(
    tmp_path, small_disk, undisturbed, max_failures, code
):
    running = Running(
        tmp_path, *SPARSE, "checkpoint.every_steps=10", "checkpoint.full_every=0",
        f"checkpoint.max_failures={max_failures}", "recovery.max_restarts=0",
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (found := [one.parent for one in running.run_folder.glob("*/logs")]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (found[0] / "checkpoints").symlink_to(small_disk)
    summary = running.end()
    assert_nothing_is_left(running.run_folder)
    assert running.process.returncode == code, running.stdout + running.stderr
    assert "No space left on device" in running.stdout + running.stderr
    if code == 0:
        assert "a checkpoint could not be written, the one before stays" in running.stdout
        assert summary["state_digest"] == undisturbed
    else:
        assert "2 checkpoints in a row could not be written" in summary["cause"]
    newest = all_checkpoints(small_disk)[-1]
    assert verify(newest).step == read_manifest(newest).step


@pytest.mark.parametrize("is_freed", [True, False])
def test_a_run_folder_without_room_stops_no_training(small_disk, tmp_path, undisturbed, is_freed):
    """Metrics, events, logs and checkpoints all fail to be written, for a while or to the end."""
    running = Running(
        tmp_path, *SPARSE, "checkpoint.every_steps=10", "checkpoint.full_every=0",
        f"checkpoint.max_failures={100 if is_freed else 2}", "training.log_every_steps=1",
        "recovery.max_restarts=0",
        "model.factory=slow_model:factory", "model.options.pause_s=0.05",
        f"run_folder={small_disk}/run", PYTHONPATH=str(ROOT / "tests" / "integration"),
    )  # fmt: skip
    running.run_folder = small_disk / "run"
    running.wait_for_step(5)
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    if is_freed:
        time.sleep(0.5)  # some steps' lines are lost
        filler.unlink()
    running.stdout, running.stderr = running.process.communicate(timeout=200)
    assert_nothing_is_left(running.run_folder)
    said = running.stdout + running.stderr
    if is_freed:
        assert running.process.returncode == 0, said
        (summary,) = running.run_folder.glob("*/summary.json")
        assert json.loads(summary.read_text())["state_digest"] == undisturbed
        assert json.loads(summary.read_text())["generations"] == 1
    else:
        assert running.process.returncode == 1, said
        assert "lost its controller" not in said
