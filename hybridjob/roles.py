"""Which rank does what. One pure function decides, from the rank alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hybridjob.errors import ConfigError


class Role(str, Enum):
    """What a task is."""

    MASTER = "master"
    PS = "ps"
    TRAINER = "trainer"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many tasks of each role there are: rank 0, then the servers, then the trainers."""

    num_servers: int
    num_trainers: int

    @property
    def num_tasks(self) -> int:
        """The master, the servers and the trainers."""
        return 1 + self.num_servers + self.num_trainers

    @property
    def server_ranks(self) -> range:
        """Ranks of the parameter servers."""
        return range(1, 1 + self.num_servers)

    @property
    def trainer_ranks(self) -> range:
        """Ranks of the trainers."""
        return range(1 + self.num_servers, self.num_tasks)

    def check(self, num_tasks: int) -> None:
        """Raise ConfigError where Slurm gave another number of tasks than the job file asks for."""
        if num_tasks != self.num_tasks:
            raise ConfigError(
                f"the job file makes {self.num_tasks} tasks (1 master, {self.num_servers} servers, "
                f"{self.num_trainers} trainers), but SLURM_NTASKS is {num_tasks}: make nodes and "
                "tasks_per_node of ps and trainer agree with the script"
            )


def role_of(rank: int, layout: Layout) -> Role:
    """Tell the role of a rank: 0 is the master, then come the servers, then the trainers."""
    if not 0 <= rank < layout.num_tasks:
        raise ValueError(f"rank {rank} is not one of {layout.num_tasks} tasks")
    if rank == 0:
        return Role.MASTER
    return Role.PS if rank in layout.server_ranks else Role.TRAINER


def index_in_role(rank: int, layout: Layout) -> int:
    """Count a rank among those of its role, from 0."""
    match role_of(rank, layout):
        case Role.MASTER:
            return 0
        case Role.PS:
            return rank - layout.server_ranks.start
        case Role.TRAINER:
            return rank - layout.trainer_ranks.start


def name_of(rank: int, layout: Layout) -> str:
    """Name a rank as people and torch RPC know it: master, ps0, trainer1."""
    role = role_of(rank, layout)
    return role.value if role is Role.MASTER else f"{role.value}{index_in_role(rank, layout)}"
