"""metrics.jsonl as the charts need it."""

import json

import pytest

from hybridjob.report.metrics import REST, collect, milliseconds_a_step, read_metrics, thinned


def line(step, time, loss=0.5, **more):
    return {"step": step, "time": time, "loss": loss, "samples_per_s": 100.0, **more}


def test_steps_done_again_are_drawn_once_and_counted():
    metrics = collect([line(10, 1), line(20, 2), line(30, 3, 0.9), line(20, 9, 0.1), line(30, 10)])
    assert [one.step for one in metrics.intervals] == [10, 20, 30]
    assert [one.loss for one in metrics.intervals] == [0.5, 0.1, 0.5]
    assert metrics.redone == 20


def test_the_time_of_a_step_is_cut_by_phase_and_the_rest():
    lines = [
        line(10, 100.0, **{"seconds/lookup": 0.2}),
        line(
            20, 101.0, **{"seconds/lookup": 0.2, "seconds/push": 0.3, "seconds/server update": 0.4}
        ),
    ]
    one = milliseconds_a_step(collect(lines).intervals[1])
    assert one["trainer"] == pytest.approx({"lookup": 20.0, "push": 30.0, REST: 50.0})
    assert one["server"] == {"update": 40.0}


def test_the_time_between_two_generations_belongs_to_no_step():
    lines = [line(10, 100.0, **{"seconds/lookup": 0.2}), line(20, 160.0, **{"seconds/lookup": 0.2})]
    assert REST not in collect(lines, starts=[130.0]).intervals[1].seconds["trainer"]


def test_a_line_that_is_being_written_is_left_for_later(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(line(1, 1)) + '\n{"step": 2, "ti')
    assert [one.step for one in read_metrics(path).intervals] == [1]
    assert read_metrics(tmp_path / "none").intervals == ()


def test_a_long_run_is_averaged_to_few_points():
    intervals = collect([line(step, step, loss=step) for step in range(1, 10_001)]).intervals
    points = thinned(intervals, 100)
    assert len(points) == 100
    assert points[0].loss == 50.5
    assert points[0].steps == 100
    assert points[-1].step == 10_000


def test_a_loss_that_is_no_number_is_a_gap():
    (one,) = collect([line(1, 1, loss=None)]).intervals
    assert one.loss is None
