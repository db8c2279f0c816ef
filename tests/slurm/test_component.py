import pytest

from slurm.component import Component


def test_tasks_per_node_is_rounded_up():
    assert Component(name="ps", nodes=4, num_tasks=9).tasks_per_node == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nodes": 0}, "nodes of 'ps' is 0"),
        ({"num_tasks": 0}, "num_tasks of 'ps' is 0"),
        ({"cpus_per_task": -1}, "cpus_per_task of 'ps' is -1"),
        ({"nodes": 3, "num_tasks": 2}, "2 tasks on 3 nodes"),
        ({"mem": "1G", "mem_per_cpu": "1G"}, "both mem and mem_per_cpu"),
        ({"time": "1h"}, "'1h' is no time limit"),
        ({"flags": {"no-requeue": True}}, "'no-requeue' is written by the script"),
        ({"flags": {"mem": "1G"}}, "'mem' has a key of its own"),
        ({"flags": {"--exclusive": True}}, "is no option"),
        ({"flags": {"x\n#SBATCH y": True}}, "is no option"),
        ({"step_flags": {"kill-on-bad-exit": 0}}, "is written by the script"),
    ],
)
def test_what_slurm_could_never_start_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Component(name="ps", **given)
