import signal
import subprocess
import sys

import pytest

from slurm.command import CommandResult
from slurm.errors import CommandError
from slurm.requeue import held_back, requeue


class Scontrol:
    """Answers in turn: None is success, a text is an error."""

    def __init__(self, *answers):
        self.answers, self.calls = list(answers), []

    def __call__(self, argv, *, timeout_s, env):
        self.calls.append(argv)
        answer = self.answers.pop(0)
        if answer is not None:
            raise CommandError(answer)
        return CommandResult(stdout="", stderr="")


def ask(scontrol, *, running=True):
    return requeue(
        "67",
        run=scontrol,
        is_running=lambda: running,
        sleep=lambda _: None,
        which=lambda name: f"/usr/bin/{name}",
    )


def test_the_leader_is_requeued_once():
    scontrol = Scontrol(None)
    assert ask(scontrol) is None
    assert scontrol.calls == [["scontrol", "requeue", "67"]]


def test_a_controller_that_does_not_answer_is_asked_again():
    scontrol = Scontrol("did not answer within 30 s", "did not answer within 30 s", None)
    assert ask(scontrol) is None
    assert len(scontrol.calls) == 3


def test_an_error_does_not_matter_if_the_job_is_on_its_way():
    scontrol = Scontrol("scontrol was killed")
    assert ask(scontrol, running=False) is None
    assert len(scontrol.calls) == 1


def test_a_refusal_is_told_in_the_end():
    scontrol = Scontrol(*["Requested operation is presently disabled"] * 5)
    assert ask(scontrol) == "Requested operation is presently disabled"


def test_a_node_without_scontrol_is_told():
    said = requeue("67", is_running=lambda: True, which=lambda name: None)
    assert said == "scontrol is not on this node"


@pytest.mark.processes
def test_a_signal_that_is_held_back_harms_no_child_and_is_heard_afterwards():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with held_back(signal.SIGTERM):
            signal.raise_signal(signal.SIGTERM)
            code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM); print('alive')"
            said = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
            ).stdout
            assert heard == []
        assert (said, heard) == ("alive\n", [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)
