"""Which task of which job this process is, from the environment that srun gives it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from slurm.errors import PlacementError
from slurm.nodelist import expand_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where one task stands in its job.

    rank and num_tasks count over the whole job, in the order of the components; local_rank counts
    within the component on this host. component_hosts are in each component's own order.
    restart_count is how often Slurm has requeued the job.
    """

    job_id: str
    rank: int
    num_tasks: int
    local_rank: int
    host: str
    component: int
    component_sizes: tuple[int, ...]
    component_hosts: tuple[tuple[str, ...], ...]
    restart_count: int

    @property
    def master_host(self) -> str:
        """The host of rank 0: the first of component 0's own list.

        Not the first of SLURM_JOB_NODELIST, which is the alphabetically sorted union.
        """
        return self.component_hosts[0][0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the job, each once, in the order of the components."""
        return tuple(dict.fromkeys(host for hosts in self.component_hosts for host in hosts))

    @property
    def component_rank(self) -> int:
        """This task's place within its component, from 0."""
        return self.rank - sum(self.component_sizes[: self.component])


def read_placement(env: Mapping[str, str]) -> Placement:
    """Read the placement of a task of a step, in a het job or in a plain one.

    Raises PlacementError where this is no task of a step (a batch script, or an ssh session into
    a node, has some of Slurm's variables too), or where the sizes contradict each other.
    """
    # Only a step has this one: so it is asked first.
    _required(env, "SLURM_STEP_ID")
    num_tasks = _number(env, "SLURM_NTASKS")
    sizes, hosts = _components(env)
    if sum(sizes) != num_tasks:
        raise PlacementError(
            f"the components have {' + '.join(map(str, sizes))} = {sum(sizes)} tasks, but "
            f"SLURM_NTASKS is {num_tasks}: start one step over all components, "
            "`srun --het-group=0 ... : --het-group=1 ...`, with as many tasks as were asked for"
        )
    rank = _number(env, "SLURM_PROCID")
    if rank >= num_tasks:
        raise PlacementError(f"SLURM_PROCID is {rank}, but SLURM_NTASKS is {num_tasks}")
    return Placement(
        job_id=_required(env, "SLURM_JOB_ID"),
        rank=rank,
        num_tasks=num_tasks,
        local_rank=_number(env, "SLURM_LOCALID"),
        host=_required(env, "SLURMD_NODENAME"),
        component=sum(rank >= end for end in accumulate(sizes)),
        component_sizes=sizes,
        component_hosts=hosts,
        # Unset in a job's first life.
        restart_count=_number(env, "SLURM_RESTART_COUNT") if env.get("SLURM_RESTART_COUNT") else 0,
    )


def _components(
    env: Mapping[str, str],
) -> tuple[tuple[int, ...], tuple[tuple[str, ...], ...]]:
    """Read the number of tasks and the hosts of each component."""
    if "SLURM_HET_SIZE" in env:
        suffixes = [f"_HET_GROUP_{index}" for index in range(_number(env, "SLURM_HET_SIZE"))]
    else:
        suffixes = [""]
    sizes = tuple(_number(env, f"SLURM_NTASKS{suffix}") for suffix in suffixes)
    hosts = tuple(_hosts(env, f"SLURM_JOB_NODELIST{suffix}") for suffix in suffixes)
    if not sizes:
        raise PlacementError("SLURM_HET_SIZE is 0: a job has at least one component")
    return sizes, hosts


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise PlacementError(
            f"{name} is not set: this process is no task of a Slurm step. "
            "Start it with srun inside a job, or use the local executor"
        )
    return value


def _number(env: Mapping[str, str], name: str) -> int:
    text = _required(env, name)
    if not (text.isascii() and text.isdigit()):
        raise PlacementError(f"{name} is {text!r}, not a whole number: was it set by hand?")
    return int(text)


def _hosts(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = _required(env, name)
    try:
        return expand_hosts(text)
    except ValueError as error:
        raise PlacementError(f"{name} is {text!r}, which is no node list") from error
