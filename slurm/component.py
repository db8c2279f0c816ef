"""What one het-group of a job asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm.duration import parse_duration

Flag = str | int | bool

_FLAG_NAME = re.compile(r"[a-z][a-z0-9-]*")
# The script writes these itself, alike in all components: a second, other value would make the
# job wait for ever or take its logs and results elsewhere.
_WRITTEN_BY_SCRIPT = frozenset(
    {
        "array",
        "cpus-per-task",
        "distribution",
        "error",
        "export",
        "het-group",
        "job-name",
        "kill-on-bad-exit",
        "nodes",
        "no-requeue",
        "ntasks",
        "ntasks-per-node",
        "open-mode",
        "output",
        "parsable",
        "requeue",
        "signal",
        "wait",
        "wrap",
    }
)
_FIELDS_AS_FLAGS = frozenset(
    {"account", "constraint", "gpus-per-node", "mem", "mem-per-cpu", "partition", "qos", "time"}
)


@dataclass(frozen=True, kw_only=True)
class Component:
    """Resources of one group of nodes that are alike.

    num_tasks counts over all nodes; no node gets more than ceil(num_tasks / nodes), and the first
    task is on the first node. mem is per node. flags are further options of sbatch,
    step_flags of srun: True is a flag without a value, False leaves it out.
    Raises ValueError for what Slurm could never start.
    """

    name: str
    nodes: int = 1
    num_tasks: int = 1
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    mem: str | None = None
    mem_per_cpu: str | None = None
    time: str | None = None
    cpus_per_task: int = 1
    gpus_per_node: int | str | None = None
    flags: Mapping[str, Flag] = field(default_factory=dict)
    step_flags: Mapping[str, Flag] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the sizes, and that no option is said twice."""
        for key in ("nodes", "num_tasks", "cpus_per_task"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key} of {self.name!r} is {getattr(self, key)}: at least 1")
        if self.num_tasks < self.nodes:
            raise ValueError(
                f"{self.name!r} has {self.num_tasks} tasks on {self.nodes} nodes: "
                "a node without a task is not possible, ask for fewer nodes"
            )
        if self.mem is not None and self.mem_per_cpu is not None:
            raise ValueError(f"{self.name!r} has both mem and mem_per_cpu: Slurm takes one")
        if self.time is not None:
            parse_duration(self.time)
        _check_flags(self.name, "flags", self.flags, _WRITTEN_BY_SCRIPT | _FIELDS_AS_FLAGS)
        _check_flags(self.name, "step_flags", self.step_flags, _WRITTEN_BY_SCRIPT)

    @property
    def tasks_per_node(self) -> int:
        """The most tasks that a node gets."""
        return -(-self.num_tasks // self.nodes)


def _check_flags(name: str, key: str, flags: Mapping[str, Flag], reserved: frozenset[str]) -> None:
    for flag in flags:
        if not _FLAG_NAME.fullmatch(flag):
            raise ValueError(f"{key} of {name!r}: {flag!r} is no option, write it as 'exclusive'")
        if flag in _FIELDS_AS_FLAGS & reserved:
            raise ValueError(f"{key} of {name!r}: {flag!r} has a key of its own, use that")
        if flag in reserved:
            raise ValueError(f"{key} of {name!r}: {flag!r} is written by the script itself")
