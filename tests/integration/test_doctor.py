"""The doctor on a real cluster: what is well, and what would have waited for ever."""

import os
import subprocess
import sys

import pytest
from training_run import JOB, ROOT

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def examine(tmp_path):
    job_file = tmp_path / "tiny.toml"
    job_file.write_text(JOB)

    def run(cluster, *arguments):
        return subprocess.run(
            [
                *(sys.executable, "-c", "from hybridjob.cli import main; main()", "doctor"),
                *(str(job_file), f"run_folder={tmp_path / 'run'}", *arguments),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **cluster.environment()},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    return run


def test_nodes_with_networks_of_their_own_are_well(netns_cluster, examine):
    done = examine(netns_cluster, "--on-nodes", "--wait", "90")
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "ok    het jobs: allowed (sched/backfill",
        "ok    sbatch, whole job: Job",
        "ok    ranks: all 5 started, on 4 nodes",
        "ok    shared folder:",
        "ok    connections: 12 between nodes",
    ):
        assert line in done.stdout
    jobs = netns_cluster.run(["squeue", "-h", "-o", "%i %j %T"]).stdout
    assert "tiny-doctor RUNNING" not in jobs
    assert "tiny-doctor PENDING" not in jobs


def test_a_job_that_slurm_would_take_and_never_start(cluster, examine):
    done = examine(cluster, "ps.partition=gpu", "trainer.partition=gpu", "--on-nodes")
    assert done.returncode == 1
    assert "ok    sbatch, whole job" in done.stdout  # sbatch sees nothing wrong
    assert "bad   nodes: master+ps and trainer want 4 nodes together, but only 2" in done.stdout
    assert "the nodes are not tried" in done.stdout


def test_a_partition_and_a_size_that_are_not_there(cluster, examine):
    done = examine(cluster, "ps.partition=nope", "trainer.mem=900G", "trainer.gpus_per_node=9")
    assert done.returncode == 1
    assert "nope is not there; there are bigmem, gpu" in done.stdout
    assert "with 1 core, 900G of memory, 9 GPUs, 2 are asked" in done.stdout
    assert "bad   sbatch, master+ps: sbatch: error: invalid partition" in done.stdout
