import logging

import pytest

import slurm.query
from slurm.command import CommandResult
from slurm.errors import CommandError
from slurm.query import parse_scontrol, parse_table, query_states
from slurm.state import JobState

SCONTROL = """JobId=67 HetJobId=67 HetJobOffset=0 JobName=a JobState=FAILED b
   HetJobIdSet=67-68
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Comment=JobState=FAILED

JobId=68 HetJobId=67 HetJobOffset=1 JobName=a
   JobState=COMPLETED Reason=None Dependency=(null)

"""
GONE = CommandError("squeue ended with code 1: slurm_load_jobs error: Invalid job id specified")


def test_components_are_folded_under_the_leaders_id():
    text = "67+0|RUNNING\n67+1|COMPLETED\n70|CANCELLED by 0\n67+0.batch|FAILED\n\nnoise\n"
    assert parse_table(text) == {"67": JobState.RUNNING, "70": JobState.CANCELLED}


def test_scontrols_records_are_folded_under_the_leaders_id():
    assert parse_scontrol(SCONTROL) == {"67": JobState.RUNNING}


def test_scontrol_of_a_plain_job_is_read():
    assert parse_scontrol("JobId=5 JobName=x\n   JobState=PENDING Reason=None\n") == {
        "5": JobState.PENDING
    }


class Slurm:
    """Commands with fixed answers: text, or an error that is raised."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def __call__(self, argv, *, timeout_s, env=None):
        self.asked.append(argv[0])
        answer = self.answers.get(argv[0], CommandError(f"{argv[0]} is not on the PATH"))
        if isinstance(answer, CommandError):
            raise answer
        return CommandResult(stdout=answer, stderr="")


@pytest.fixture(autouse=True)
def warnings_start_anew(monkeypatch):
    monkeypatch.setattr(slurm.query, "_warned", False)


def test_squeue_alone_is_asked_where_it_knows_the_job():
    commands = Slurm(squeue="67+0|RUNNING\n67+1|RUNNING\n")
    assert query_states(["67"], run=commands) == {"67": JobState.RUNNING}
    assert commands.asked == ["squeue"]


def test_a_cluster_without_accounting_is_asked_by_scontrol(caplog):
    commands = Slurm(squeue=GONE, scontrol=SCONTROL)
    assert query_states(["67"], run=commands) == {"67": JobState.RUNNING}
    assert caplog.records == []


def test_a_job_that_squeue_forgot_is_found_by_sacct():
    commands = Slurm(squeue=GONE, sacct="67+0|COMPLETED\n67+1|COMPLETED\n")
    assert query_states(["67"], run=commands) == {"67": JobState.COMPLETED}


def test_a_job_that_the_controller_does_not_know_is_forgotten():
    commands = Slurm(squeue=GONE, sacct="", scontrol=GONE)
    assert query_states(["67"], run=commands) == {"67": JobState.FORGOTTEN}


def test_every_id_gets_an_answer():
    commands = Slurm(squeue="1|RUNNING\n", sacct="2|FAILED\n", scontrol=GONE)
    assert query_states(["1", "2", "3"], run=commands) == {
        "1": JobState.RUNNING,
        "2": JobState.FAILED,
        "3": JobState.FORGOTTEN,
    }


def test_commands_that_all_fail_are_warned_about_once(caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert query_states(["67"], run=Slurm()) == {"67": JobState.UNKNOWN}
    assert len(caplog.records) == 1
    assert "squeue is not on the PATH" in caplog.text


def test_nothing_is_asked_about_no_jobs():
    commands = Slurm()
    assert query_states([], run=commands) == {}
    assert commands.asked == []
