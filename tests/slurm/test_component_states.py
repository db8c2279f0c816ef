import pytest

from slurm.command import CommandResult
from slurm.component_states import (
    ask_component_states,
    is_preempted,
    parse_component_states,
    seconds_left,
)
from slurm.errors import CommandError
from slurm.state import JobState


def test_states_are_by_component():
    text = "67+0|RUNNING\n67+1|CANCELLED\n"
    assert parse_component_states(text) == {0: JobState.RUNNING, 1: JobState.CANCELLED}
    assert parse_component_states("67|COMPLETING\n") == {0: JobState.COMPLETING}


def test_a_job_that_slurm_has_forgotten_has_no_components():
    def run(argv, *, timeout_s, env):
        raise CommandError("squeue ended with code 1: slurm_load_jobs error: Invalid job id")

    assert ask_component_states("67", run=run) == {}


@pytest.mark.parametrize(
    ("text", "expected"), [("N/A \nN/A \n", False), ("2026-12-01T01:32:43 \nN/A \n", True)]
)
def test_one_component_that_is_preempted_is_enough(text, expected):
    def run(argv, *, timeout_s, env):
        return CommandResult(stdout=text, stderr="")

    assert is_preempted("67", run=run) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:02\n59:00\n", 62), ("UNLIMITED\n1-00:00:00\n", 86400), ("NOT_SET\n", None), ("", None)],
)
def test_the_component_with_the_least_time_counts(text, expected):
    def run(argv, *, timeout_s, env):
        return CommandResult(stdout=text, stderr="")

    assert seconds_left("67", run=run) == expected
