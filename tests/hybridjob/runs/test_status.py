"""What `hybridjob status` says, as values and on the screen."""

import os

import pytest

from hybridjob.runs.facts import read_facts
from hybridjob.runs.outside import Seen, look_closely
from hybridjob.runs.screen import status_lines
from hybridjob.runs.state import RunState
from hybridjob.runs.status import status_values
from slurm.errors import CommandError
from slurm.local_process import LocalState
from slurm.state import JobState

NOW = 1_800_000_000.0
RUNNING = (
    "67+0|RUNNING|2027-01-15T07:50:00|1:00:00|10:00|cpu|n0|None\n"
    "67+1|RUNNING|2027-01-15T07:50:00|1:00:00|10:00|gpu|n2|None\n"
)
METRICS = [
    {"step": 100, "time": NOW - 30, "loss": 0.5, "of_steps": 400, "samples_per_s": 64.0},
    {"step": 200, "time": NOW - 10, "loss": 0.25, "of_steps": 400, "samples_per_s": 64.0},
]


def values_of(made, run, *, mend=True):
    facts = read_facts(made.run)
    return status_values(facts, look_closely(facts, mend=mend, run=run), NOW)


def screen(values, width=80):
    return "\n".join(status_lines(values, NOW, width))


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    import time  # noqa: PLC0415

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def running(make_run):
    made = make_run().origin(submitted=NOW - 700).life().metrics(*METRICS)
    made.folder.tables.write_text('{"table_bytes": 2000000, "rows": 5, "tables": 1}')
    for rank, name in enumerate(["master", "ps0", "ps1"]):
        made.rank(rank, name)
    return made.rank(3, "trainer0", host="n2", component=1)


def test_a_running_job_tells_its_progress_and_both_ends(running, slurm_says):
    values = values_of(running, slurm_says(RUNNING))
    assert values["state"] == "running"
    assert (values["step"], values["of_steps"], values["loss"]) == (200, 400, 0.25)
    assert values["seconds_to_end"] == pytest.approx(200 / 5 - 10)
    assert values["seconds_to_limit"] == pytest.approx(3600 - (NOW - 1_799_999_400))
    assert values["tables"] == {"bytes": 2_000_000, "rows": 5, "servers": 2}
    assert values["cause"] is None
    text = " ".join(screen(values).split())
    assert "clicks job 67 RUNNING" in text
    assert "step 200 of 400 (50%) loss 0.2500 64 samples/s" in text
    assert "done in about 30 s (08:00); time limit in 50 min (08:50)" in text
    assert "tables 2.0 MB on 2 servers" in text


def test_a_new_generation_that_has_not_reported_yet_has_no_end_in_sight(running, slurm_says):
    running.folder.tables.write_text(
        '{"table_bytes": 9, "generation": "0.0.1", "from_step": 150, "passed_over": ["bad chunk"]}'
    )
    for rank, name in enumerate(["master", "ps0"]):
        running.rank(rank, name, generation="0.0.1", started=NOW - 4)
    values = values_of(running, slurm_says(RUNNING))
    assert values["seconds_to_end"] is None
    assert values["generations"] == 2
    text = " ".join(screen(values).split())
    assert "recovers generation 0.0.1 goes on from step 150, begun 4 s ago" in text
    assert "damaged bad chunk. It was passed over" in text


def test_a_job_file_that_is_not_understood_is_said(running, slurm_says):
    running.folder.job_file.write_text('name = "clicks"\n[data]\nformat = "papyrus"\n')
    values = values_of(running, slurm_says(RUNNING))
    assert "its job file is not understood" in " ".join(screen(values).split())
    assert [one["name"] for one in values["ranks"]] == ["master", "ps0", "ps1", "trainer0"]


def test_a_generation_that_has_reported_does_not_recover_any_more(running, slurm_says):
    running.rank(0, "master", generation="0.0.1", started=NOW - 20)
    values = values_of(running, slurm_says(RUNNING))
    assert values["recovering"] is None
    assert values["seconds_to_end"] is not None


def test_each_rank_is_listed_with_host_and_state(running, slurm_says):
    values = values_of(running, slurm_says(RUNNING))
    ranks = [(one["name"], one["host"], one["state"]) for one in values["ranks"]]
    assert ranks == [
        ("master", "n0", "running"),
        ("ps0", "n0", "running"),
        ("ps1", "n0", "running"),
        ("trainer0", "n2", "running"),
        ("trainer1", None, "waiting"),
    ]


def test_a_failed_job_shows_the_first_cause_before_all_else(running, slurm_says):
    running.failure(kind="MemoryError").summary(
        state="failed", cause="rank 2 (ps1 on n0): no memory"
    )
    running.rank(2, "ps1", exit_code=-9, ended=NOW - 5)
    running.rank(1, "ps0", exit_code=-9, ended=NOW - 4)
    values = values_of(running, slurm_says(RUNNING.replace("RUNNING", "FAILED")))
    assert values["cause"] == {
        "text": "rank 2 (ps1 on n0): no memory",
        "rank": 2,
        "role": "ps1",
        "host": "n0",
        "generation": "0.0.0",
    }
    assert screen(values).splitlines()[1] == "cause     rank 2 (ps1 on n0): no memory"
    states = {one["name"]: one["state"] for one in values["ranks"]}
    assert states["ps1"] == "killed: SIGKILL"
    assert states["ps0"] == "ended"  # by its task, for the failure of another
    assert states["trainer0"] == "lost"


def test_a_failure_that_only_lost_a_peer_brings_slurms_word(running, slurm_says):
    running.failure(message="ps0 is gone", consequence=True)
    lines = RUNNING.replace("RUNNING", "OUT_OF_MEMORY")
    cause = values_of(running, slurm_says(lines))["cause"]["text"]
    assert cause == "the job ended as OUT_OF_MEMORY; rank 2 (ps1 on n0): ps0 is gone"


def test_a_job_that_no_rank_could_speak_for_brings_the_last_line_of_a_log(make_run, slurm_says):
    made = make_run()
    log = made.folder.path.parent / "slurm-67.log"
    log.write_text("line 4: module: command not found\n\n")
    values = values_of(made, slurm_says(RUNNING.replace("RUNNING", "FAILED")))
    assert values["cause"]["text"] == (
        f"the job ended as FAILED; the last line of {log}: line 4: module: command not found"
    )


def test_a_local_job_that_ended_with_its_submitter_says_so(running):
    gone = LocalState(state=JobState.CANCELLED, cause_error="its submitter was killed")
    seen = Seen(state=RunState.CANCELLED, job_state=JobState.CANCELLED, local=gone)
    values = status_values(read_facts(running.run), seen, NOW)
    assert values["cause"]["text"] == "its submitter was killed"


def test_a_pending_job_says_why_it_waits_and_until_when(make_run, slurm_says):
    lines = (
        "67+0|PENDING|2027-01-15T08:30:00|1:00:00|0:00|cpu||Priority\n"
        "67+1|PENDING|2027-01-15T08:30:00|1:00:00|0:00|gpu||Priority\n"
    )
    values = values_of(make_run(), slurm_says(lines))
    assert (values["state"], values["pending_reason"]) == ("pending", "Priority")
    assert values["expected_start"] == NOW + 1800
    text = " ".join(screen(values).split())
    assert "waits behind jobs of a higher priority (Priority); Slurm expects to start it" in text
    assert "at 08:30 (in 30 min)" in text
    assert "rank" not in text


def test_a_requeued_job_says_why_its_last_life_ended(running, slurm_says):
    running.leave("SIGUSR2")
    lines = RUNNING.replace("RUNNING", "PENDING").replace("|None", "|BeginTime")
    values = values_of(running, slurm_says(lines))
    assert values["state"] == "requeued"
    assert (
        values["requeued_because"]
        == "warned by USR2, which Slurm sends when the time limit is near"
    )
    assert {one["state"] for one in values["ranks"]} == {"lost", "waiting"}


def test_lives_are_counted_and_each_requeue_has_its_reason(running, slurm_says):
    running.leave("SIGTERM").life(1, step=100, time=NOW - 200).failure("1.0.0")
    running.life(2, step=150, time=NOW - 100)
    requeues = values_of(running, slurm_says(RUNNING))["requeues"]
    assert [(one["life"], one["step"], one["why"]) for one in requeues] == [
        (1, 100, "Slurm ended it (preemption, or scontrol requeue)"),
        (2, 150, "after a failure: rank 2 (ps1 on n0): no memory"),
    ]


def test_a_controller_that_does_not_answer_leaves_what_the_folder_knows(running, slurm_says):
    values = values_of(running, slurm_says(CommandError("squeue did not answer within 4 s")))
    assert values["state"] == "unknown"
    assert values["problem"] == "Slurm does not answer: squeue did not answer within 4 s"
    assert values["step"] == 200
    assert {one["state"] for one in values["ranks"]} == {"unknown", "waiting"}
    assert "This is what the run folder knows" in " ".join(screen(values).split())


def test_a_job_that_slurm_has_forgotten_is_told_by_its_folder(running, slurm_says):
    gone = CommandError("squeue ended with code 1: Invalid job id specified")
    values = values_of(running.summary(), slurm_says(gone))
    assert (values["state"], values["step"], values["problem"]) == ("completed", 900, None)
    assert values["test"] == {"auc": 0.75}


def test_a_job_that_waits_for_an_ended_component_is_healed(running, slurm_says):
    trap = RUNNING.replace("67+0|RUNNING", "67+0|PENDING").replace("67+1|RUNNING", "67+1|FAILED")
    run = slurm_says(trap)
    healed = values_of(running, run)["healed"]
    assert healed.startswith("job 67: ")
    assert any("requeue" in " ".join(argv) for argv in run.asked if argv[0] == "scontrol")
    run = slurm_says(trap)
    assert values_of(running, run, mend=False)["healed"] is None
    assert all(argv[0] != "scontrol" for argv in run.asked)


def test_a_local_rank_whose_process_is_gone_is_not_called_running(make_run):
    made = make_run().life()
    made.rank(0, "master", host="localhost", pid=os.getpid())
    made.rank(1, "ps0", host="localhost", pid=2**22 + 1)
    (made.folder.path / "67_controller.log").touch()
    facts = read_facts(made.run)
    seen = look_closely(facts, mend=False)
    states = [one["state"] for one in status_values(facts, seen, NOW)["ranks"]]
    assert states[:2] == ["running", "lost"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen_keeps_its_width(running, slurm_says, width):
    running.failure(message="a long story " * 20).leave("SIGTERM").life(1)
    lines = RUNNING.replace("n2", "a-node-with-a-very-long-name-[001-512]" * 3)
    text = screen(values_of(running, slurm_says(lines)), width)
    for line in text.splitlines():
        assert len(line) <= width or line.startswith("folder"), line


def test_of_many_ranks_those_that_are_not_well_are_shown(make_run, slurm_says):
    made = make_run().life()
    text = made.folder.job_file.read_text()
    made.folder.job_file.write_text(
        text.replace("[trainer]\ntasks_per_node = 2", "[trainer]\ntasks_per_node = 40")
    )
    for rank in range(43):
        made.rank(rank, "x", component=1)
    made.rank(30, "trainer27", component=1, exit_code=1, ended=NOW)
    lines = screen(values_of(made, slurm_says(RUNNING))).splitlines()
    assert lines[-1] == "and 42 running; --json lists all 43"
    assert lines[-2].split()[:2] == ["30", "trainer27"]
