"""Clusters that live as long as the session, each on one worker of it."""

import sys
from pathlib import Path

# At the end: another folder's `conftest` must not be found here first.
sys.path.append(str(Path(__file__).parent))

import pytest
import training_run
from cluster import Cluster
from cluster_options import ClusterOptions, what_is_missing

# Trainers' nodes sort before the servers': the first host of a sorted list is not rank 0's.
NODES = {"bigmem": ("zeta0", "zeta1"), "gpu": ("alpha0", "alpha1")}
GROUPS = {
    "cluster": "slurm-ports",
    "accounting_cluster": "slurm-acct",
    "netns_cluster": "slurm-netns",
    "faulty_cluster": "slurm-faults",
    "faulty_netns_cluster": "slurm-faults-netns",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what runs on a cluster, and keep each cluster's tests on one worker.

    The one that starts fastest is started anew for each file, so that workers share its many tests.
    """
    for item in items:
        for fixture, group in GROUPS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.slurm)
                name = f"{group}-{item.path.stem}" if fixture == "cluster" else group
                item.add_marker(pytest.mark.xdist_group(name))


def _running(*, nodes=NODES, **options):
    options = ClusterOptions(nodes=nodes, **options)
    missing = what_is_missing(options)
    if missing is not None:
        pytest.skip(f"no real Slurm: {missing}")
    with Cluster(options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster():
    """Two nodes for servers, two for trainers with GPUs that aren't there; no accounting."""
    yield from _running(gpus={"gpu": 2})


@pytest.fixture(scope="session")
def accounting_cluster():
    """The same with slurmdbd and its database."""
    yield from _running(accounting="dbd")


@pytest.fixture(scope="session")
def netns_cluster():
    """Each node with its own network and host name; the master's calls itself 127.0.1.1."""
    yield from _running(mode="netns", loopback_node="zeta0")


@pytest.fixture(scope="session")
def faulty_cluster():
    """One whose nodes an urgent partition may take away, and whose nodes and daemons may die."""
    every_node = tuple(node for nodes in NODES.values() for node in nodes)
    yield from _running(
        nodes={**NODES, "urgent": every_node},
        partition_flags={"urgent": "PriorityTier=9 PreemptMode=OFF"},
        extra_lines=("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"),
    )


@pytest.fixture(scope="session")
def faulty_netns_cluster():
    """One with real host names and networks, whose nodes may crash or lose each other."""
    yield from _running(mode="netns", loopback_node="zeta0")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """Give the digest of `training_run.LONGER` when nothing happens to it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    training_run.write_job(folder)
    run = training_run.submit(
        folder / "run", folder / "tiny.toml", *training_run.LONGER, "--executor", "local"
    )
    assert run.returncode == 0, run.said
    return run.summary["state_digest"]


@pytest.fixture(scope="session")
def expected_digest(tmp_path_factory):
    """What the tiny job's parameters are in the end, by the local executor."""
    folder = tmp_path_factory.mktemp("expected")
    (folder / "tiny.toml").write_text(training_run.JOB)
    run = training_run.submit(folder / "run", folder / "tiny.toml", "--executor", "local")
    assert run.returncode == 0, run.said
    return run.summary["state_digest"]
