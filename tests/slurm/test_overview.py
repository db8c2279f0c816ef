import time

import pytest

from slurm.command import CommandResult
from slurm.errors import CommandError
from slurm.overview import look_at_jobs, within
from slurm.state import JobState

GONE = CommandError("squeue ended with code 1: slurm_load_jobs error: Invalid job id specified")


def slurm(**answers):
    asked = []

    def run(argv, *, timeout_s, env=None):
        asked.append(argv)
        answer = answers.get(argv[0], CommandError(f"{argv[0]} is not on the PATH"))
        if isinstance(answer, Exception):
            raise answer
        return CommandResult(stdout=answer, stderr="")

    run.asked = asked
    return run


def test_every_component_is_told_with_its_times_and_nodes():
    text = (
        "67+0|RUNNING|2026-12-01T03:44:23|1-00:00:00|2:05|cpu|n[0-1]|None\n"
        "67+1|PENDING|N/A|UNLIMITED|0:00|gpu||Resources\n"
    )
    views = look_at_jobs(["67"], run=slurm(squeue=text)).jobs["67"]
    assert views[0].state is JobState.RUNNING
    assert views[0].start == time.mktime(time.strptime("2026-12-01 03:44:23", "%Y-%m-%d %H:%M:%S"))
    assert (views[0].limit_s, views[0].elapsed_s) == (86_400, 125)
    assert (views[0].partition, views[0].nodes, views[0].reason) == ("cpu", "n[0-1]", "")
    assert (views[1].start, views[1].limit_s, views[1].nodes) == (None, None, "")
    assert views[1].reason == "Resources"


def test_a_reason_of_several_words_and_signs_stays_whole():
    text = "5|PENDING|N/A|1:00|0:00|a,b||ReqNodeNotAvail, UnavailableNodes:n[1,3]\n"
    views = look_at_jobs(["5"], run=slurm(squeue=text)).jobs["5"]
    assert views[0].reason == "ReqNodeNotAvail, UnavailableNodes:n[1,3]"


def test_what_squeue_has_forgotten_is_asked_of_sacct():
    done = "67+0|FAILED|2026-12-01T03:44:23|01:00:00|00:02:05|cpu|n0|1:0\n"
    run = slurm(squeue="68|RUNNING|N/A|1:00|0:01|cpu|n0|None\n", sacct=done)
    overview = look_at_jobs(["67", "68"], run=run)
    assert overview.jobs["67"][0].state is JobState.FAILED
    assert overview.jobs["67"][0].reason == "exit code 1:0"
    assert run.asked[1][-2:] == ["-j", "67"]
    assert overview.problems == []


def test_a_job_that_nobody_knows_is_missing_and_no_problem():
    overview = look_at_jobs(["67"], run=slurm(squeue=GONE))
    assert (dict(overview.jobs), overview.problems) == ({}, [])


def test_a_silent_controller_is_a_problem_in_one_line():
    error = CommandError("squeue --noheader ... ended with code 1:\nUnable to contact\ncontroller")
    overview = look_at_jobs(["67"], run=slurm(squeue=error))
    assert overview.problems == [
        "squeue --noheader ... ended with code 1: Unable to contact controller"
    ]


def test_no_job_asks_nobody():
    run = slurm()
    assert look_at_jobs([], run=run).jobs == {}
    assert run.asked == []


def test_all_commands_share_one_deadline():
    timeouts = []

    def slow(argv, *, timeout_s, env=None):
        timeouts.append(timeout_s)
        time.sleep(0.3)
        return CommandResult(stdout="", stderr="")

    run = within(0.5, slow)
    run(["squeue"], timeout_s=30)
    run(["sacct"], timeout_s=30)
    with pytest.raises(CommandError, match=r"scontrol was not asked: Slurm has used up 0\.5 s"):
        run(["scontrol"], timeout_s=30)
    assert timeouts[0] == pytest.approx(0.5, abs=0.1)
    assert timeouts[1] <= 0.3
