"""Training on a real Slurm, from submit.py to summary.json."""

import json

import pytest
from training_run import JOB, RANKS, ROOT, Training, processes_of, submit

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(JOB)
    return path


def completed(run):
    assert run.returncode == 0, run.said
    assert run.summary["state"] == "completed"
    return run.summary


def test_movielens_trains_on_a_cluster_whose_trainers_sort_first(cluster, tmp_path):
    run = submit(
        tmp_path / "run",
        ROOT / "examples" / "movielens.toml",
        *("ps.partition=bigmem", "trainer.partition=gpu", "trainer.nodes=2"),
        *("trainer.tasks_per_node=1", "training.epochs=1", "--wait"),
        cluster=cluster,
        timeout_s=180,
    )
    if "could not be fetched" in run.said:
        pytest.skip("MovieLens-100K cannot be fetched from here")
    assert completed(run)["test"]["auc"] > 0.75
    assert run.ranks_with_logs == RANKS
    assert "zeta0" in run.log("master")
    hosts = [run.log(name) for name in ("ps0", "ps1", "trainer0", "trainer1")]
    for text, host in zip(hosts, ["zeta0", "zeta0", "alpha0", "alpha1"], strict=True):
        assert f"host={host}" in text


def test_slurm_and_the_local_executor_give_the_same_state(
    cluster, tmp_path, job_file, expected_digest
):
    run = submit(tmp_path / "run", job_file, "--wait", cluster=cluster)
    assert completed(run)["state_digest"] == expected_digest
    assert run.ranks_with_logs == RANKS
    assert f"job {run.job_id}: 1 master, 2 servers, 2 trainers" in run.stdout
    assert (run.folder / f"{run.job_id}_submission.sh").is_file()


def test_two_jobs_train_on_the_same_nodes_at_once(cluster, tmp_path, job_file, expected_digest):
    runs = [submit(tmp_path / name, job_file, cluster=cluster) for name in ("one", "two")]
    for run in runs:
        assert run.returncode == 0, run.said
        job_id = run.stdout.split()[1].rstrip(":")
        cluster.wait_for_state(job_id, {"COMPLETED"}, 270)
    for name in ("one", "two"):
        (folder,) = (one for one in (tmp_path / name).iterdir() if one.is_dir())
        assert Training(folder).summary["state_digest"] == expected_digest


def test_nodes_with_networks_of_their_own_train_together(
    netns_cluster, tmp_path, job_file, expected_digest
):
    run = submit(tmp_path / "run", job_file, "--wait", cluster=netns_cluster)
    assert completed(run)["state_digest"] == expected_digest
    (file,) = (run.folder / "rendezvous").iterdir()
    endpoint = json.loads(file.read_text())
    assert endpoint["addresses"] == [netns_cluster.site.addresses["zeta0"]]


def test_accounting_knows_that_the_training_completed(
    accounting_cluster, tmp_path, job_file, expected_digest, eventually
):
    run = submit(tmp_path / "run", job_file, "--wait", cluster=accounting_cluster)
    assert completed(run)["state_digest"] == expected_digest
    argv = ["sacct", "-n", "-P", "-X", "-o", "JobID,State", "-j", run.job_id]
    expected = f"{run.job_id}+0|COMPLETED\n{run.job_id}+1|COMPLETED\n"
    eventually(lambda: accounting_cluster.run(argv).stdout == expected, 90)


def test_what_sbatch_refuses_is_one_message(cluster, tmp_path, job_file):
    run = submit(tmp_path / "run", job_file, "ps.partition=nope", cluster=cluster)
    assert run.returncode == 1
    assert "invalid partition specified: nope" in run.stderr
    assert "Traceback" not in run.said
    assert processes_of(tmp_path / "run") == {}
