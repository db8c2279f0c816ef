"""What Slurm, its nodes and its daemons do to a training, which ends as if nothing had happened."""

import os
import signal
import time

import pytest
from cluster_processes import processes_with
from disturbed_run import (
    ONE_NODE_OF_SERVERS,
    ancestors,
    command_of,
    completes,
    starting,
    worker,
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def start(faulty_cluster, tmp_path, eventually):
    with starting(faulty_cluster, tmp_path, eventually, *ONE_NODE_OF_SERVERS) as begin:
        yield begin


@pytest.mark.parametrize("grace_s", [0, 20])
def test_a_preempted_job_comes_back(faulty_cluster, start, undisturbed, grace_s):
    for partition in ("bigmem", "gpu"):
        faulty_cluster.run(
            ["scontrol", "update", f"PartitionName={partition}", f"GraceTime={grace_s}"]
        )
    run = start()
    urgent = ["sbatch", "--parsable", "-p", "urgent", "-w", "alpha1", "--exclusive", "--wrap"]
    other = faulty_cluster.run([*urgent, "sleep 3"]).stdout.strip()
    faulty_cluster.wait_for_state(other, {"COMPLETED"}, 240)
    completes(faulty_cluster, run, undisturbed, requeues=1)
    if grace_s:  # there was time to save where it stood
        assert run.lives[1]["step"] % 25 != 0


def test_a_job_whose_work_is_longer_than_its_time_limit_completes(
    faulty_cluster, start, undisturbed
):
    run = start(
        "slurm.time=2", "slurm.signal_delay_s=60",
        "model.options.pause_s=0.3", "recovery.leave_timeout_s=40",
    )  # fmt: skip
    faulty_cluster.wait_for_state(run.job_id, {"COMPLETED"}, 400)
    assert run.summary["state_digest"] == undisturbed
    assert run.summary["requeues"] >= 1


def test_a_frozen_rank_does_not_keep_a_warned_job_from_coming_back(
    faulty_cluster, start, undisturbed
):
    run = start("recovery.leave_timeout_s=5")
    os.kill(worker(run, 1), signal.SIGSTOP)
    faulty_cluster.run(["scancel", "--signal=USR2", run.job_id])
    completes(faulty_cluster, run, undisturbed, requeues=1)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_killed_slurmstepd_takes_no_number(faulty_cluster, start, undisturbed, rank):
    run = start()
    for stepd in ancestors(worker(run, rank)):
        if command_of(stepd).startswith("slurmstepd"):
            os.kill(stepd, signal.SIGKILL)
    completes(faulty_cluster, run, undisturbed, requeues=0)


def test_a_killed_slurmstepd_and_its_tasks_are_begun_again(faulty_cluster, start, undisturbed):
    """Nobody is left who could tell srun, or the batch script, that rank 0 is gone."""
    run = start("network.rendezvous_timeout_s=15")
    for pid in ancestors(worker(run, 0)):
        if "slurmd " not in command_of(pid):
            os.kill(pid, signal.SIGKILL)
    faulty_cluster.wait_for_state(run.job_id, {"COMPLETED"}, 400)
    assert run.summary["state_digest"] == undisturbed


def test_a_dead_slurmd_whose_node_is_set_down(faulty_cluster, start, undisturbed, eventually):
    run = start()
    node = "alpha0"
    for pid in processes_with(
        SLURM_CONF=str(faulty_cluster.site.conf), TEST_CLUSTER_NODE=node
    ):  # fmt: skip
        if command_of(pid).startswith("slurmd"):
            os.kill(pid, signal.SIGKILL)
    try:
        faulty_cluster.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"])
        time.sleep(2)
    finally:
        faulty_cluster.boot_node(node)
    faulty_cluster.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False)
    completes(faulty_cluster, run, undisturbed, requeues=1)
