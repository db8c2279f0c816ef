"""What a rank records, and the file that all ranks' spans make."""

import json
import time

import pytest

from hybridjob import trace
from hybridjob.phases import Phases
from hybridjob.trace import Recorder, Span
from hybridjob.trace_file import trace_events

_JOB = """
name = "traced"
[data]
format = "synthetic"
num_samples = 400
num_dense = 2
[[data.features]]
name = "user"
cardinality = 50
[ps]
tasks_per_node = 2
[trainer]
tasks_per_node = 2
[training]
batch_size = 40
trace_from = 3
trace_steps = 4
"""


def test_only_the_steps_of_the_window_are_kept():
    recorder = Recorder(first_step=2, num_steps=2)
    for recorder.step in range(6):
        recorder.add("read", 1.0, 1.5)
    spans = recorder.take()
    assert [(one.name, one.step, one.duration_s) for one in spans] == [
        ("read", 2, 0.5),
        ("read", 3, 0.5),
    ]
    assert recorder.take() == []


def test_a_span_begins_by_the_clock_of_the_host():
    recorder = Recorder(num_steps=1)
    recorder.add("read", time.perf_counter(), time.perf_counter())
    assert recorder.take()[0].start_s == pytest.approx(time.time(), abs=60)


def test_phases_are_recorded(monkeypatch):
    monkeypatch.setattr(trace, "recorder", Recorder(num_steps=1))
    with Phases().timed("lookup"):
        pass
    assert [one.name for one in trace.take_spans()] == ["lookup"]


def test_events_are_named_and_count_microseconds_from_the_first():
    spans = {1: [Span("update", 4, "rpc 7", 10.5, 0.25)], 2: [Span("read", 4, "main 8", 10.0, 0.5)]}
    events = trace_events({1: "ps0 on a", 2: "trainer0 on b"}, spans)
    assert [(one["args"]["name"], one["pid"]) for one in events if one["ph"] == "M"] == [
        ("ps0 on a", 1),
        ("rpc 7", 1),
        ("trainer0 on b", 2),
        ("main 8", 2),
    ]
    update, read = (one for one in events if one["ph"] == "X")
    assert (update["ts"], update["dur"], update["args"]) == (500_000, 250_000, {"step": 4})
    assert (read["ts"], read["dur"], read["pid"]) == (0, 500_000, 2)


@pytest.mark.processes
def test_a_job_leaves_a_trace_of_every_server_and_trainer(run_job):
    run = run_job(_JOB)
    assert run.returncode == 0, run.stderr
    assert "waited most for" in run.stdout
    assert set(run.summary["waits"]) <= {"ps0", "ps1"}
    assert all(seconds >= 0 for seconds in run.summary["waits"].values())
    events = json.loads((run.folder / "trace.json").read_text())["traceEvents"]
    names = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    roles = [name.split(" on ")[0] for _, name in sorted(names.items())]
    assert roles == ["ps0", "ps1", "trainer0", "trainer1"]
    spans = [one for one in events if one["ph"] == "X"]
    assert {one["args"]["step"] for one in spans} == {3, 4, 5, 6}
    assert all(one["dur"] >= 0 and one["ts"] >= 0 for one in spans)
    for rank in (1, 2):
        assert {one["name"] for one in spans if one["pid"] == rank} == {
            "server lookup",
            "server update",
        }
    for rank in (3, 4):
        own = [one for one in spans if one["pid"] == rank]
        steps = [one for one in own if one["name"] == "step"]
        assert [one["args"]["step"] for one in steps] == [3, 4, 5, 6]
        for phase in ("lookup", "forward", "backward", "push", "update"):
            inner = [one for one in own if one["name"] == phase]
            assert {one["args"]["step"] for one in inner} == {3, 4, 5, 6}
            assert all(any(_within(one, step) for step in steps) for one in inner)
        threads = {one["args"]["name"] for one in events if one["name"] == "thread_name"}
        assert any(name.startswith("prefetch ") for name in threads)
        assert any(one["name"] == "read ahead" for one in own)


def _within(inner, outer):
    rounding_us = 0.01
    return (
        outer["ts"] - rounding_us <= inner["ts"]
        and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + rounding_us
    )
