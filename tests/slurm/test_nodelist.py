import os
import shutil
import subprocess

import pytest

from slurm.nodelist import expand_hosts, expand_tasks_per_node

HOSTS = {
    "n0": ["n0"],
    "n[0-3,7]": ["n0", "n1", "n2", "n3", "n7"],
    "linux[1,2]": ["linux1", "linux2"],
    "alpha,beta,gamma": ["alpha", "beta", "gamma"],
    "node-a-01": ["node-a-01"],
    "a[01-02]-b[1-2]": ["a01-b1", "a01-b2", "a02-b1", "a02-b2"],
    "nodeA,nodeB[1-3]": ["nodeA", "nodeB1", "nodeB2", "nodeB3"],
    "rack[1]_n[1-2]": ["rack1_n1", "rack1_n2"],
    "foo-[10-11]-[01-02]": ["foo-10-01", "foo-10-02", "foo-11-01", "foo-11-02"],
    "z0,a[1-2],b2": ["z0", "a1", "a2", "b2"],
    "n[098-101]": ["n098", "n099", "n100", "n101"],
}


@pytest.mark.parametrize(("text", "hosts"), HOSTS.items())
def test_a_node_list_is_expanded_in_its_own_order(text, hosts):
    assert list(expand_hosts(text)) == hosts


@pytest.mark.slurm
@pytest.mark.skipif(shutil.which("scontrol") is None, reason="scontrol is not installed")
@pytest.mark.parametrize("text", [*HOSTS, "foo-[10-20]-[01-02]"])
def test_scontrol_expands_a_node_list_to_the_same(text, tmp_path):
    # It asks no controller, but wants a configuration that it can read.
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=x\nSlurmctldHost=localhost\nNodeName=n0\nPartitionName=p Nodes=n0\n"
    )
    said = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
        env={**os.environ, "SLURM_CONF": str(conf)},
    )
    assert list(expand_hosts(text)) == said.stdout.split()


@pytest.mark.parametrize("text", ["", "n[1-2", "n[a-b]", "a,,b"])
def test_other_text_is_no_node_list(text):
    with pytest.raises(ValueError, match="is no node list"):
        expand_hosts(text)


@pytest.mark.parametrize(
    ("text", "counts"), [("1", (1,)), ("2(x2),1", (2, 2, 1)), ("3,2(x4),1", (3, 2, 2, 2, 2, 1))]
)
def test_tasks_per_node_is_expanded(text, counts):
    assert expand_tasks_per_node(text) == counts


@pytest.mark.parametrize("text", ["", "x2", "2(x)", "2(2)", "1,,2"])
def test_other_text_is_no_list_of_tasks_per_node(text):
    with pytest.raises(ValueError, match="tasks per node"):
        expand_tasks_per_node(text)
