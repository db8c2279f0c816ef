import pytest

from slurm.command import CommandResult
from slurm.errors import CommandError
from slurm.heal import Repair, bring_along, diagnose, heal, left_behind
from slurm.state import JobState

PENDING, RUNNING, COMPLETED, FAILED = (
    JobState.PENDING,
    JobState.RUNNING,
    JobState.COMPLETED,
    JobState.FAILED,
)


@pytest.mark.parametrize(
    ("states", "num_components", "expected"),
    [
        ({0: PENDING, 1: PENDING}, 2, Repair.NOTHING),
        ({0: RUNNING, 1: RUNNING}, 2, Repair.NOTHING),
        ({0: PENDING, 1: RUNNING}, 2, Repair.NOTHING),  # it still ends, or is adopted
        ({0: PENDING, 1: COMPLETED}, 2, Repair.REQUEUE),
        ({0: PENDING, 1: PENDING, 2: FAILED}, 3, Repair.REQUEUE),
        ({0: PENDING, 1: PENDING}, 3, Repair.REQUEUE),
        ({0: PENDING, 1: PENDING}, None, Repair.NOTHING),
        ({0: COMPLETED, 1: FAILED}, 2, Repair.NOTHING),
        ({}, 2, Repair.NOTHING),
    ],
)
def test_a_leader_that_waits_for_an_ended_component_is_requeued(states, num_components, expected):
    assert diagnose(states, num_components) is expected


def slurm(listing, calls, problem=None):
    def run(argv, *, timeout_s, env):
        calls.append(argv[0])
        if argv[0] == "scontrol" and problem is not None:
            raise CommandError(problem)
        return CommandResult(stdout=listing if argv[0] == "squeue" else "", stderr="")

    return run


def test_what_was_seen_and_done_is_one_line():
    calls = []
    listing = "67+0|PENDING\n67+1|PENDING\n67+2|FAILED\n"
    healing = heal("67", run=slurm(listing, calls, "scontrol ...: Job is pending execution"))
    assert healing.repair is Repair.REQUEUE
    assert healing.text == (
        "job 67: component 0 PENDING, component 1 PENDING, component 2 FAILED; "
        "the leader waits for a component that has ended, requeued it"
    )
    assert calls == ["squeue", "scontrol"]


def test_a_job_that_is_well_is_left_alone():
    calls = []
    healing = heal("67", run=slurm("67+0|RUNNING\n67+1|RUNNING\n", calls))
    assert healing.text == "job 67: component 0 RUNNING, component 1 RUNNING; nothing to do"
    assert calls == ["squeue"]


def table(*rows):
    return "".join("".join(f"{word:<12}" for word in row.split()) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["0 COMPLETING 1", "1 PENDING 1", "2 RUNNING 0"], [2]),
        (["0 PENDING 1", "1 FAILED 0", "2 COMPLETED 0"], [1, 2]),
        (["0 COMPLETING 1", "1 COMPLETING 1"], []),
        (["0 COMPLETING 0", "1 RUNNING 0"], []),  # ended by its time limit, not requeued
        (["0 COMPLETING 0", "1 CANCELLED 0"], []),
        ([], []),
    ],
)
def test_components_that_slurm_has_not_requeued_with_the_leader_are_found(rows, expected):
    assert left_behind(table(*rows), 0) == expected


def test_earlier_requeues_do_not_count():
    assert left_behind(table("0 COMPLETING 3", "1 RUNNING 0"), 3) == []
    assert left_behind(table("0 COMPLETING 4", "1 RUNNING 0"), 3) == [1]


def test_components_left_behind_are_brought_along_whatever_scontrol_says():
    calls = []
    rows = table("0 COMPLETING 1", "1 RUNNING 0")
    assert bring_along("67", 0, run=slurm(rows, calls, "Job is pending execution")) == [1]
    assert calls == ["squeue", "scontrol"]


def test_a_job_that_is_cancelled_as_a_whole_is_left_alone():
    calls = []
    rows = table("0 COMPLETING 0", "1 CANCELLED 0")
    assert bring_along("67", 0, run=slurm(rows, calls)) == []
    assert calls == ["squeue"]
