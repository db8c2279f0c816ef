"""One word for what became of a run."""

import pytest

from hybridjob.runs.facts import note_cancelled, read_brief
from hybridjob.runs.state import RunState, decide_state
from slurm.state import JobState


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (JobState.PENDING, RunState.PENDING),
        (JobState.RUNNING, RunState.STARTING),
        (JobState.COMPLETING, RunState.COMPLETING),
        (JobState.CANCELLED, RunState.CANCELLED),
        (JobState.TIMEOUT, RunState.TIMEOUT),
        (JobState.OUT_OF_MEMORY, RunState.FAILED),
        (JobState.NODE_FAIL, RunState.LOST),
        (JobState.FORGOTTEN, RunState.LOST),
        (JobState.UNKNOWN, RunState.UNKNOWN),
    ],
)
def test_a_folder_without_a_life_leaves_the_word_to_slurm(make_run, word, expected):
    assert decide_state(read_brief(make_run().run), word) is expected


def test_a_job_that_has_lived_and_waits_is_requeued(make_run):
    brief = read_brief(make_run().life().run)
    assert decide_state(brief, JobState.PENDING) is RunState.REQUEUED
    assert decide_state(brief, JobState.RUNNING) is RunState.RUNNING


def test_a_life_that_slurm_has_begun_and_no_rank_has_is_starting(make_run):
    made = make_run().life(time=1000.0)
    assert decide_state(read_brief(made.run), JobState.RUNNING, 990.0) is RunState.RUNNING
    assert decide_state(read_brief(made.run), JobState.RUNNING, 1100.0) is RunState.STARTING
    made.metrics({"step": 5, "time": 1101.0, "loss": 0.5})
    assert decide_state(read_brief(made.run), JobState.RUNNING, 1100.0) is RunState.RUNNING


@pytest.mark.parametrize("word", [JobState.FORGOTTEN, JobState.UNKNOWN, JobState.NODE_FAIL])
def test_what_is_complete_stays_so_whatever_slurm_says(make_run, word):
    assert decide_state(read_brief(make_run().life().summary().run), word) is RunState.COMPLETED


def test_a_job_that_slurm_has_forgotten_is_what_its_folder_says(make_run):
    failed = read_brief(make_run("1").life().summary(state="failed").run)
    assert decide_state(failed, JobState.FORGOTTEN) is RunState.FAILED
    cancelled = make_run("2").life().run
    note_cancelled(cancelled, seen=False)
    assert decide_state(read_brief(cancelled), JobState.FORGOTTEN) is RunState.CANCELLED
    assert decide_state(read_brief(cancelled), JobState.UNKNOWN) is RunState.UNKNOWN
    note_cancelled(cancelled, seen=True)
    assert decide_state(read_brief(cancelled), JobState.UNKNOWN) is RunState.CANCELLED


@pytest.mark.parametrize(("code", "expected"), [(0, RunState.COMPLETED), (1, RunState.FAILED)])
def test_the_batch_scripts_exit_code_speaks_where_nothing_else_does(make_run, code, expected):
    made = make_run().life()
    (made.folder.path / "67_exit_code").write_text(f"{code}\n")
    assert decide_state(read_brief(made.run), JobState.FORGOTTEN) is expected
