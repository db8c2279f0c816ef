"""What sacct says of a job's components."""

import pytest

from slurm.command import CommandResult
from slurm.errors import CommandError
from slurm.usage import parse_usage, query_usage

TEXT = """67+0|COMPLETED|3600|1-02:03:04|||cpu=4
67+0.batch|COMPLETED|3600|00:01.500|1500K|zeta0|cpu=4
67+0.0|COMPLETED|3600|00:10|2G|zeta0|cpu=4
67+1|COMPLETED|3590|02:03.456||alpha[0-1]|cpu=8,gres/gpu=2
"""


def test_components_with_cpu_time_and_the_most_memory_of_their_steps():
    first, second = parse_usage(TEXT, "67")
    assert (first.component, first.elapsed_s, first.cpu_s) == (0, 3600, 93_784.0)
    assert first.max_rss == 2 * 1024**3
    assert (second.nodes, second.allocated) == ("alpha[0-1]", "cpu=8,gres/gpu=2")
    assert second.cpu_s == pytest.approx(123.456)
    assert second.max_rss is None


def test_a_plain_job_is_one_component_and_other_jobs_are_none():
    (one,) = parse_usage("9|FAILED|5|00:01||n0|cpu=1\n10|FAILED|5|00:01||n0|cpu=1\n", "9")
    assert (one.component, one.state, one.nodes) == (0, "FAILED", "n0")


def test_without_accounting_nothing_is_known():
    def fails(argv, *, timeout_s, env=None):
        raise CommandError("Slurm accounting storage is disabled")

    def answers(argv, *, timeout_s, env=None):
        return CommandResult(stdout=TEXT, stderr="")

    assert query_usage("67", run=fails) == ()
    assert len(query_usage("67", run=answers)) == 2
