"""What ends a training job on Slurm, or interrupts it, and what is left then."""

import json
import os
import signal

import pytest
from training_run import JOB, LONGER, follow, processes_of, submit

pytestmark = pytest.mark.timeout(500)

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
        eventually(lambda: len(run.metrics) > 5, 300)
        yield run
    finally:
        cluster.run(["scancel", run.job_id], check=False)


def test_scancel_ends_every_process_of_a_training(cluster, endless, eventually):
    assert len(workers(endless)) == 5
    cluster.run(["scancel", endless.job_id])
    cluster.wait_for_state(endless.job_id, {"CANCELLED"}, 90)
    eventually(lambda: not processes_of(endless.folder.parent), 90)


def test_a_killed_worker_ends_the_job_and_is_named_as_the_cause(cluster, endless, eventually):
    os.kill(workers(endless)["3"], signal.SIGKILL)
    cluster.wait_for_state(endless.job_id, {"FAILED"}, 180)
    assert endless.summary["state"] == "failed"
    cause = "rank 3 (trainer0 on alpha0): its worker was killed by SIGKILL"
    assert cause in endless.summary["cause"]
    (file,) = (endless.folder / "failures").iterdir()
    failure = json.loads(file.read_text())
    assert (failure["rank"], failure["role"], failure["host"]) == (3, "trainer0", "alpha0")
    eventually(lambda: not processes_of(endless.folder.parent), 90)


@pytest.fixture
def longer(cluster, tmp_path, job_file, eventually):
    """Give a job that has saved its first checkpoint; its servers are on one node of two."""
    more = ("ps.nodes=1", "ps.tasks_per_node=2")
    run = follow(submit(tmp_path / "run", job_file, *LONGER, *more, cluster=cluster))
    eventually(lambda: list(run.folder.glob("checkpoints/step-*")), 300)
    yield run
    cluster.run(["scancel", run.job_id], check=False)


def test_a_requeued_job_ends_in_the_state_of_an_undisturbed_one(cluster, longer, undisturbed):
    cluster.run(["scontrol", "requeue", longer.job_id])
    cluster.wait_for_state(longer.job_id, {"COMPLETED"}, 300)
    assert longer.summary["state_digest"] == undisturbed
    assert longer.summary["requeues"] == 1
    assert any(name.startswith("rank-000-master.gen-1") for name in longer.logs)
    assert longer.metrics[-1]["step"] == 300


def test_a_warned_job_saves_at_its_step_and_requeues_itself(cluster, longer, undisturbed):
    cluster.run(["scancel", "--signal=USR2", longer.job_id])
    cluster.wait_for_state(longer.job_id, {"COMPLETED"}, 300)
    assert longer.summary["state_digest"] == undisturbed
    assert longer.summary["requeues"] == 1
    lives = [json.loads(line) for line in (longer.folder / "lives.jsonl").open()]
    assert [one["life"] for one in lives] == [0, 1]
    left_at = [line for line in longer.log("ps0", "0.0.0").splitlines() if "asked to save" in line]
    assert left_at


def test_a_killed_task_costs_an_attempt_in_the_same_life(cluster, longer, undisturbed):
    victim = next(
        pid
        for pid, environment in processes_of(longer.folder.parent).items()
        if environment["SLURM_PROCID"] == "1" and "submitit" in environment["command"]
    )
    os.kill(victim, signal.SIGKILL)
    cluster.wait_for_state(longer.job_id, {"COMPLETED"}, 300)
    assert longer.summary["state_digest"] == undisturbed
    assert longer.summary["requeues"] == 0


def test_the_loss_of_the_masters_only_node_is_survived(cluster, longer, undisturbed):
    """Slurm requeues component 0 alone, and the trainers of the life before still hold theirs."""
    (host,) = {one["host"] for one in map(json.loads, (longer.folder / "lives.jsonl").open())}
    cluster.crash_node(host)
    try:
        cluster.wait_for_state(longer.job_id, {"COMPLETED"}, 300)
    finally:
        cluster.boot_node(host)
    assert longer.summary["state_digest"] == undisturbed
    assert longer.summary["requeues"] == 1


def workers(run):
    """Give the workers of a run: rank -> process id."""
    return {
        environment["SLURM_PROCID"]: pid
        for pid, environment in processes_of(run.folder.parent).items()
        if "hybridjob.worker" in environment["command"]
    }
