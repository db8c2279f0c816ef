"""The ready-made batch scripts, edited as a person edits them and given to plain sbatch."""

import pytest
from training_run import JOB, RANKS, Training, edited, submit_by_hand

pytestmark = pytest.mark.timeout(200)

SERVERS = {"partition": "bigmem", "nodes": 2, "ntasks": 3, "ntasks-per-node": 2}
TRAINERS = {"partition": "gpu", "nodes": 2, "ntasks": 2, "ntasks-per-node": 1}
SMALL = {"cpus-per-task": 1, "mem": "500M", "time": "5:00"}
CHANGES = {
    **{(0, key): value for key, value in {**SERVERS, **SMALL}.items()},
    **{(1, key): value for key, value in {**TRAINERS, **SMALL}.items()},
    (1, "SERVER_CPUS"): 1,
    (1, "TRAINER_CPUS"): 1,
}


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(JOB)
    return path


def assert_it_trains(cluster, folder, text, digest):
    arguments = (folder / "tiny.toml", f"run_folder={folder / 'run'}")
    job_id = submit_by_hand(cluster, folder, text, *arguments)
    cluster.wait_for_state(job_id, {"COMPLETED"}, 270)
    run = Training(folder / "run" / job_id)
    assert run.summary["state_digest"] == digest
    assert run.ranks_with_logs == RANKS


@pytest.mark.usefixtures("job_file")
def test_the_template_for_cpus_trains_as_submit_does(cluster, tmp_path, expected_digest):
    assert_it_trains(cluster, tmp_path, edited("cpu_only.sbatch", CHANGES), expected_digest)


@pytest.mark.usefixtures("job_file")
def test_the_template_for_gpus_trains_as_submit_does(cluster, tmp_path, expected_digest):
    changes = {**CHANGES, (1, "gpus-per-node"): 1}
    text = edited("cpu_servers_gpu_trainers.sbatch", changes)
    assert_it_trains(cluster, tmp_path, text, expected_digest)


def test_sizes_that_differ_from_the_job_files_are_both_named(cluster, tmp_path, job_file):
    text = edited("cpu_only.sbatch", CHANGES)
    arguments = (f"run_folder={tmp_path / 'run'}", "ps.tasks_per_node=2")
    job_id = submit_by_hand(cluster, tmp_path, text, job_file, *arguments)
    cluster.wait_for_state(job_id, {"FAILED"}, 180)
    said = (tmp_path / f"slurm-{job_id}.log").read_text()
    assert "the job file makes 7 tasks (1 master, 4 servers, 2 trainers)" in said
    assert "SLURM_NTASKS is 5" in said
    assert "Traceback" not in said
