import json
import os
import socket
import subprocess
import sys

import pytest

from slurm.local_leftovers import start_ticks
from slurm.local_process import _START, look_at_state
from slurm.state import JobState


@pytest.fixture
def controller():
    """A process that looks like a controller."""
    argv = [sys.executable, "-c", f"import sys; sys.stdin.read() # {_START}"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def state_file(tmp_path, controller):
    def write(**changes):
        record = {
            "state": "RUNNING",
            "controller_pid": controller.pid,
            "controller_host": socket.gethostname(),
            "controller_started": start_ticks(controller.pid),
            "pids": [],
            "exit_codes": [],
            "cause": None,
            **changes,
        }
        path = tmp_path / "7_state.json"
        path.write_text(json.dumps(record))
        return path

    return write


def test_a_living_controller_is_believed(state_file):
    assert look_at_state("7", state_file()).state is JobState.RUNNING


def test_a_later_process_of_the_same_number_is_no_controller(state_file, controller):
    path = state_file(controller_started=start_ticks(controller.pid) - 100)
    assert look_at_state("7", path).state is JobState.NODE_FAIL


def test_a_dead_controller_is_never_running(state_file, controller):
    path = state_file()
    controller.kill()
    controller.wait()
    assert look_at_state("7", path).state is JobState.NODE_FAIL


def test_from_another_machine_only_an_end_is_known(state_file):
    assert look_at_state("7", state_file(controller_host="other")).state is JobState.UNKNOWN
    ended = state_file(controller_host="other", state="FAILED")
    assert look_at_state("7", ended).state is JobState.FAILED


def test_a_process_has_its_start_and_no_process_has_none():
    assert start_ticks(os.getpid()) == start_ticks(os.getpid()) > 0
    assert start_ticks(2**22 + 1) is None
