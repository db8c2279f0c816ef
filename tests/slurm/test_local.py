import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from submitit.core import utils

from slurm.component import Component
from slurm.errors import LocalJobError
from slurm.local import LocalExecutor
from slurm.local_job import LocalHetJob

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60


@pytest.fixture(autouse=True)
def package_is_importable_in_tasks(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


def executor(tmp_path, *sizes, **changes):
    components = [Component(name=f"c{i}", num_tasks=size) for i, size in enumerate(sizes)]
    return LocalExecutor(
        tmp_path / "run" / "%j", components=components, job_name="x", grace_s=1, **changes
    )


def eventually(check, what):
    """Poll until check() gives something true, and return that."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.02)
    pytest.fail(f"not within {DEADLINE_S} s: {what}")


def processes_of(mark: str) -> list[int]:
    """List the processes that have MARK=mark in their environment."""
    wanted = f"MARK={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


# Functions are made inside functions, so that they are pickled by value.
def returning_the_placement():
    def task():
        import os  # noqa: PLC0415
        import sys  # noqa: PLC0415

        from slurm.placement import read_placement  # noqa: PLC0415

        placement = read_placement(os.environ)
        print("out of", placement.rank)
        print("err of", placement.rank, file=sys.stderr)
        return placement

    return task


def sleeping(*, but_rank=None, then="raise", child=False):
    """Make a task that sleeps for a minute, but for one rank, which ends in some way."""

    def task():
        import os  # noqa: PLC0415
        import signal  # noqa: PLC0415
        import subprocess  # noqa: PLC0415
        import time  # noqa: PLC0415

        if child:
            subprocess.Popen(["sleep", "60"], start_new_session=True)
        print("ready", flush=True)
        if int(os.environ["SLURM_PROCID"]) == but_rank:
            if then == "raise":
                raise ValueError(f"rank {but_rank} will not")
            if then == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(7)
        time.sleep(60)

    return task


def test_the_script_shows_every_process(tmp_path):
    text = executor(tmp_path, 1, 2, environment={"A": "b c"}).script()
    assert "export A='b c'\n" in text
    assert [line for line in text.splitlines() if line.startswith("# c")] == ["# c0", "# c1"]
    assert text.count("-m submitit.core._submit") == 3
    assert not (tmp_path / "run").exists()


@pytest.mark.processes
def test_every_rank_runs_with_a_het_steps_variables(tmp_path):
    job = executor(tmp_path, 1, 2, 1).submit(returning_the_placement())
    placements = job.results()
    assert [placement.rank for placement in placements] == [0, 1, 2, 3]
    assert [placement.component for placement in placements] == [0, 1, 1, 2]
    assert {placement.component_sizes for placement in placements} == {(1, 2, 1)}
    assert {placement.job_id for placement in placements} == {job.job_id}
    assert placements[3].master_host == "localhost"
    assert job.state == "COMPLETED"
    assert job.exit_codes == (0, 0, 0, 0)
    assert job.exception() is None
    assert job.task(2).result().rank == 2
    assert "out of 2" in job.task(2).stdout()
    assert "err of 3" in job.task(3).stderr()


@pytest.mark.processes
def test_a_job_of_one_task_has_a_result(tmp_path):
    job = executor(tmp_path, 1).submit(lambda a, b: a + b, 1, b=2)
    assert job.result() == 3


@pytest.mark.processes
def test_its_folder_is_for_the_user_only(tmp_path):
    job = executor(tmp_path, 1).submit(int)
    assert stat.S_IMODE(job.paths.folder.stat().st_mode) == 0o700
    assert job.result() == 0


@pytest.mark.processes
def test_two_jobs_of_the_same_second_have_ids_of_their_own(tmp_path):
    first, second = executor(tmp_path, 1).map_array(abs, [-1, -2])
    assert first.job_id != second.job_id
    assert "_" not in first.job_id + second.job_id
    assert (first.result(), second.result()) == (1, 2)


@pytest.mark.processes
def test_24_tasks_run_at_once(tmp_path):
    job = executor(tmp_path, 4, 20).submit(os.getpid)
    assert len(set(job.results())) == 24


@pytest.mark.processes
def test_variables_of_an_outer_job_do_not_reach_the_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "5")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "9")
    job = executor(tmp_path, 1, environment={"A": "b"}).submit(lambda: dict(os.environ))
    env = job.result()
    assert env["A"] == "b"
    assert "SLURM_RESTART_COUNT" not in env
    assert "SLURM_ARRAY_JOB_ID" not in env


@pytest.mark.processes
@pytest.mark.parametrize(
    ("then", "code", "message"),
    [
        ("raise", 1, "rank 2 of local job .* ended with code 1.*ValueError: rank 2 will not"),
        ("kill", -9, "rank 2 of local job .* was killed by SIGKILL"),
        ("exit", 7, "rank 2 of local job .* ended with code 7"),
    ],
)
def test_the_first_rank_that_fails_ends_all_and_is_named(tmp_path, then, code, message):
    mark = f"{tmp_path}-{then}"
    run = executor(tmp_path, 1, 3, environment={"MARK": mark})
    job = run.submit(sleeping(but_rank=2, then=then, child=True))
    started = time.monotonic()
    error = job.exception()
    assert time.monotonic() - started < 30
    assert isinstance(error, LocalJobError)
    assert isinstance(error, utils.FailedJobError)
    with pytest.raises(LocalJobError, match=f"(?s){message}"):
        job.results()
    assert job.state == "FAILED"
    assert job.exit_codes[2] == code
    assert all(other != 0 for other in job.exit_codes)
    assert processes_of(mark) == []


@pytest.mark.processes
def test_cancel_ends_all_tasks(tmp_path):
    mark = str(tmp_path)
    job = executor(tmp_path, 1, 2, environment={"MARK": mark}).submit(sleeping())
    eventually(lambda: "ready" in (job.task(2).stdout() or ""), "rank 2 is ready")
    assert job.state == "RUNNING"
    assert job.done() is False
    job.cancel()
    assert job.state == "CANCELLED"
    assert processes_of(mark) == []
    with pytest.raises(LocalJobError, match="was cancelled"):
        job.results()
    job.cancel()


@pytest.mark.processes
def test_another_process_can_see_and_cancel_a_job(tmp_path):
    submitter, state_file = start_submitter(tmp_path)
    job = LocalHetJob(tmp_path / "%j", state_file.name.partition("_")[0], [0, 1, 2])
    assert job.state == "RUNNING"
    job.cancel()
    assert job.state == "CANCELLED"
    assert submitter.wait(DEADLINE_S) == 0
    assert processes_of(str(tmp_path)) == []
    submitter.stdout.close()


@pytest.mark.processes
def test_a_python_that_is_not_there_is_a_failure_with_its_name(tmp_path):
    job = executor(tmp_path, 2, python="/no/such/python").submit(int)
    with pytest.raises(LocalJobError, match=r"rank 0 .*No such file.*'/no/such/python'"):
        job.results()


@pytest.mark.processes
def test_a_killed_controller_takes_its_tasks_along(tmp_path):
    mark = str(tmp_path)
    run = executor(tmp_path, 1, 1, environment={"MARK": mark})
    job = run.submit(sleeping(child=True))
    eventually(lambda: "ready" in (job.task(1).stdout() or ""), "rank 1 is ready")
    os.kill(job.local_state.controller_pid, signal.SIGKILL)
    job.wait()
    assert job.state == "NODE_FAIL"
    eventually(lambda: processes_of(mark) == [], "no task is left")
    with pytest.raises(LocalJobError, match="lost its controller"):
        job.results()


SUBMITTER = """
import sys
from slurm.component import Component
from slurm.local import LocalExecutor
import tests_local
parts = [Component(name="a"), Component(name="b", num_tasks=2)]
run = LocalExecutor(sys.argv[1], components=parts, job_name="x", grace_s=1)
job = run.submit(tests_local.sleeping(child=True))
print(job.job_id, flush=True)
job.wait()
"""


def start_submitter(tmp_path):
    """Start a process that submits a job and waits; return it, and how to see the job's state."""
    # The functions of this file, under a name that the submitter can import.
    (tmp_path / "tests_local.py").write_text(Path(__file__).read_text(encoding="utf-8"))
    python_path = os.pathsep.join([str(tmp_path), str(ROOT)])
    submitter = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, str(tmp_path / "%j")],
        env={**os.environ, "PYTHONPATH": python_path, "MARK": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    job_id = submitter.stdout.readline().strip()
    folder = tmp_path / job_id
    log = folder / f"{job_id}_2_log.out"
    eventually(lambda: log.exists() and "ready" in log.read_text(), "rank 2 is ready")
    return submitter, folder / f"{job_id}_state.json"


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_task_outlives_the_submitter(tmp_path, number):
    submitter, state_file = start_submitter(tmp_path)
    os.killpg(submitter.pid, number)  # as a terminal does on Ctrl-C
    submitter.wait(DEADLINE_S)
    eventually(lambda: '"CANCELLED"' in state_file.read_text(), "the job is cancelled")
    cause = json.loads(state_file.read_text())["cause"]
    if number == signal.SIGINT:  # wait() cancels the job on its way out: nothing unforeseen
        assert cause is None
    else:
        assert "the process that submitted it, with which it ends, was killed" in cause["error"]
    eventually(lambda: processes_of(str(tmp_path)) == [], "no process is left")
    submitter.stdout.close()
