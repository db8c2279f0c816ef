"""Runs steered from the command line, with real processes: resumed, swept, cancelled, lost."""

import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

MAIN = "from hybridjob.cli import main; main()"
JOB = """
name = "steered"
seed = 3
[ps]
tasks_per_node = 2
[trainer]
tasks_per_node = 2
[model.options]
embedding_dim = 4
[training]
batch_size = 16
epochs = 9000
max_steps = 30
log_every_steps = 1
[checkpoint]
every_steps = 20
keep_last = 1
[data]
format = "synthetic"
num_samples = 320
num_dense = 2
[[data.features]]
name = "user"
cardinality = 50
"""


@pytest.fixture
def hybridjob(tmp_path):
    """Run the program in a folder of its own: hybridjob(*words)."""
    (tmp_path / "steered.toml").write_text(JOB)

    def run(*words, check=True):
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def running(tmp_path, hybridjob, eventually):
    """A job at work beside the test: its submitting process, and its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "submit", "steered.toml", "--executor", "local",
         "training.max_steps=1000000"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually(lambda: list(tmp_path.glob("runs/steered/*/checkpoints/step-*")), 90)
        yield process, next((tmp_path / "runs" / "steered").iterdir()).name
    finally:
        process.terminate()
        process.wait(60)


def status(hybridjob, run):
    return json.loads(hybridjob("status", run, "--json").stdout)


@pytest.mark.parametrize(
    ("override", "cause"),
    [
        ("model.table_data_type=bfloat16", "as float32, but they are to be kept as bfloat16"),
        ("training.table_optimizer.name=adam", "was the optimizer of the tables changed?"),
    ],
)
def test_a_checkpoint_of_other_tables_ends_a_resumed_run_at_once(hybridjob, override, cause):
    hybridjob("submit", "steered.toml", "--executor", "local")
    done = hybridjob("resume", "steered", override, check=False)
    assert done.returncode == 1
    assert cause in done.stderr
    assert "did not answer" not in done.stderr
    assert status(hybridjob, "steered")["generations"] == 1


def test_a_resumed_run_ends_in_the_state_of_an_undisturbed_one(hybridjob, tmp_path):
    local = ("--executor", "local")
    hybridjob("submit", "steered.toml", *local)
    old = status(hybridjob, "steered")
    assert (old["state"], old["step"], old["checkpoint"]["step"]) == ("completed", 30, 30)
    done = hybridjob("resume", "steered", "training.max_steps=50", "ps.tasks_per_node=3")
    assert f"going on from step 30 of job {old['job_id']}" in done.stdout
    new = status(hybridjob, "steered")
    assert (new["state"], new["step"], new["tables"]["servers"]) == ("completed", 50, 3)
    assert (new["resumed_from"], new["resumed_step"]) == (old["folder"], 30)
    hybridjob("submit", "steered.toml", *local, "training.max_steps=50", "name=undisturbed")
    assert new["state_digest"] == status(hybridjob, "undisturbed")["state_digest"]
    assert (tmp_path / old["folder"] / "checkpoints" / "step-00000030").is_dir()
    hybridjob("resume", old["job_id"], "training.max_steps=40", "trainer.tasks_per_node=1")
    other = status(hybridjob, "steered")
    assert (other["state"], other["step"], len(other["ranks"])) == ("completed", 40, 4)


def test_a_local_job_is_seen_and_cancelled_from_another_shell(hybridjob, running):
    process, job_id = running
    values = status(hybridjob, "steered")
    assert (values["state"], values["job_id"]) == ("running", job_id)
    assert [(one["name"], one["state"]) for one in values["ranks"]] == [
        ("master", "running"),
        ("ps0", "running"),
        ("ps1", "running"),
        ("trainer0", "running"),
        ("trainer1", "running"),
    ]
    refused = hybridjob("resume", job_id, check=False)
    assert (refused.returncode, "is running" in refused.stderr) == (2, True)
    done = hybridjob("cancel", job_id)
    assert f"job {job_id} of steered: cancelled, saved at step " in done.stdout
    assert status(hybridjob, job_id)["state"] == "cancelled"
    assert process.wait(30) != 0
    assert "asked to save and leave" in hybridjob("logs", job_id, "--role", "trainer").stdout


def test_a_job_whose_controller_was_killed_is_lost_not_running(hybridjob, running, tmp_path):
    _, job_id = running
    state_file = tmp_path / "runs" / "steered" / job_id / f"{job_id}_state.json"
    os.kill(json.loads(state_file.read_text())["controller_pid"], signal.SIGKILL)
    values = status(hybridjob, job_id)
    assert values["state"] == "lost"
    assert {one["state"] for one in values["ranks"]} <= {"lost", "failed: code 1", "ended"}
    assert "was killed" in values["cause"]["text"]
    assert hybridjob("ls").stdout.splitlines()[1].split()[2] == "lost"


def test_a_local_sweep_runs_its_jobs_one_after_the_other_and_compares_them(hybridjob):
    sweep = ("--sweep", "training.table_optimizer.lr=0.01,0.5")
    done = hybridjob(
        "submit", "steered.toml", "--executor", "local", "training.max_steps=5", *sweep
    )
    ends = [line.split()[2].rstrip(":") for line in done.stdout.splitlines()[:4]]
    assert ends == ["begins", "completed", "begins", "completed"]
    rows = json.loads(hybridjob("ls", "--sweep", "steered", "--json").stdout)
    assert [row["name"] for row in rows] == ["steered-lr0.5", "steered-lr0.01"]
    assert [row["sweep_values"]["training.table_optimizer.lr"] for row in rows] == [0.5, 0.01]
    assert {row["state"] for row in rows} == {"completed"}
    assert rows[0]["loss"] != rows[1]["loss"]
    assert hybridjob("ls", "--sweep", "steered").stdout.splitlines()[0].split()[:3] == [
        "id",
        "name",
        "lr",
    ]
