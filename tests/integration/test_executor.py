"""The executor on a real Slurm, with plain functions."""

import os
import stat
from pathlib import Path

import pytest
import rank_functions

from slurm.component import Component
from slurm.errors import SubmissionError
from slurm.executor import HetExecutor
from slurm.query import parse_table

pytestmark = pytest.mark.timeout(300)

SERVERS = Component(name="ps", partition="bigmem", nodes=2, num_tasks=3)
TRAINERS = Component(name="trainer", partition="gpu", nodes=2, num_tasks=2)
MASTER = Component(name="master", partition="bigmem")
ONE_SERVER = Component(name="ps", partition="bigmem", num_tasks=2)
ROOT = Path(__file__).resolve().parents[2]
CODE = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])


@pytest.fixture
def executor_on(tmp_path, monkeypatch):
    """Make executors for a cluster: executor_on(cluster, components) -> HetExecutor."""

    def make(cluster, components, **more):
        for name, value in cluster.environment().items():
            monkeypatch.setenv(name, value)
        environment = {"PYTHONPATH": CODE}
        return HetExecutor(
            tmp_path / "%j", components=components, job_name="test", environment=environment, **more
        )

    return make


def state_now(job):
    """Give the state without the watcher's delay between two questions."""
    job.watcher.update()
    return job.state


def is_gone(cluster, job):
    """Tell whether neither the queue nor a node has anything of a job."""
    queue = cluster.run(["squeue", "-h", "-j", job.job_id, "-o", "%T"], check=False).stdout
    return not queue.strip() and not job_processes(cluster, job)


def job_processes(cluster, job):
    wanted = f"SLURM_JOB_ID={job.job_id}".encode()
    found = []
    for pid in cluster.processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # it has just ended
            continue
        if wanted in environment.split(b"\0"):
            found.append(pid)
    return found


def test_every_rank_of_two_components_knows_its_place_and_has_its_own_logs(cluster, executor_on):
    job = executor_on(cluster, [SERVERS, TRAINERS]).submit(rank_functions.tell_placement)
    results = job.results()
    assert [one["rank"] for one in results] == [0, 1, 2, 3, 4]
    # Three tasks on two nodes: the first host has rank 0, the extra one too.
    assert [one["host"] for one in results] == ["zeta0", "zeta1", "zeta0", "alpha0", "alpha1"]
    assert [one["component"] for one in results] == [0, 0, 0, 1, 1]
    assert [one["component_rank"] for one in results] == [0, 1, 2, 0, 1]
    assert {(one["master_host"], one["num_tasks"]) for one in results} == {("zeta0", 5)}
    for rank in range(5):
        assert f"rank {rank} to stdout" in job.task(rank).stdout()
        assert job.task(rank).stderr().strip().endswith(f"rank {rank} to stderr")
        assert job.task(rank).result() == results[rank]


@pytest.mark.parametrize(
    ("components", "hosts"),
    [
        ([ONE_SERVER], ["zeta0", "zeta0"]),
        ([MASTER, Component(name="ps", partition="bigmem"), TRAINERS],
         ["zeta0", "zeta1", "alpha0", "alpha1"]),
    ],
    ids=["one", "three"],
)  # fmt: skip
def test_one_and_three_components_count_their_ranks_in_order(
    cluster, executor_on, components, hosts
):
    job = executor_on(cluster, components).submit(rank_functions.tell_placement)
    results = job.results()
    assert [one["host"] for one in results] == hosts
    assert [one["rank"] for one in results] == list(range(len(hosts)))
    assert job.exception() is None


def test_an_error_in_one_rank_ends_the_job_and_is_what_it_shows(cluster, executor_on, eventually):
    job = executor_on(cluster, [SERVERS, TRAINERS]).submit(rank_functions.fail_in_rank, 3)
    assert "rank 3 has had enough" in str(job.exception())
    eventually(lambda: state_now(job) == "FAILED", 90)
    with pytest.raises(Exception, match="rank 3 has had enough"):
        job.results()
    eventually(lambda: is_gone(cluster, job), 90)


def test_cancel_ends_all_components_and_their_processes(cluster, executor_on, eventually, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    job = executor_on(cluster, [SERVERS, TRAINERS]).submit(rank_functions.stay, here)
    eventually(lambda: len(list(here.iterdir())) == 5, 90)
    assert state_now(job) == "RUNNING"
    assert len(job_processes(cluster, job)) >= 5
    job.cancel()
    eventually(lambda: state_now(job) == "CANCELLED", 90)
    eventually(lambda: is_gone(cluster, job), 90)
    assert job.done()


def test_what_sbatch_says_to_a_bad_partition_is_told(cluster, executor_on, tmp_path):
    component = Component(name="ps", partition="nowhere")
    with pytest.raises(SubmissionError, match="invalid partition specified: nowhere"):
        executor_on(cluster, [component, TRAINERS]).submit(rank_functions.tell_placement)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("components", [[ONE_SERVER], [SERVERS, TRAINERS]], ids=["one", "two"])
def test_the_script_that_slurm_got_is_the_one_that_was_shown(cluster, executor_on, components):
    executor = executor_on(cluster, components)
    shown = executor.script()
    job = executor.submit(rank_functions.tell_placement)
    assert job.paths.submission_file.read_text() == shown
    assert stat.S_IMODE(job.paths.folder.stat().st_mode) == 0o700
    if len(components) == 1:  # of a het job Slurm keeps a copy without the components' lines
        stored = cluster.run(["scontrol", "write", "batch_script", job.job_id, "-"]).stdout
        assert stored.rstrip("\n") == shown.rstrip("\n")
    job.results()


def test_a_job_submits_another_from_inside(cluster, executor_on, tmp_path):
    outer = Component(name="outer", partition="bigmem", cpus_per_task=3)
    job = executor_on(cluster, [outer]).submit(rank_functions.submit_another, tmp_path)
    (inner,) = job.results()
    assert [(one["rank"], one["host"], one["num_tasks"]) for one in inner] == [
        (0, "alpha0", 2), (1, "alpha0", 2)
    ]  # fmt: skip


def test_two_jobs_run_on_the_same_nodes_at_once(cluster, executor_on, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    executor = executor_on(cluster, [SERVERS, TRAINERS])
    jobs = [executor.submit(rank_functions.meet_in, here, 10) for _ in range(2)]
    assert [job.results() for job in jobs] == [[0, 1, 2, 3, 4]] * 2


def ends(cluster, make, tmp_path, eventually):
    """Give what is said of a job that completes, one that fails and one that is cancelled."""
    executor = make(cluster, [MASTER, Component(name="trainer", partition="gpu")])
    completes = executor.submit(rank_functions.tell_placement)
    fails = executor.submit(rank_functions.fail_in_rank, 1)
    cancelled = executor.submit(rank_functions.stay, tmp_path)
    eventually((tmp_path / "1").exists, 180)
    cancelled.cancel()
    completes.wait()
    jobs = [completes, fails, cancelled]
    eventually(lambda: all(job.watcher.update() or job.done() for job in jobs), 180)
    eventually(lambda: "COMPLETING" not in map(state_now, jobs), 90)
    return jobs, [state_now(job) for job in jobs]


def test_states_are_told_without_accounting(cluster, executor_on, tmp_path, eventually):
    _, states = ends(cluster, executor_on, tmp_path, eventually)
    assert states == ["COMPLETED", "FAILED", "CANCELLED"]


def test_states_are_told_with_accounting(accounting_cluster, executor_on, tmp_path, eventually):
    jobs, states = ends(accounting_cluster, executor_on, tmp_path, eventually)
    assert states == ["COMPLETED", "FAILED", "CANCELLED"]
    ids = [job.job_id for job in jobs]
    argv = ["sacct", "-n", "-P", "-X", "-o", "JobID,State", "-j", ",".join(ids)]

    def by_sacct():
        table = parse_table(accounting_cluster.run(argv).stdout)
        return [table[job_id].value for job_id in ids] == states

    eventually(by_sacct, 90)
