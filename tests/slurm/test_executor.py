import os
import stat

import pytest
from submitit.core import utils

import slurm.job
from slurm.component import Component
from slurm.errors import SubmissionError
from slurm.executor import HetExecutor
from slurm.job import HetJob

COMPONENTS = [Component(name="ps", num_tasks=2), Component(name="trainer", num_tasks=3)]


@pytest.fixture
def fake_slurm(tmp_path, monkeypatch):
    """A folder that is the whole PATH but for the system's; returns what adds a command to it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def add(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)

    for name in ("squeue", "sacct", "scontrol", "scancel"):
        add(name, "exit 1")
    return add


def executor(tmp_path, **changes):
    return HetExecutor(tmp_path / "run" / "%j", components=COMPONENTS, job_name="x", **changes)


def test_the_script_needs_no_slurm(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert executor(tmp_path).script().startswith("#!/bin/bash\n# x: one heterogeneous job")
    assert not (tmp_path / "run").exists()


def test_what_is_submitted_is_the_script_byte_for_byte(tmp_path, fake_slurm):
    fake_slurm("sbatch", f'cp "$2" {tmp_path}/seen.sh; echo "42;cluster"')
    job = executor(tmp_path, environment={"A": "b c"}).submit(print)
    expected = executor(tmp_path, environment={"A": "b c"}).script()
    assert (tmp_path / "seen.sh").read_text() == expected
    assert job.paths.submission_file.read_text() == expected
    assert job.paths.submission_file == tmp_path / "run/42/42_submission.sh"


def test_tasks_in_a_container_have_a_python_of_their_own(tmp_path):
    script = executor(tmp_path, python="/sw/python3", task_python="/usr/bin/python3").script()
    assert "    /usr/bin/python3 -u -m submitit.core._submit " in script
    assert "exec /sw/python3 -u -m slurm.batch " in script
    assert script.count("/usr/bin/python3") == 1


def test_the_job_counts_the_ranks_of_all_components(tmp_path, fake_slurm):
    fake_slurm("sbatch", "echo 42")
    job = executor(tmp_path).submit(print)
    assert isinstance(job, HetJob)
    assert (job.job_id, job.num_tasks) == ("42", 5)
    assert job.task(4).paths.stdout == tmp_path / "run/42/42_4_log.out"


def test_pickles_lie_where_only_the_user_can_open_them(tmp_path, fake_slurm):
    fake_slurm("sbatch", "echo 42")
    job = executor(tmp_path).submit(print)
    assert stat.S_IMODE(job.paths.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(job.paths.submitted_pickle.stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["42"]


def test_a_refusal_carries_sbatchs_own_message_and_leaves_nothing(tmp_path, fake_slurm):
    fake_slurm("sbatch", "echo 'sbatch: error: invalid partition specified: nope' >&2; exit 1")
    with pytest.raises(SubmissionError, match="invalid partition specified: nope"):
        executor(tmp_path).submit(print)
    assert list((tmp_path / "run").iterdir()) == []


def test_an_answer_without_an_id_is_refused(tmp_path, fake_slurm):
    fake_slurm("sbatch", "echo hello")
    with pytest.raises(SubmissionError, match="in which there is no job id"):
        executor(tmp_path).submit(print)


def test_a_folder_that_cannot_be_made_is_named(tmp_path, fake_slurm):
    fake_slurm("sbatch", "echo 42")
    (tmp_path / "run").write_text("a file")
    with pytest.raises(SubmissionError, match=r"the folder .*/run cannot be made"):
        executor(tmp_path).submit(print)


def test_variables_of_an_outer_job_do_not_reach_sbatch(tmp_path, fake_slurm, monkeypatch):
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    monkeypatch.setenv("SLURM_CONF", "/etc/my.conf")
    fake_slurm("sbatch", f"env >{tmp_path}/env; echo 42")
    executor(tmp_path).submit(print)
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert "SLURM_CONF" in names
    assert "SLURM_CPUS_PER_TASK" not in names


def test_several_submissions_are_jobs_of_their_own(tmp_path, fake_slurm):
    fake_slurm("sbatch", f"echo x >>{tmp_path}/n; wc -l <{tmp_path}/n")
    jobs = executor(tmp_path).map_array(print, [1, 2, 3])
    assert [type(job) for job in jobs] == [HetJob] * 3
    assert [job.job_id for job in jobs] == ["1", "2", "3"]
    run = executor(tmp_path)
    with run.batch():
        batched = run.submit(print)
    assert (type(batched), batched.job_id) == (HetJob, "4")


def test_resources_cannot_be_changed_by_submitits_names(tmp_path):
    with pytest.raises(ValueError, match="nodes: the resources of a het job"):
        executor(tmp_path).update_parameters(nodes=3)


@pytest.fixture
def job(tmp_path, fake_slurm, monkeypatch):
    watcher = slurm.job.HetInfoWatcher(delay_s=0)
    monkeypatch.setattr(HetJob, "watcher", watcher)
    fake_slurm("sbatch", "echo 42")
    return executor(tmp_path).submit(print)


def test_a_job_is_done_when_slurm_says_so(job, fake_slurm):
    fake_slurm("squeue", "echo '42+0|RUNNING'; echo '42+1|RUNNING'")
    assert job.done(force_check=True) is False
    fake_slurm("squeue", "echo '42+0|FAILED'; echo '42+1|FAILED'")
    assert job.done(force_check=True) is True
    assert job.state == "FAILED"


def test_a_job_that_slurm_forgot_is_judged_by_what_its_script_left(job, fake_slurm):
    for name in ("squeue", "scontrol"):
        fake_slurm(name, "echo 'Invalid job id specified' >&2; exit 1")
    assert job.state == "FORGOTTEN"
    (job.paths.folder / "42_exit_code").write_text("0\n")
    assert job.state == "COMPLETED"
    (job.paths.folder / "42_exit_code").write_text("143\n")
    assert job.state == "FAILED"


def test_without_any_command_the_scripts_own_word_ends_the_wait(job):
    assert job.state == "UNKNOWN"
    assert job.done() is False
    (job.paths.folder / "42_exit_code").write_text("0\n")
    assert job.done() is True


def test_a_code_written_before_a_requeue_does_not_end_the_job(job, fake_slurm):
    fake_slurm("squeue", "echo '42+0|PENDING'; echo '42+1|PENDING'")
    (job.paths.folder / "42_exit_code").write_text("143\n")
    assert job.done(force_check=True) is False


def test_cancel_names_the_leader(job, fake_slurm, tmp_path):
    fake_slurm("scancel", f'echo "$@" >{tmp_path}/cancelled')
    job.cancel()
    assert (tmp_path / "cancelled").read_text() == "42\n"


def test_the_error_is_that_of_the_rank_that_wrote_first(job, fake_slurm):
    fake_slurm("squeue", "echo '42+0|FAILED'; echo '42+1|FAILED'")
    for rank, mtime in ((1, 2000), (3, 1000)):
        path = job.task(rank).paths.result_pickle
        utils.cloudpickle_dump(("error", f"trace of {rank}"), path)
        os.utime(path, (mtime, mtime))
    job.done(force_check=True)
    assert "trace of 3" in str(job.exception())


def test_a_warning_longer_before_the_limit_than_the_limit_is_refused(tmp_path):
    components = [Component(name="ps", num_tasks=1, time="2"), Component(name="t", num_tasks=1)]
    short = HetExecutor(tmp_path / "%j", components=components, job_name="x", signal_delay_s=120)
    with pytest.raises(ValueError, match=r"time limit is 2 \(120 s\), but signal_delay_s = 120"):
        short.script()
