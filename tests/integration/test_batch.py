"""What the batch script makes of a step's end, on a real Slurm, with small tasks."""

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from slurm.component import Component
from slurm.script import render_script

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = [
    Component(name="servers", partition="bigmem", num_tasks=1, time="5"),
    Component(name="trainers", partition="gpu", num_tasks=2, time="5"),
]
# Told by a signal to leave, a task exits with 75, after rank 0 has said what it wishes. In its
# first life and attempt a task waits; later ones end at once.
TASK = """
import os, signal, sys, time
name = "task.{}.{}.{}".format(
    *(os.environ.get(key, "0") for key in ("SLURM_RESTART_COUNT", "HETJOB_ATTEMPT", "SLURM_PROCID"))
)
def leave(number, frame):
    if os.environ["SLURM_PROCID"] == "0" and number == signal.SIGUSR2:
        open(os.environ["HETJOB_EXIT_WISH"], "w").write("requeue")
    os._exit(75 if number == signal.SIGUSR2 else 143)
signal.signal(signal.SIGUSR2, leave)
signal.signal(signal.SIGTERM, leave)
open(name + ".tmp", "w").write(str(os.getpid()))
os.rename(name + ".tmp", name)
if name.startswith("task.0.0."):
    time.sleep(100)
"""


class Run:
    """A job of three tasks; its files lie in `folder`."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        (folder / "task.py").write_text(TASK)
        python = shlex.quote(sys.executable)
        (folder / "job.sbatch").write_text(
            render_script(
                COMPONENTS,
                command=f"{python} {folder}/task.py",
                job_name="batch",
                output=str(folder / "batch-%j.log"),
                job_folder=str(folder / "%j"),
                environment={"PYTHONPATH": str(ROOT)},
                python=python,
                max_attempts=3,
            )
        )
        argv = ["sbatch", "--parsable", f"--chdir={folder}", str(folder / "job.sbatch")]
        self.job_id = cluster.run(argv).stdout.strip()

    def tasks(self):
        """Give the tasks that have begun, as in `0.1.2`: life, attempt, rank."""
        return sorted(path.name.removeprefix("task.") for path in self.folder.glob("task.?.?.?"))

    def pid(self, task):
        return int((self.folder / f"task.{task}").read_text())

    def said(self):
        return (self.folder / f"batch-{self.job_id}.log").read_text()

    def field(self, name):
        """Read a field of the leader's record."""
        words = self.cluster.run(["scontrol", "show", "job", self.job_id]).stdout.split()
        return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))

    def exit_code(self):
        path = self.folder / self.job_id / f"{self.job_id}_exit_code"
        return path.read_text().strip() if path.exists() else None


@pytest.fixture
def run(cluster, tmp_path, eventually):
    run = Run(cluster, tmp_path)
    try:
        eventually(lambda: len(run.tasks()) == 3, 40)
        yield run
    finally:
        cluster.run(["scancel", run.job_id], check=False)


def test_a_job_whose_tasks_ask_for_it_is_requeued_under_its_id(cluster, run):
    cluster.run(["scancel", "--signal=USR2", run.job_id])
    cluster.wait_for_state(run.job_id, {"COMPLETED"}, 180)
    assert run.tasks() == ["0.0.0", "0.0.1", "0.0.2", "1.0.0", "1.0.1", "1.0.2"]
    assert run.field("Restarts") == "1"
    assert f"its tasks wish: requeue, sending job {run.job_id} back to the queue" in run.said()
    assert run.exit_code() == "0"


def test_a_cancelled_job_stays_cancelled(cluster, run, eventually):
    cluster.run(["scancel", run.job_id])
    cluster.wait_for_state(run.job_id, {"CANCELLED"}, 120)
    assert run.tasks() == ["0.0.0", "0.0.1", "0.0.2"]
    assert run.field("Restarts") == "0"


def test_a_killed_task_leads_to_another_attempt_in_the_same_life(cluster, run):
    os.kill(run.pid("0.0.1"), signal.SIGKILL)
    cluster.wait_for_state(run.job_id, {"COMPLETED"}, 120)
    assert run.tasks() == ["0.0.0", "0.0.1", "0.0.2", "0.1.0", "0.1.1", "0.1.2"]
    assert run.field("Restarts") == "0"
    assert "trying again (attempt 2 of 3)" in run.said()


def test_steps_left_by_an_earlier_life_do_not_stop_the_next(cluster, run, eventually):
    """Component 1 lives on, as after a crash of component 0's only node."""
    leader_node = run.field("NodeList")
    cluster.crash_node(leader_node)
    try:
        cluster.wait_for_state(run.job_id, {"COMPLETED"}, 240)
    finally:
        cluster.boot_node(leader_node)
        idle = ["sinfo", "-h", "-N", "-n", leader_node, "-o", "%t"]
        eventually(lambda: cluster.run(idle).stdout.strip() == "idle", 180)
    assert run.tasks()[3:] == ["1.0.0", "1.0.1", "1.0.2"]
    # Whether Slurm or the guard has ended them is a matter of who came first.
    assert not [rank for rank in (0, 1, 2) if Path(f"/proc/{run.pid(f'0.0.{rank}')}").exists()]
