"""The table of many runs."""

import pytest

from hybridjob.runs.facts import read_brief
from hybridjob.runs.listing import list_lines, row_values
from hybridjob.runs.outside import look_at
from slurm.errors import CommandError

NOW = 1_800_000_000.0


def rows_of(runs, run):
    briefs = [read_brief(one.run) for one in runs]
    seen = look_at(briefs, run=run)
    return [row_values(brief, seen[brief.run.job_id], NOW) for brief in briefs]


@pytest.fixture
def three(make_run):
    line = {"step": 100, "time": NOW - 9, "loss": 0.5, "of_steps": 400, "samples_per_s": 9.0}
    running = make_run("70", "films").origin(submitted=NOW - 90).life().life(1).metrics(line)
    return [
        running,
        make_run("69", "clicks").origin(submitted=NOW - 7200).life().summary(),
        make_run("68", "clicks").origin(submitted=NOW - 3 * 86_400),
    ]


LINES = "70+0|RUNNING|N/A|1:00|0:10|cpu|n0|None\n70+1|RUNNING|N/A|1:00|0:10|gpu|n1|None\n"


def test_each_run_has_its_line(three, slurm_says):
    run = slurm_says(LINES, sacct="68+0|CANCELLED by 0|Unknown|1:00|0:00|cpu|None assigned|0:0\n")
    assert list_lines(rows_of(three, run), None) == [
        "id  name    state         step    loss     auc  age  req",
        "70  films   running    100/400  0.5000       -   1m    1",
        "69  clicks  completed      900  0.2500  0.7500   2h    -",
        "68  clicks  cancelled        -       -       -   3d    -",
    ]


def test_slurm_is_asked_once_for_all_that_may_still_change(three, slurm_says):
    run = slurm_says(LINES)
    rows_of(three, run)
    assert [argv[0] for argv in run.asked] == ["squeue", "sacct"]
    assert "--jobs=70,68" in run.asked[0]
    assert run.asked[1][-1] == "68"


def test_a_silent_controller_leaves_only_those_unknown_that_it_must(three, slurm_says):
    rows = rows_of(three, slurm_says(CommandError("squeue did not answer within 4 s")))
    assert [row["state"] for row in rows] == ["unknown", "completed", "unknown"]
    assert rows[0]["problem"] == "Slurm does not answer: squeue did not answer within 4 s"
    assert rows[1]["problem"] is None


def test_a_line_fits_eighty_columns_even_with_long_names_and_ids(make_run, slurm_says):
    made = make_run("20261201034737386801", "a-name-that-says-all-there-is-to-say-about-it")
    line = {"step": 123_456, "time": NOW, "loss": 0.5, "of_steps": 400_000, "test/auc": 0.5}
    rows = rows_of([made.life().metrics(line)], slurm_says(LINES))
    lines = list_lines(rows, 80)
    assert max(len(one) for one in lines) <= 80
    assert "20261201034737386801" in lines[1]
    assert "a-name-that-says-all-there-is-to-say-about-it" in list_lines(rows, None)[1]


def test_a_sweep_shows_the_values_that_differ(make_run, slurm_says):
    runs = [
        make_run(str(number), f"x-{number}").origin(
            submitted=NOW - number,
            sweep="x",
            sweep_values={"training.table_optimizer.lr": lr, "seed": 1},
        )
        for number, lr in ((1, 0.1), (2, 0.01))
    ]
    lines = list_lines(rows_of(runs, slurm_says("")), None)
    assert [line.split()[:3] for line in lines] == [
        ["id", "name", "lr"],
        ["1", "x-1", "0.1"],
        ["2", "x-2", "0.01"],
    ]
    assert "seed" not in lines[0]
