"""Nodes with a network and a name of their own crash, or lose each other, under a training."""

import time

import pytest
from disturbed_run import ONE_NODE_OF_SERVERS, completes, starting
from training_run import processes_of

pytestmark = pytest.mark.timeout(600)

# Component 0 is the master alone, 1 the servers, 2 the trainers.
THREE_COMPONENTS = (
    *("master.partition=bigmem", "master.flags.nodelist=zeta0"),
    *("ps.flags.nodelist=zeta1", "trainer.nodes=1", "trainer.tasks_per_node=2"),
    "trainer.flags.nodelist=alpha0",
)


@pytest.fixture
def start(faulty_netns_cluster, tmp_path, eventually):
    with starting(faulty_netns_cluster, tmp_path, eventually, *ONE_NODE_OF_SERVERS) as begin:
        yield begin


@pytest.fixture
def crash(faulty_netns_cluster, eventually):
    """Power a node off, and on again when Slurm has seen it."""
    cluster = faulty_netns_cluster

    def state(node):
        return cluster.run(["sinfo", "-h", "-N", "-n", node, "-o", "%T"]).stdout.strip()

    def crash(node):
        cluster.crash_node(node)
        eventually(lambda: "down" in state(node), 120)
        cluster.boot_node(node)
        eventually(lambda: "down" not in state(node), 120)

    return crash


@pytest.mark.parametrize("node", ["zeta0", "zeta1", "alpha0"])
def test_the_only_node_of_any_of_three_components_may_crash(
    faulty_netns_cluster, start, crash, undisturbed, node
):
    run = start(*THREE_COMPONENTS)
    crash(node)
    completes(faulty_netns_cluster, run, undisturbed)


def test_one_of_several_nodes_of_a_component_may_crash(
    faulty_netns_cluster, start, crash, undisturbed
):
    run = start()
    crash("alpha1")
    completes(faulty_netns_cluster, run, undisturbed, requeues=1)


def test_a_partition_that_heals_costs_no_number(faulty_netns_cluster, start, undisturbed):
    run = start("network.rpc_timeout_s=5", "model.options.pause_s=0.05", "ps.flags.nodelist=zeta0")
    with partition(faulty_netns_cluster.network):
        time.sleep(12)
    completes(faulty_netns_cluster, run, undisturbed)


def test_a_partition_that_does_not_heal_ends_the_job_with_its_cause(
    faulty_netns_cluster, start, eventually
):
    run = start(
        "network.rpc_timeout_s=3", "network.rendezvous_timeout_s=5", "recovery.max_restarts=1",
        "ps.flags.nodelist=zeta0",
    )  # fmt: skip
    with partition(faulty_netns_cluster.network):
        faulty_netns_cluster.wait_for_state(run.job_id, {"FAILED"}, 400)
    assert run.summary["state"] == "failed"
    assert "did not arrive" in run.summary["cause"]
    eventually(lambda: not processes_of(run.folder.parent), 30)


class partition:  # noqa: N801 - it is used as a function
    """Cut the servers' node and the trainers' from each other; Slurm sees both."""

    def __init__(self, network):
        self._network = network

    def __enter__(self):
        for trainers in ("alpha0", "alpha1"):
            self._network.cut("zeta0", trainers)
            self._network.cut(trainers, "zeta0")

    def __exit__(self, *_):
        for trainers in ("alpha0", "alpha1"):
            self._network.heal("zeta0", trainers)
            self._network.heal(trainers, "zeta0")
