"""How the ranks of a job find each other, and the groups that they make.

The master opens a store on a port that the system picks, so that no two jobs, and no two lives of
one job, ever meet; it writes the address to a file of this generation in the job's folder. Every
other rank reads the file and reports to the store. Once all have, they agree on the interfaces and
join torch RPC, in which every rank is a member, and the trainers their process group.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed import rpc

from hybridjob import network
from hybridjob.errors import PeerError, RendezvousError
from hybridjob.meeting import POLL_S, Meeting, find_store, open_store
from hybridjob.roles import Layout, Role, index_in_role, name_of, role_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hybridjob.config import Network

_SCHEME = "hybridjob"


@dataclass(frozen=True, kw_only=True)
class World:
    """A rank's view of all ranks, once they have met."""

    rank: int
    local_rank: int
    layout: Layout
    hosts: tuple[str, ...]
    store: dist.Store
    rpc_timeout_s: float
    local: bool
    """All ranks are on this machine."""

    @property
    def role(self) -> Role:
        """This rank's role."""
        return role_of(self.rank, self.layout)

    @property
    def index(self) -> int:
        """This rank's place among those of its role."""
        return index_in_role(self.rank, self.layout)

    def name_of(self, rank: int) -> str:
        """Name a rank as torch RPC knows it."""
        return name_of(rank, self.layout)

    def describe(self, rank: int) -> str:
        """Name a rank as a person wants it: rank, role and host."""
        return f"rank {rank} ({self.name_of(rank)} on {self.hosts[rank]})"


def meet(meeting: Meeting, settings: Network) -> World:
    """Wait until all ranks are here, then join RPC.

    Raises RendezvousError that names the ranks which did not arrive before the deadline.
    """
    deadline = time.monotonic() + settings.rendezvous_timeout_s
    if meeting.rank == 0:
        store, address = open_store(meeting, settings)
    else:
        store, address = find_store(meeting, settings, deadline)
    members = _gather(meeting, store, address, deadline)
    local = len({member["machine"] for member in members}) == 1
    _choose_interface(meeting, settings, members, address, local=local)
    world = World(
        rank=meeting.rank,
        local_rank=meeting.local_rank,
        layout=meeting.layout,
        hosts=tuple(member["host"] for member in members),
        store=store,
        rpc_timeout_s=settings.rpc_timeout_s,
        local=local,
    )
    _join_rpc(world, settings)
    return world


def join_trainers(world: World, *, cuda: bool) -> None:
    """Make the default process group of the trainers: gloo, with nccl for CUDA tensors."""
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        store=dist.PrefixStore("trainers", world.store),
        rank=world.index,
        world_size=world.layout.num_trainers,
        # Longer than the master needs to notice, and to name, a rank that has fallen silent.
        timeout=timedelta(seconds=world.rpc_timeout_s + 15),
    )


def leave(world: World) -> None:
    """Leave RPC together with all others; the master, whose store they need for it, goes last.

    Raises PeerError if some do not leave in time.
    """
    try:
        rpc.shutdown(graceful=True, timeout=int(world.rpc_timeout_s))
    except RuntimeError as error:
        raise PeerError(f"could not leave RPC in order: {error}") from error
    if world.rank != 0:
        world.store.set(f"left/{world.rank}", "")
        return
    ranks = range(1, world.layout.num_tasks)
    keys = [f"left/{rank}" for rank in ranks]
    staying = _absent(world.store, keys, time.monotonic() + world.rpc_timeout_s)
    if staying:
        names = ", ".join(world.describe(ranks[one]) for one in staying)
        raise PeerError(f"did not leave in time: {names}")


def _gather(
    meeting: Meeting, store: dist.Store, master_address: str, deadline: float
) -> list[dict[str, str]]:
    own = {
        "host": meeting.host,
        "machine": network.machine_identity(),
        "address": network.source_address(master_address),
    }
    store.set(f"member/{meeting.rank}", json.dumps(own))
    keys = [f"member/{rank}" for rank in range(meeting.layout.num_tasks)]
    if meeting.rank == 0:
        absent = _absent(store, keys, deadline)
        store.set("verdict", json.dumps(absent))
    else:
        _wait(store, "verdict", deadline + 10, meeting)
        absent = json.loads(store.get("verdict"))
    if absent:
        names = [f"{rank} ({name_of(rank, meeting.layout)})" for rank in absent]
        raise RendezvousError(
            f"{len(absent)} of {len(keys)} ranks did not arrive in time: {', '.join(names)}. See "
            "their logs; network.rendezvous_timeout_s is how long the others wait"
        )
    return [json.loads(store.get(key)) for key in keys]


def _absent(store: dist.Store, keys: list[str], deadline: float) -> list[int]:
    missing = list(range(len(keys)))
    while True:
        missing = [rank for rank in missing if not store.check([keys[rank]])]
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(POLL_S)


def _wait(store: dist.Store, key: str, deadline: float, meeting: Meeting) -> None:
    while not store.check([key]):
        if time.monotonic() > deadline:
            raise RendezvousError(
                f"rank {meeting.rank} on {meeting.host} waited for rank 0 (master on "
                f"{meeting.master_host}) to say who has arrived: see the master's log"
            )
        time.sleep(POLL_S)


def _choose_interface(
    meeting: Meeting,
    settings: Network,
    members: list[dict[str, str]],
    master_address: str,
    *,
    local: bool,
) -> None:
    if settings.interface is not None:
        network.check_interface(settings.interface)
        network.use_interface(settings.interface)
    elif local:
        network.use_interface(network.interface_towards(network.LOOPBACK))
    else:
        network.use_interface(
            network.interface_towards(_far_address(meeting, members, master_address))
        )


def _far_address(meeting: Meeting, members: list[dict[str, str]], master_address: str) -> str:
    """Find an address beyond this machine: the master's, or, on its machine, another rank's."""
    here = network.machine_identity()
    if members[0]["machine"] != here:
        return master_address
    for member in members:
        if member["machine"] != here:
            return member["address"]
    raise AssertionError(f"rank {meeting.rank}: no other machine among the members")


def _join_rpc(world: World, settings: Network) -> None:
    def share_our_store(*_: Any, **__: Any) -> Iterator[tuple[dist.Store, int, int]]:
        yield dist.PrefixStore("rpc", world.store), world.rank, world.layout.num_tasks

    dist.register_rendezvous_handler(_SCHEME, share_our_store)
    # Not shared memory: its reactor polls without a pause and takes a core from every process.
    transports = None if settings.rdma else ["uv"]
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=max(8, 2 * world.layout.num_trainers + 2),
        rpc_timeout=settings.rpc_timeout_s,
        init_method=f"{_SCHEME}://",
        _transports=transports,
    )
    rpc.init_rpc(
        world.name_of(world.rank),
        rank=world.rank,
        world_size=world.layout.num_tasks,
        rpc_backend_options=options,
    )
