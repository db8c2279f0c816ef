"""What a cluster offers: its configuration, and its nodes by partition."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.duration import parse_duration
from slurm.environment import scrubbed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from slurm.component import Component
    from slurm.query import Runner

_FORMAT = "%R|%N|%T|%c|%m|%G|%l|%a|%P"
_CONFIG_LINE = re.compile(r"^(\w+)\s*=\s*(.*?)\s*$")
_GPUS = re.compile(r"gpu(?::[\w.-]+)?:(\d+)")
_UNUSABLE = ("down", "drain", "fail", "boot_fail", "error", "unknown", "future", "power_down")
_MEMORY = re.compile(r"^(\d+(?:\.\d+)?)([KMGT]?)B?$", re.IGNORECASE)
_IN_MB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}


@dataclass(frozen=True, kw_only=True)
class SiteNode:
    """A node as one partition offers it. time_limit_s: None is none. gpus: how many."""

    partition: str
    name: str
    state: str
    cpus: int
    memory_mb: int
    gpus: int
    time_limit_s: int | None
    partition_up: bool
    is_default: bool

    @property
    def usable(self) -> bool:
        """Whether jobs can start there, now or once it is free."""
        return self.partition_up and not self.state.startswith(_UNUSABLE)


def query_config(*, timeout_s: float, run: Runner = run_command) -> dict[str, str]:
    """Ask for the controller's configuration. Raises CommandError."""
    argv = ["scontrol", "show", "config"]
    text = run(argv, timeout_s=timeout_s, env=scrubbed(os.environ)).stdout
    matches = (_CONFIG_LINE.match(line) for line in text.splitlines())
    return {match[1]: match[2] for match in matches if match is not None}


def query_nodes(*, timeout_s: float, run: Runner = run_command) -> list[SiteNode]:
    """Ask for all nodes of all partitions. Raises CommandError."""
    argv = ["sinfo", "-h", "-N", "-o", _FORMAT]
    text = run(argv, timeout_s=timeout_s, env=scrubbed(os.environ)).stdout
    return [node for line in text.splitlines() if (node := _node(line)) is not None]


def _node(line: str) -> SiteNode | None:
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) != len(_FORMAT.split("|")):
        return None
    partition, name, state, cpus, memory, gres, limit, up, marked = cells
    return SiteNode(
        partition=partition,
        name=name,
        state=state.lower(),
        cpus=int(cpus.rstrip("+") or 0),
        memory_mb=int(memory.rstrip("+") or 0),
        gpus=sum(int(number) for number in _GPUS.findall(gres)),
        time_limit_s=_limit(limit),
        partition_up=up.lower() == "up",
        is_default=marked.endswith("*"),
    )


def _limit(text: str) -> int | None:
    """Read sinfo's limit: it writes `infinite`, and `n/a` where there is none."""
    return None if text.lower() in ("infinite", "n/a", "") else parse_duration(text)


def memory_mb(text: str) -> float:
    """Turn memory as sbatch takes it into MiB: 4000, 64G, 1.5T. Raises ValueError."""
    match = _MEMORY.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size of memory: write it as 64G")
    return float(match[1]) * _IN_MB[match[2].upper()]


def gpus_asked(component: Component) -> int:
    """Count the GPUs that a component asks for on each node."""
    asked = component.gpus_per_node
    if asked is None or asked is False:
        return 0
    number = str(asked).rpartition(":")[2]
    return int(number) if number.isdigit() else 1


def candidates(component: Component, nodes: Sequence[SiteNode]) -> list[SiteNode]:
    """List the nodes of a component's partitions, or of the default one."""
    if component.partition is None:
        return [node for node in nodes if node.is_default]
    wanted = component.partition.split(",")
    return [node for node in nodes if node.partition in wanted]


def fits(component: Component, node: SiteNode) -> bool:
    """Tell whether a node is usable and as large as one node of the component must be."""
    memory = 0.0
    if component.mem is not None:
        memory = memory_mb(component.mem)
    elif component.mem_per_cpu is not None:
        each = component.tasks_per_node * component.cpus_per_task
        memory = memory_mb(component.mem_per_cpu) * each
    return (
        node.usable
        and node.cpus >= component.tasks_per_node * component.cpus_per_task
        and node.memory_mb >= memory
        and node.gpus >= gpus_asked(component)
    )


def too_few_together(
    wanted: Mapping[str, int], suitable: Mapping[str, AbstractSet[str]]
) -> tuple[tuple[str, ...], int, int] | None:
    """Find components that cannot all have nodes of their own: two never share one.

    wanted: component -> nodes. suitable: component -> names of the nodes that fit it.
    Returns the names of the smallest such group, how many nodes it wants and how many there are;
    None if there are enough (Hall's theorem).
    """
    for size in range(1, len(wanted) + 1):
        for group in combinations(wanted, size):
            there = len(set().union(*(suitable[name] for name in group)))
            total = sum(wanted[name] for name in group)
            if there < total:
                return group, total, there
    return None
