"""Whatever happens to a run, it comes back by itself and ends in the same state."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT
from test_failing_jobs import assert_nothing_is_left, worker_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

JOB = """
name = "recovery"
seed = 3
[ps]
tasks_per_node = 2
[trainer]
tasks_per_node = 2
[model.options]
embedding_dim = 4
dropout = 0.3
[training]
batch_size = 16
epochs = 9
max_steps = 240
log_every_steps = 5
[checkpoint]
every_steps = 20
[network]
rpc_timeout_s = 20
[data]
format = "synthetic"
num_samples = 640
num_dense = 2
[[data.features]]
name = "user"
cardinality = 50
[[data.features]]
name = "bag"
cardinality = 30
ids_per_sample = [0, 3]
"""
STEPS = 240


class Running:
    """A job that runs beside the test."""

    def __init__(self, folder, *overrides, **environment):
        job_file, self.run_folder = folder / "job.toml", folder / "run"
        job_file.write_text(JOB)
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(ROOT / "submit.py"), str(job_file), "--executor", "local"),
                *(f"run_folder={self.run_folder}", *overrides),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **environment},
        )

    def step(self):
        """Give the last step that was reported, over all lives."""
        lines = [
            json.loads(line)
            for path in self.run_folder.glob("*/metrics.jsonl")
            for line in path.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]
        return lines[-1]["step"] if lines else 0

    def wait_for_step(self, step, deadline_s=180):
        end = time.monotonic() + deadline_s
        while self.step() < step:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, f"still at step {self.step()}"
            time.sleep(0.05)

    def send(self, number, rank, module=b"hybridjob.worker"):
        os.kill(worker_of(rank, self.run_folder, module), number)

    def end(self, timeout_s=300):
        """Wait for the end; give the summary."""
        self.stdout, self.stderr = self.process.communicate(timeout=timeout_s)
        assert_nothing_is_left(self.run_folder)
        (summary,) = self.run_folder.glob("*/summary.json")
        return json.loads(summary.read_text())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = Running(tmp_path_factory.mktemp("undisturbed"), "checkpoint.every_steps=0")
    summary = run.end()
    assert summary["final_step"] == STEPS
    return summary["state_digest"]


@pytest.fixture
def running(tmp_path):
    run = Running(tmp_path)
    yield run
    if run.process.poll() is None:
        run.process.kill()
        run.process.communicate()


@pytest.mark.parametrize("rank", [0, 2, 3])
def test_a_killed_worker_costs_a_generation_and_no_number(running, undisturbed, rank):
    running.wait_for_step(50)
    running.send(signal.SIGKILL, rank)
    summary = running.end()
    assert running.process.returncode == 0, running.stderr
    assert summary["state_digest"] == undisturbed
    assert summary["generations"] == 2
    assert summary["requeues"] == 0
    assert f"generation 0.0.0 failed: rank {rank} " in running.stdout
    assert "killed by SIGKILL" in running.stdout


def test_rounding_by_chance_is_the_same_after_a_kill_and_on_another_number_of_servers(tmp_path):
    halves = ("model.table_data_type=bfloat16", "training.max_steps=120")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    expected = Running(tmp_path / "one", "ps.tasks_per_node=1", "checkpoint.every_steps=0", *halves)
    digest = expected.end()["state_digest"]
    killed = Running(tmp_path / "two", *halves)
    try:
        killed.wait_for_step(50)
        killed.send(signal.SIGKILL, 2)  # the second server
        summary = killed.end()
    finally:
        if killed.process.poll() is None:
            killed.process.kill()
            killed.process.communicate()
    assert summary["generations"] == 2
    assert summary["state_digest"] == digest


def test_a_killed_task_costs_an_attempt_and_no_number(running, undisturbed):
    running.wait_for_step(50)
    running.send(signal.SIGKILL, 1, b"submitit")
    summary = running.end()
    assert running.process.returncode == 0, running.stderr
    assert summary["state_digest"] == undisturbed


def test_a_frozen_worker_is_ended_after_the_deadline(tmp_path, undisturbed):
    running = Running(tmp_path, "network.rpc_timeout_s=5")
    running.wait_for_step(50)
    running.send(signal.SIGSTOP, 2)
    summary = running.end()
    assert running.process.returncode == 0, running.stderr
    assert summary["state_digest"] == undisturbed
    assert "ps1" in running.stdout


@pytest.mark.parametrize(
    ("rank", "number"), [(0, signal.SIGUSR2), (2, signal.SIGUSR2), (4, signal.SIGTERM)]
)
def test_a_warned_job_saves_and_goes_on_in_another_life(running, undisturbed, rank, number):
    running.wait_for_step(50)
    running.send(number, rank, b"submitit")
    summary = running.end()
    assert running.process.returncode == 0, running.stderr
    assert summary["state_digest"] == undisturbed
    assert summary["requeues"] == 1
    # It left at the step where it was, not at the last multiple of every_steps.
    (lives,) = running.run_folder.glob("*/lives.jsonl")
    first, second = (json.loads(line) for line in lives.open())
    assert (first["life"], second["life"]) == (0, 1)
    assert second["step"] >= 50


def test_ctrl_c_saves_before_it_ends(running):
    running.wait_for_step(50)
    running.process.send_signal(signal.SIGINT)
    running.stdout, running.stderr = running.process.communicate(timeout=60)
    assert running.process.returncode == 130
    assert_nothing_is_left(running.run_folder)
    newest = max(running.run_folder.glob("*/checkpoints/step-*"))
    assert int(newest.name.removeprefix("step-")) >= 50


def test_a_run_that_fails_again_and_again_ends_with_the_cause(tmp_path):
    running = Running(tmp_path, "recovery.max_restarts=1")
    running.wait_for_step(20)
    running.send(signal.SIGKILL, 3)
    end = time.monotonic() + 90
    while not list(running.run_folder.glob("*/rendezvous/gen-0.0.1.json")):
        assert time.monotonic() < end
        time.sleep(0.05)
    running.send(signal.SIGKILL, 3)
    summary = running.end()
    assert running.process.returncode == 1
    assert summary["state"] == "failed"
    assert "rank 3 (trainer0 on localhost)" in summary["cause"]
    assert summary["generations"] == 2


def test_folders_of_a_job_are_for_its_owner_alone(running):
    running.wait_for_step(5)
    (folder,) = (one for one in Path(running.run_folder).iterdir() if one.is_dir())
    assert folder.stat().st_mode & 0o777 == 0o700
