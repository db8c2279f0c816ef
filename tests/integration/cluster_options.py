"""What a cluster for tests looks like, and what this machine lacks for it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# Debian keeps the daemons there, and a user's PATH need not have it.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_SLURM = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "munged", "setpriv")
_ACCOUNTING = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb")
_NAMESPACES = ("ip", "nsenter", "unshare", "mount", "hostname")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """A cluster's shape. Nodes are the same machine, or network namespaces of it.

    nodes: partition -> its nodes; the first partition is the default one.
    gpus: partition -> how many GPUs each of its nodes claims to have.
    loopback_node: in mode netns, the node whose own name is 127.0.1.1 to itself.
    partition_flags: partition -> more of its line in slurm.conf.
    extra_lines: of slurm.conf; one with a key that is there already replaces it.
    """

    nodes: Mapping[str, tuple[str, ...]]
    cpus: int = 8
    gpus: Mapping[str, int] = field(default_factory=dict)
    accounting: Literal["none", "dbd"] = "none"
    mode: Literal["ports", "netns"] = "ports"
    loopback_node: str | None = None
    partition_flags: Mapping[str, str] = field(default_factory=dict)
    extra_lines: tuple[str, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """All nodes, each once, in the order given."""
        return tuple(dict.fromkeys(name for names in self.nodes.values() for name in names))

    def gpus_of(self, node: str) -> int:
        """Tell how many GPUs a node claims to have."""
        return max(self.gpus.get(name, 0) for name, nodes in self.nodes.items() if node in nodes)


def what_is_missing(options: ClusterOptions) -> str | None:
    """Say in one line what this machine lacks for such a cluster; None if nothing."""
    programs = [*_SLURM]
    if options.accounting == "dbd":
        programs += _ACCOUNTING
    if options.mode == "netns":
        programs += _NAMESPACES
    absent = [name for name in programs if shutil.which(name, path=SEARCH_PATH) is None]
    if absent:
        return f"not installed here: {', '.join(absent)}"
    if options.mode == "netns":
        return _missing_for_namespaces()
    return None


def _missing_for_namespaces() -> str | None:
    if os.geteuid() != 0:
        return "network namespaces need root"
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "ip", "link",
         "add", "probe0", "type", "veth", "peer", "name", "probe1"],
        env={**os.environ, "PATH": SEARCH_PATH},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )  # fmt: skip
    if tried.returncode == 0:
        return None
    return f"network namespaces cannot be made here: {tried.stderr.strip()}"
