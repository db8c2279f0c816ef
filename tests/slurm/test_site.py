"""What a cluster says that it offers."""

import pytest

from slurm.command import CommandResult
from slurm.component import Component
from slurm.site import (
    candidates,
    fits,
    gpus_asked,
    memory_mb,
    query_config,
    query_nodes,
    too_few_together,
)

SINFO = """cpu|n0|idle|8|4000|(null)|infinite|up|cpu*
cpu|n1|drained|8|4000|(null)|infinite|up|cpu*
gpu|n2|mixed|16+|64000|gpu:a100:4(S:0-1)|1-00:00:00|up|gpu
old|n3|idle|4|2000|(null)|30:00|down|old
"""


def answering(text):
    def run(argv, *, timeout_s, env=None):
        return CommandResult(stdout=text, stderr="")

    return run


def nodes():
    return query_nodes(timeout_s=1, run=answering(SINFO))


def test_nodes_with_their_sizes_limits_and_whether_they_can_be_used():
    assert [(one.name, one.usable) for one in nodes()] == [
        ("n0", True), ("n1", False), ("n2", True), ("n3", False),
    ]  # fmt: skip
    gpu = nodes()[2]
    assert (gpu.cpus, gpu.memory_mb, gpu.gpus, gpu.time_limit_s) == (16, 64_000, 4, 86_400)
    assert nodes()[0].time_limit_s is None


def test_without_a_partition_the_default_one_counts():
    plain = Component(name="ps")
    assert [one.name for one in candidates(plain, nodes())] == ["n0", "n1"]
    several = Component(name="ps", partition="gpu,old")
    assert [one.name for one in candidates(several, nodes())] == ["n2", "n3"]


@pytest.mark.parametrize(
    ("asked", "fitting"),
    [
        ({}, ["n0", "n2"]),
        ({"mem": "5G"}, ["n2"]),
        ({"cpus_per_task": 4, "num_tasks": 3}, ["n2"]),
        ({"mem_per_cpu": "2G", "cpus_per_task": 2}, ["n2"]),
        ({"gpus_per_node": "a100:4"}, ["n2"]),
        ({"gpus_per_node": 8}, []),
    ],
)
def test_which_nodes_are_large_enough(asked, fitting):
    component = Component(name="x", **asked)
    assert [one.name for one in nodes() if fits(component, one)] == fitting


def test_the_config_is_read_by_key():
    text = "Configuration data as of now\nSchedulerType           = sched/backfill\nX = a = b\n"
    run = answering(text)
    assert query_config(timeout_s=1, run=run) == {"SchedulerType": "sched/backfill", "X": "a = b"}


def test_components_that_want_the_same_nodes_are_found():
    both = {"ps": {"a", "b"}, "trainer": {"a", "b"}}
    assert too_few_together({"ps": 1, "trainer": 1}, both) is None
    assert too_few_together({"ps": 1, "trainer": 2}, both) == (("ps", "trainer"), 3, 2)
    assert too_few_together({"ps": 3, "trainer": 1}, both) == (("ps",), 3, 2)
    apart = {"ps": {"a", "b"}, "trainer": {"b", "c"}}
    assert too_few_together({"ps": 2, "trainer": 1}, apart) is None


def test_memory_and_gpus_as_sbatch_takes_them():
    assert memory_mb("4000") == 4000
    assert memory_mb("1.5G") == 1536
    assert memory_mb("2TB") == 2 * 1024**2
    with pytest.raises(ValueError, match="lots"):
        memory_mb("lots")
    sizes = [None, 2, "a100:3", "a100", True]
    asked = [gpus_asked(Component(name="x", gpus_per_node=size)) for size in sizes]
    assert asked == [0, 2, 3, 1, 1]
