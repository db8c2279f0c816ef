"""The batch script's process, with small shell scripts as srun and a Slurm that is made up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm.batch import Batch
from slurm.command import CommandResult
from slurm.errors import CommandError
from slurm.own_job import component_ids

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "SLURM_JOB_ID": "67",
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_ID_HET_GROUP_0": "67",
    "SLURM_JOB_ID_HET_GROUP_1": "68",
}


class Slurm:
    """A controller: what it answers is in its attributes, what it was asked in `asked`."""

    def __init__(self):
        self.states = "67+0|RUNNING\n67+1|RUNNING\n"
        self.steps = {"67": ["67.batch"], "68": []}
        self.asked = []
        self.time_left = "1-00:00:00\nUNLIMITED\n"

    def __call__(self, argv, *, timeout_s, env):
        assert "SLURM_JOB_ID" not in env
        self.asked.append(" ".join(argv[:2]))
        match argv:
            case ["squeue", _, "--steps", jobs, *_]:
                return self._say("\n".join(self.steps[jobs.removeprefix("--jobs=")]))
            case ["squeue", _, "--states=all", *_]:
                return self._say(self.states)
            case ["squeue", _, _, "-o", "%L"]:
                return self._say(self.time_left)
            case ["squeue", _, _, "-O", *_]:
                return self._say("N/A\nN/A\n")
            case ["scancel", step]:
                for steps in self.steps.values():
                    steps[:] = [one for one in steps if one != step]
            case ["scontrol", "requeue", "67"]:
                os.kill(os.getpid(), signal.SIGTERM)  # as Slurm does to the batch script
            case _:
                pytest.fail(f"unexpected: {argv}")
        return self._say("")

    @staticmethod
    def _say(text):
        return CommandResult(stdout=text, stderr="")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    (tmp_path / "scontrol").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return Slurm()


@pytest.fixture
def run_batch(tmp_path, slurm):
    """Run a batch whose srun is a line of bash; returns the exit code."""
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    before = {number: signal.getsignal(number) for number in numbers}

    def run(script, **more):
        return Batch(
            ["bash", "-c", script],
            environment=ENVIRONMENT,
            wish_file=tmp_path / "exit_wish",
            **{"folder": tmp_path, "run": slurm, **more},
        ).run()

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def code_file(tmp_path):
    path = tmp_path / "67_exit_code"
    return path.read_text() if path.exists() else None


def test_a_step_that_succeeds_ends_the_batch_script_without_a_word(run_batch, tmp_path, capfd):
    assert run_batch("exit 0") == 0
    assert code_file(tmp_path) == "0\n"
    assert capfd.readouterr().out == ""


def test_a_lost_step_is_tried_again_and_told_its_attempt(run_batch, tmp_path, capfd):
    script = 'echo "attempt $HETJOB_ATTEMPT"; exit $((HETJOB_ATTEMPT < 1 ? 143 : 0))'
    assert run_batch(script) == 0
    said = capfd.readouterr().out.splitlines()
    assert [said[0], said[1].partition(" ")[2], said[2]] == [
        "attempt 0",
        "batch: srun ended with 143, trying again (attempt 2 of 3)",
        "attempt 1",
    ]


def test_near_the_time_limit_a_lost_step_sends_the_job_back_to_the_queue(run_batch, slurm):
    slurm.time_left = "2:59\nUNLIMITED\n"
    assert run_batch("exit 138", quick_s=0) == 75
    assert "scontrol requeue" in slurm.asked


def test_what_fails_at_once_is_not_put_down_to_the_time_limit(run_batch, slurm):
    slurm.time_left = "2:59\n"
    assert run_batch("exit 9", max_attempts=2) == 9
    assert "scontrol requeue" not in slurm.asked


def test_attempts_are_bounded_and_the_last_code_is_sruns(run_batch, tmp_path):
    assert run_batch("echo >>$(dirname $HETJOB_EXIT_WISH)/runs; exit 9", max_attempts=2) == 9
    assert (tmp_path / "runs").read_text() == "\n\n"
    assert code_file(tmp_path) == "9\n"


@pytest.mark.parametrize("script", ["exit 70", "echo give up >$HETJOB_EXIT_WISH; exit 143"])
def test_a_job_that_gives_up_is_not_tried_again(run_batch, slurm, script):
    assert run_batch(script) == 70
    assert "scontrol requeue" not in slurm.asked


@pytest.mark.parametrize("script", ["exit 75", "echo requeue >$HETJOB_EXIT_WISH; exit 137"])
def test_a_job_that_asks_for_another_life_is_requeued_and_leaves_no_code(
    run_batch, slurm, tmp_path, script, capfd
):
    assert run_batch(script) == 75
    assert slurm.asked[-1] == "scontrol requeue"
    assert code_file(tmp_path) is None
    assert "sending job 67 back to the queue" in capfd.readouterr().out


def test_a_cancelled_job_is_neither_requeued_nor_tried_again(run_batch, slurm, tmp_path):
    slurm.states = "67+0|COMPLETING\n67+1|CANCELLED\n"
    assert run_batch("exit 75") == 75
    assert run_batch("exit 143") == 143
    assert "scontrol requeue" not in slurm.asked
    assert code_file(tmp_path) == "143\n"


def test_a_zero_of_an_srun_that_slurm_has_ended_is_no_success(run_batch, slurm):
    slurm.states = "67+0|COMPLETING\n67+1|NODE_FAIL\n"
    assert run_batch("exit 0") == 143


def test_a_node_without_scontrol_ends_with_75(run_batch, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", "/nowhere")
    assert run_batch("exit 75") == 75
    assert "scontrol is not on this node" in capfd.readouterr().out
    assert code_file(tmp_path) == "75\n"


def test_steps_of_an_earlier_life_are_ended_before_srun_starts(run_batch, slurm, capfd):
    slurm.steps = {"67": ["67.batch", "67.0"], "68": ["68.0"]}
    assert run_batch("exit 0") == 0
    assert "ended what an earlier life or attempt had left: 68.0" in capfd.readouterr().out
    assert slurm.steps == {"67": ["67.batch", "67.0"], "68": []}


def test_stale_results_and_wishes_are_gone_before_each_step(run_batch, tmp_path):
    names = ["67_0_result.pkl", "67_1_result.pkl.save_tmp", "67_exit_code", "exit_wish"]
    kept = ["67_submitted.pkl", "68_0_result.pkl"]
    touch = "touch " + " ".join(str(tmp_path / name) for name in names)
    for name in names + kept:
        (tmp_path / name).touch()
    listing = f"cd {tmp_path}; ls 6* exit_wish 2>/dev/null >ls.$HETJOB_ATTEMPT"
    script = f"{listing}; {touch}; exit $((1 - HETJOB_ATTEMPT))"
    assert run_batch(script) == 0
    for attempt in ("0", "1"):
        assert (tmp_path / f"ls.{attempt}").read_text().split() == kept


def test_an_srun_that_outlives_the_last_word_of_its_tasks_is_ended(run_batch, capfd):
    assert run_batch("echo done >$HETJOB_EXIT_WISH; exec sleep 60", linger_s=0.1) == 0
    assert "ending it" in capfd.readouterr().out


def test_a_missing_srun_is_told_once(tmp_path, slurm, run_batch, capfd):
    batch = Batch(["/no/srun"], environment=ENVIRONMENT, wish_file=tmp_path / "w", run=slurm)
    assert batch.run() == 127
    said = capfd.readouterr().out
    assert said.count("cannot start /no/srun: No such file or directory") == 1


def test_without_squeue_a_lost_step_is_tried_again(run_batch):
    def no_slurm(argv, **_):
        raise CommandError(f"{argv[0]} is not on the PATH")

    assert run_batch("exit $((1 - HETJOB_ATTEMPT))", run=no_slurm) == 0


def test_a_job_of_one_component_has_one_id():
    assert component_ids({"SLURM_JOB_ID": "5"}) == ["5"]
    assert component_ids(ENVIRONMENT) == ["67", "68"]


def start(tmp_path, script):
    """Start the command line in a session of its own, with a silent squeue and scontrol."""
    for name in ("squeue", "scontrol", "scancel"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "SLURM_JOB_ID": "5", "PYTHONPATH": str(ROOT)}
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "slurm.batch", "--job-folder", str(tmp_path), "--",
         "bash", "-c", script],
        env=env, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path,
    )  # fmt: skip


@pytest.mark.processes
def test_signals_to_the_batch_script_do_not_reach_srun_and_do_not_end_the_wait(
    tmp_path, eventually
):
    trap = "trap 'touch heard' TERM USR1 USR2 HUP"
    process = start(tmp_path, f"{trap}; touch ready; until [ -e go ]; do sleep 0.05; done")
    try:
        eventually((tmp_path / "ready").exists, 30)
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            os.killpg(process.pid, number)
        said = [process.stdout.readline() for _ in range(3)]
        assert {line.split()[-1] for line in said} == {"SIGTERM", "SIGUSR1", "SIGUSR2"}
        assert process.poll() is None
        assert not (tmp_path / "heard").exists()
        (tmp_path / "go").touch()
        process.communicate(timeout=30)
    finally:
        process.kill()
    # Slurm's answer is empty: the job is not there any more, and has said SIGTERM.
    assert process.returncode == 143


@pytest.mark.processes
def test_sruns_code_is_that_of_the_process_even_if_srun_is_killed(tmp_path):
    process = start(tmp_path, "kill -9 $$")
    process.communicate(timeout=30)
    assert process.returncode == 137


@pytest.mark.processes
def test_a_command_line_without_srun_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "slurm.batch", "--max-attempts", "2"],
        capture_output=True, text=True, cwd=ROOT, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "write -- and the whole srun command behind it" in done.stderr


@pytest.mark.processes
def test_the_batch_script_imports_nothing_heavy():
    code = "import sys, slurm.batch; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=ROOT, timeout=30, check=True,
    )  # fmt: skip
    heavy = {"torch", "submitit", "jinja2", "numpy", "pydantic", "typer", "logging"}
    assert heavy.isdisjoint(done.stdout.split())
