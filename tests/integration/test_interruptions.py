"""What ends a training job on Slurm, or interrupts it, and what is left then."""

import json
import os
import signal

import pytest
from training_run import JOB, follow, processes_of, submit

pytestmark = pytest.mark.timeout(240)

# A rank's failure ends these jobs: going on after one is another matter.
FOR_EVER = (
    *("training.max_steps=10000000", "training.epochs=10000000"),
    "recovery.max_restarts=0",
)


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(JOB)
    return path


@pytest.fixture
def endless(cluster, tmp_path, job_file, eventually):
    """Give a training job that is at work and would never end by itself."""
    run = follow(submit(tmp_path / "run", job_file, *FOR_EVER, cluster=cluster))
    try:
        eventually(lambda: len(run.metrics) > 5, 60)
        yield run
    finally:
        cluster.run(["scancel", run.job_id], check=False)


def test_scancel_ends_every_process_of_a_training(cluster, endless, eventually):
    assert len(workers(endless)) == 5
    cluster.run(["scancel", endless.job_id])
    cluster.wait_for_state(endless.job_id, {"CANCELLED"}, 30)
    eventually(lambda: not processes_of(endless.folder.parent), 30)


def test_a_killed_worker_ends_the_job_and_is_named_as_the_cause(cluster, endless, eventually):
    os.kill(workers(endless)["3"], signal.SIGKILL)
    cluster.wait_for_state(endless.job_id, {"FAILED"}, 60)
    assert endless.summary["state"] == "failed"
    cause = "rank 3 (trainer0 on alpha0): its worker was killed by SIGKILL"
    assert cause in endless.summary["cause"]
    (file,) = (endless.folder / "failures").iterdir()
    failure = json.loads(file.read_text())
    assert (failure["rank"], failure["role"], failure["host"]) == (3, "trainer0", "alpha0")
    eventually(lambda: not processes_of(endless.folder.parent), 30)


def test_a_requeued_job_ends_in_the_state_of_an_undisturbed_one(
    cluster, tmp_path, job_file, eventually
):
    longer = ("training.max_steps=300", "training.epochs=1000", "checkpoint.every_steps=25")
    run = follow(submit(tmp_path / "run", job_file, *longer, cluster=cluster))
    eventually(lambda: list(run.folder.glob("checkpoints/step-*")), 60)
    cluster.run(["scontrol", "requeue", run.job_id])
    undisturbed = submit(tmp_path / "local", job_file, *longer, "--executor", "local")
    cluster.wait_for_state(run.job_id, {"COMPLETED"}, 180)
    assert run.summary["state_digest"] == undisturbed.summary["state_digest"]
    assert run.summary["requeues"] == 1
    assert any(name.startswith("rank-000-master.gen-1") for name in run.logs)
    assert run.metrics[-1]["step"] == 300


def workers(run):
    """Give the workers of a run: rank -> process id."""
    return {
        environment["SLURM_PROCID"]: pid
        for pid, environment in processes_of(run.folder.parent).items()
        if "hybridjob.worker" in environment["command"]
    }
