"""How far and how fast a run is, from the end of its metrics."""

import json

import pytest

from hybridjob.runs.progress import read_progress


def line(step, time, **more):
    values = {"step": step, "time": time, "loss": 0.5, "of_steps": 1000, "samples_per_s": 70.0}
    return json.dumps({**values, **more}) + "\n"


@pytest.fixture
def metrics(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_there_is_nothing_before_the_first_line(metrics):
    assert read_progress(metrics) is None
    metrics.write_text("")
    assert read_progress(metrics) is None


def test_the_newest_line_tells_step_and_loss_and_the_lines_together_the_speed(metrics):
    metrics.write_text(line(100, 50.0) + line(200, 60.0) + line(300, 75.0, loss=0.25))
    progress = read_progress(metrics)
    assert (progress.step, progress.of_steps, progress.loss) == (300, 1000, 0.25)
    assert progress.steps_per_s == pytest.approx(200 / 25)
    assert progress.seconds_to_end(now=75.0) == pytest.approx(700 / 8)
    assert progress.seconds_to_end(now=85.0) == pytest.approx(700 / 8 - 10)


def test_the_speed_is_of_one_generation_only(metrics):
    metrics.write_text(line(500, 10.0) + line(100, 50.0) + line(200, 60.0))
    assert read_progress(metrics).steps_per_s == pytest.approx(10.0)


def test_the_wait_between_two_lives_is_not_part_of_the_speed(metrics):
    metrics.write_text(line(100, 50.0) + line(200, 1000.0) + line(300, 1010.0))
    assert read_progress(metrics, since=900.0).steps_per_s == pytest.approx(10.0)


def test_the_test_metrics_are_the_newest_ones(metrics):
    test = json.dumps({"step": 300, "time": 70.0, "test/auc": 0.75}) + "\n"
    metrics.write_text(line(300, 70.0) + test + line(400, 80.0))
    assert read_progress(metrics).test == {"auc": 0.75}


def test_a_line_that_a_crash_has_cut_is_passed_over(metrics):
    metrics.write_text(line(100, 50.0) + '{"step": 200, "ti\n' + line(300, 70.0) + '{"step": 4')
    assert read_progress(metrics).step == 300


def test_only_the_end_of_a_long_file_is_read(metrics):
    with metrics.open("w") as file:
        file.writelines(line(step, float(step)) for step in range(10_000))
    progress = read_progress(metrics)
    assert progress.step == 9_999
    assert progress.steps_per_s == pytest.approx(1.0)
