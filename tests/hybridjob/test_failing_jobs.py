"""Whatever goes wrong, a job ends with one clear message, a non-zero exit and no process left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

JOB = """
name = "failing"
[data]
path = "ok.tsv"
label = "rating >= 4"
[[data.categorical]]
column = "user"
encode = "identity"
num_embeddings = 50
[training]
batch_size = 10
epochs = 2
[network]
rendezvous_timeout_s = 60
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rows = [f"{number % 50}\t{number % 5 + 1}" for number in range(400)]
    (tmp_path / "ok.tsv").write_text("\n".join(["user\trating", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def processes_of(run_folder):
    """Give the ids of all living processes that were started for a run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if str(run_folder).encode() in text:
                found.append(int(entry.name))
    return found


def assert_nothing_is_left(run_folder):
    deadline = time.monotonic() + 20
    while processes_of(run_folder):
        assert time.monotonic() < deadline, processes_of(run_folder)
        time.sleep(0.1)


def assert_one_clear_message(run, expected):
    assert run.returncode == 1, run.stdout + run.stderr
    assert expected in run.stderr
    assert "Traceback" not in run.stdout + run.stderr
    assert len(run.stderr.strip().splitlines()) <= 3
    assert run.summary["state"] == "failed"
    assert expected in run.summary["cause"]
    assert_nothing_is_left(run.run_folder)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data.path=nothere.tsv"], "nothere.tsv does not exist"),
        (["data.categorical.0.column=usr"], "there is no column 'usr': did you mean 'user'?"),
        (["data.categorical.0.num_embeddings=40"], "line 42, column 'user': id 40 is out of range"),
        (["model.factory=sample_model:failing_factory"], "RuntimeError: no model for 0 dense"),
        (
            ["model.factory=sample_model:failing_forward"],
            "the model's forward failed: RuntimeError",
        ),
        (
            ["model.factory=sample_model:forward_without_a_result"],
            "a tensor of floats, not NoneType",
        ),
        (["model.factory=sample_model:leaving_factory"], "SystemExit: 3"),
        (["model.factory=no_such_module:make"], "No module named 'no_such_module'"),
        (["model.factory=sample_model:nothing"], "has no function 'nothing'"),
        (["training.dense_optimizer.name=Adamm"], "'Adamm', but torch.optim has ASGD"),
        (["training.loss=cross_entropy"], "wants one value a class"),
        (["training.dense_optimizer={name='SGD', lr=1e30}"], "lower the learning rates"),
        (["network.interface=eth99"], "network.interface is 'eth99', but"),
    ],
)
def test_a_mistake_that_shows_late_is_one_message(run_job, folder, overrides, expected):
    assert_one_clear_message(run_job(JOB, *overrides, cwd=folder), expected)


def test_a_malformed_row_is_named_by_line_and_column_or_skipped_and_counted(run_job, folder):
    with (folder / "ok.tsv").open("a") as file:
        file.write("7\tnine\n8\t4\n")
    stopped = run_job(JOB, cwd=folder)
    assert_one_clear_message(stopped, "line 402, column 'rating'")
    skipped = run_job(JOB, "data.on_bad_row=skip", cwd=folder)
    assert skipped.returncode == 0, skipped.stderr
    assert skipped.summary["skipped_rows"] == 1
    assert skipped.summary["samples"] == 2 * 401


def start(folder):
    """Start a long job; give its process and run folder once it trains."""
    job_file, run_folder = folder / "job.toml", folder / "run"
    job_file.write_text(JOB)
    process = subprocess.Popen(
        [
            *(sys.executable, str(ROOT / "submit.py"), str(job_file), "--executor", "local"),
            *(f"run_folder={run_folder}", "training.epochs=100000", "ps.tasks_per_node=2"),
            *("trainer.tasks_per_node=2", "training.log_every_steps=5", "recovery.max_restarts=0"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    deadline = time.monotonic() + 60
    while not [one for one in run_folder.glob("*/metrics.jsonl") if one.stat().st_size]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return process, run_folder


def worker_of(rank, run_folder, module=b"hybridjob.worker"):
    for pid in processes_of(run_folder):
        proc = Path(f"/proc/{pid}")
        variables = (proc / "environ").read_bytes().split(b"\0")
        is_rank = f"SLURM_PROCID={rank}".encode() in variables
        if is_rank and module in (proc / "cmdline").read_bytes():
            return pid
    raise AssertionError(f"no process of rank {rank}")


@pytest.mark.parametrize(("rank", "name"), [(0, "master"), (2, "ps1"), (4, "trainer1")])
def test_a_killed_worker_ends_the_job_and_is_named_as_the_cause(folder, rank, name):
    process, run_folder = start(folder)
    os.kill(worker_of(rank, run_folder), signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"rank {rank} ({name} on localhost): its worker was killed by SIGKILL" in stderr
    assert_nothing_is_left(run_folder)


def test_a_killed_task_ends_the_job_and_is_named_as_the_cause(folder):
    process, run_folder = start(folder)
    os.kill(worker_of(1, run_folder, b"submitit"), signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "rank 1" in stderr
    assert "SIGKILL" in stderr
    assert_nothing_is_left(run_folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ending_the_submitting_process_ends_all_of_the_job(folder, number):
    process, run_folder = start(folder)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130, stderr
        assert "cancelled" in stdout
        assert "Traceback" not in stderr
    assert_nothing_is_left(run_folder)
