"""What a parameter server does: it holds shards of the tables and answers the trainers.

In synchronous mode it keeps the trainers' gradients of one step until all are here, applies their
sum in the order of the trainers' ranks, and only then answers any of them: so every lookup of the
next step sees the same rows, whoever was first.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.checkpoint.behind import Written, write, write_behind
from hybridjob.checkpoint.manifest import read_manifest
from hybridjob.checkpoint.memory import fits
from hybridjob.checkpoint.shards import load_shard, part_of, save_parts
from hybridjob.errors import DamageError, PeerError, TableError
from hybridjob.remote import Future, deferred
from hybridjob.roles import index_in_role
from hybridjob.tables.digest import RowSums, shard_sums
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.checkpoint.order import SaveOrder
    from hybridjob.config import Job
    from hybridjob.schema import Table


@dataclass(frozen=True)
class Push:
    """One trainer's gradients of one step for one server; table by table, in the tables' order.

    ids: (U,) int64 local to the shard, ascending. gradients: (U, D) float32.
    """

    ids: list[Tensor]
    gradients: list[Tensor]


@dataclass
class Server:
    """The state of one parameter server."""

    index: int
    num_servers: int
    num_trainers: int
    synchronous: bool
    servers_per_node: int = 1
    shards: list[Shard] = field(default_factory=list)
    step: int = 0
    _pushes: dict[int, Push] = field(default_factory=dict)
    _waiting: list[Future[int]] = field(default_factory=list)
    _written: Future[Written] = field(default_factory=Future)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, tables: list[Table], job: Job, checkpoint: str | None) -> int:
        """Make this server's shards, as new or from a checkpoint. Returns their bytes.

        Raises DamageError if what it reads of the checkpoint is not what the manifest says.
        """
        self.shards = []
        for table in tables:
            bounds = row_bounds(table.num_embeddings, self.num_servers)
            start, stop = bounds[self.index : self.index + 2]
            optimizer = job.training.table_optimizer
            shard = Shard(
                table, optimizer, seed=job.seed, start=start, stop=stop, blank=bool(checkpoint)
            )
            self.shards.append(shard)
        if checkpoint is not None:
            folder = Path(checkpoint)
            manifest = read_manifest(folder)
            for shard in self.shards:
                load_shard(folder, manifest, shard)
            # Asynchronously, every trainer's push is a step of the tables.
            self.step = manifest.step * (1 if self.synchronous else manifest.trainers)
        return sum(shard.num_bytes for shard in self.shards)

    def lookup(self, ids: list[Tensor], step: int) -> list[Tensor]:
        """Gather rows of every table: (U,) int64 each -> (U, D) float32 each."""
        if self.synchronous and step != self.step:
            raise TableError(f"asked for rows of step {step}, but the tables are at {self.step}")
        return [shard.lookup(part) for shard, part in zip(self.shards, ids, strict=True)]

    def push(self, trainer: int, push: Push, step: int) -> Future[int]:
        """Take one trainer's gradients; the Future gives the step that the tables reach."""
        answer: Future[int] = Future()
        with self._lock:
            if not self.synchronous:
                self._apply([push])
                answer.set_result(self.step)
                return answer
            if step != self.step or trainer in self._pushes:
                raise TableError(
                    f"trainer {trainer} pushed step {step}, the tables are at {self.step}"
                )
            self._pushes[trainer] = push
            self._waiting.append(answer)
            if len(self._pushes) < self.num_trainers:
                return answer
            self._apply([self._pushes[one] for one in range(self.num_trainers)])
            waiting, self._waiting, self._pushes = self._waiting, [], {}
        for one in waiting:
            one.set_result(self.step)
        return answer

    def _apply(self, pushes: list[Push]) -> None:
        self.step += 1
        for number, shard in enumerate(self.shards):
            ids = [push.ids[number] for push in pushes]
            shard.update(ids, [push.gradients[number] for push in pushes], self.step)

    def touched(self) -> tuple[int, int]:
        """Count the rows touched since the base, and all."""
        rows = sum(shard.stop - shard.start for shard in self.shards)
        return sum(shard.num_touched for shard in self.shards), rows

    def save(self, order: SaveOrder) -> None:
        """Hold the state as it is and write it behind, or write before this returns.

        What came of it is the answer to `written`.
        """
        written: Future[Written] = Future()
        has_room = functools.partial(fits, processes=self.servers_per_node)
        with self._lock:
            parts = [part_of(one, delta=order.delta, has_room=has_room) for one in self.shards]
            self._written = written
        work = functools.partial(save_parts, Path(order.draft), parts)
        if order.behind:
            write_behind(work, written.set_result)
        else:
            written.set_result(write(work))

    def written(self) -> Future[Written]:
        """Give what came of the last `save`, once it is known."""
        return self._written

    def sums(self) -> RowSums:
        """Hash all shards."""
        return {name: sums for shard in self.shards for name, sums in shard_sums(shard).items()}


# What other ranks call. torch RPC runs functions of modules, so the process has one server. ------

_server: Server | None = None


def this_server() -> Server:
    """Give the server of this process. Raises PeerError if it is none."""
    if _server is None:
        raise PeerError("this rank is no parameter server, or is not ready")
    return _server


def create_shards(tables: list[Table], job: Job, checkpoint: str | None) -> tuple[int, str | None]:
    """Make the server's shards. Returns their bytes, and what of the checkpoint is damaged."""
    try:
        return this_server().create(tables, job, checkpoint), None
    except DamageError as error:
        return 0, str(error)


def lookup(ids: list[Tensor], step: int) -> list[Tensor]:
    """Gather rows of every table."""
    return this_server().lookup(ids, step)


@deferred
def push(trainer: int, gradients: Push, step: int) -> Future[int]:
    """Take gradients; answer when they are applied."""
    return this_server().push(trainer, gradients, step)


def touched() -> tuple[int, int]:
    """Count the rows touched since the base, and all."""
    return this_server().touched()


def save(order: SaveOrder) -> None:
    """Hold the shards' state for a checkpoint; returns when training may go on."""
    this_server().save(order)


@deferred
def written() -> Future[Written]:
    """Answer when the files of the last `save` are on the disk, or could not be written."""
    return this_server().written()


def table_sums() -> RowSums:
    """Hash the server's shards."""
    return this_server().sums()


def prepare(job: Job, rank: int) -> None:
    """Make this process's server, if its rank is one, before any other rank can call it."""
    global _server  # noqa: PLW0603 - torch RPC reaches a server only through its module
    layout = job.layout
    if rank in layout.server_ranks:
        _server = Server(
            index=index_in_role(rank, layout),
            num_servers=layout.num_servers,
            num_trainers=layout.num_trainers,
            synchronous=job.training.mode == "sync",
            servers_per_node=job.ps.tasks_per_node,
        )
