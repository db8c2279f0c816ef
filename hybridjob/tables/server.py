"""What a parameter server does: it holds shards of the tables and answers the trainers.

In synchronous mode it keeps the trainers' gradients of one step until all are here, applies their
sum in the order of the trainers' ranks, and only then answers any of them: so every lookup of the
next step sees the same rows, whoever was first.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.checkpoint.manifest import read_manifest
from hybridjob.checkpoint.shards import load_shard, save_shards
from hybridjob.errors import CheckpointError, PeerError, TableError
from hybridjob.remote import Future, deferred
from hybridjob.roles import index_in_role
from hybridjob.tables.digest import RowSums, shard_sums
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.checkpoint.entries import FileEntry
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
    shards: list[Shard] = field(default_factory=list)
    step: int = 0
    _pushes: dict[int, Push] = field(default_factory=dict)
    _waiting: list[Future[int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, tables: list[Table], job: Job, checkpoint: str | None) -> int:
        """Make this server's shards, as new or from a checkpoint. Returns their bytes."""
        self.shards = []
        for table in tables:
            bounds = row_bounds(table.num_embeddings, self.num_servers)
            start, stop = bounds[self.index : self.index + 2]
            optimizer = job.training.table_optimizer
            self.shards.append(Shard(table, optimizer, seed=job.seed, start=start, stop=stop))
        if checkpoint is not None:
            folder = Path(checkpoint)
            for shard in self.shards:
                load_shard(folder, shard)
            manifest = read_manifest(folder)
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


def create_shards(tables: list[Table], job: Job, checkpoint: str | None) -> int:
    """Make the server's shards; returns their bytes."""
    return this_server().create(tables, job, checkpoint)


def lookup(ids: list[Tensor], step: int) -> list[Tensor]:
    """Gather rows of every table."""
    return this_server().lookup(ids, step)


@deferred
def push(trainer: int, gradients: Push, step: int) -> Future[int]:
    """Take gradients; answer when they are applied."""
    return this_server().push(trainer, gradients, step)


def save(draft: str) -> tuple[list[FileEntry], str | None]:
    """Write the server's shards into a checkpoint. Returns the files, or why it could not."""
    try:
        return save_shards(Path(draft), this_server().shards), None
    except CheckpointError as error:
        return [], str(error)


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
        )
