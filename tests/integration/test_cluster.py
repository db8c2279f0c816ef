"""The clusters that the other tests run on are what they say."""

import pytest
from cluster import Cluster
from cluster_options import ClusterOptions

pytestmark = pytest.mark.timeout(120)


def het_step(cluster, shell):
    """Run a line of shell in every task of a job of 2 + 2 tasks on 2 + 1 nodes."""
    argv = ["salloc", "--quiet", "--partition=bigmem", "--nodes=2", "--ntasks=2", ":"]
    argv += ["--partition=gpu", "--nodes=1", "--ntasks=2"]
    argv += ["srun", "--het-group=0,1", "bash", "-c", shell]
    return cluster.run(argv).stdout.splitlines()


def test_all_nodes_are_idle_after_start(cluster):
    nodes = cluster.run(["sinfo", "-h", "-N", "-o", "%N %P"]).stdout.split()
    pairs = set(zip(nodes[::2], nodes[1::2], strict=True))
    assert pairs == {
        ("zeta0", "bigmem*"),
        ("zeta1", "bigmem*"),
        ("alpha0", "gpu"),
        ("alpha1", "gpu"),
    }


def test_a_heterogeneous_step_numbers_its_tasks_once(cluster):
    lines = het_step(cluster, 'echo "$SLURM_PROCID $SLURM_NTASKS $SLURMD_NODENAME"')
    assert sorted(lines) == ["0 4 zeta0", "1 4 zeta1", "2 4 alpha0", "3 4 alpha0"]


def test_sacct_tells_a_jobs_end(accounting_cluster, eventually):
    job_id = accounting_cluster.run(["sbatch", "--parsable", "--wrap=exit 3"]).stdout.strip()
    argv = ["sacct", "-n", "-P", "-X", "-o", "State,ExitCode", "-j", job_id]
    eventually(lambda: accounting_cluster.run(argv).stdout == "FAILED|3:0\n", 30)


def test_every_network_node_has_its_own_name_and_address(netns_cluster):
    lines = het_step(netns_cluster, 'echo "$SLURM_PROCID $(hostname) $(ip -4 -br addr show eth0)"')
    fields = [line.split() for line in sorted(lines)]
    assert [(rank, host) for rank, host, *_ in fields] == [
        ("0", "zeta0"), ("1", "zeta1"), ("2", "alpha0"), ("3", "alpha0")
    ]  # fmt: skip
    for _, host, _, _, address in fields:
        assert address == f"{netns_cluster.site.addresses[host]}/24"


def test_one_network_node_is_loopback_to_itself_only(netns_cluster):
    lines = het_step(netns_cluster, 'echo "$(hostname) $(getent ahostsv4 zeta0 | head -1)"')
    seen = {line.split()[0]: line.split()[1] for line in lines}
    real = netns_cluster.site.addresses["zeta0"]
    assert seen == {"zeta0": "127.0.1.1", "zeta1": real, "alpha0": real}


def test_a_crashed_node_comes_back_and_nothing_is_left_at_the_end(cluster, eventually):
    options = ClusterOptions(nodes={"cpu": ("n0", "n1")}, extra_lines=("SlurmdTimeout=2",))
    with Cluster(options) as other:
        assert not set(other.processes()) & set(cluster.processes())
        job_id = other.run(["sbatch", "--parsable", "--nodelist=n0", "--wrap=sleep 1000"]).stdout
        other.wait_for_state(job_id.strip(), {"RUNNING"}, 20)
        other.crash_node("n0")
        other.run(["scontrol", "update", "node=n0", "state=down", "reason=crashed"])
        other.boot_node("n0")
        down = ["sinfo", "-h", "-N", "-n", "n0", "-o", "%t"]
        eventually(lambda: other.run(down).stdout.strip() in {"idle", "alloc", "mix"}, 30)
        folder = other.site.folder
    assert other.processes() == []
    assert not folder.exists()
