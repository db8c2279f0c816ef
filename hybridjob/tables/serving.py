"""What a parameter server does: it holds shards of the tables and answers the trainers.

In synchronous mode it keeps the trainers' gradients of one step until all are here, and applies
their sum in the order of the trainers' ranks. A question about the rows at the begin of a step may
come long before: it is answered once all gradients of the steps before are in the tables, in
asynchronous mode all but those of the last `staleness` steps.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob import trace
from hybridjob.checkpoint.behind import Written, write, write_behind
from hybridjob.checkpoint.manifest import read_manifest
from hybridjob.checkpoint.memory import fits
from hybridjob.checkpoint.shards import load_shard, part_of, save_parts
from hybridjob.errors import TableError
from hybridjob.phases import Phases
from hybridjob.remote import Future
from hybridjob.tables.digest import RowSums, shard_sums
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds
from hybridjob.tables.torch_server import TorchServer
from hybridjob.tables.wire import Answer, unpacked

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.checkpoint.order import SaveOrder
    from hybridjob.config import Job
    from hybridjob.schema import Table
    from hybridjob.tables.kernels import ServerKernels
    from hybridjob.tables.wire import Question


@dataclass(frozen=True)
class Parked:
    """A question that is too early to be answered."""

    trainer: int
    question: Question
    step: int
    answer: Future[Answer]


@dataclass(frozen=True)
class Pushed:
    """A trainer's gradients of one step, what it had asked, and the answer to its push."""

    question: Question
    gradient: Tensor
    answer: Future[int]


@dataclass
class Server:
    """The state of one parameter server."""

    index: int
    num_servers: int
    num_trainers: int
    synchronous: bool
    staleness: int = 0
    kernels: ServerKernels = field(default_factory=TorchServer)
    servers_per_node: int = 1
    shards: list[Shard] = field(default_factory=list)
    updates: int = 0
    """Optimizer steps taken: one a step, asynchronously one a push."""
    pushed: list[int] = field(default_factory=list)
    """For each trainer, the steps whose gradients are in the tables."""
    ids_served: int = 0
    """Ids of all questions since this server began."""
    _asked: dict[tuple[int, int], Question] = field(default_factory=dict)
    _parked: list[Parked] = field(default_factory=list)
    _pushes: dict[tuple[int, int], Pushed] = field(default_factory=dict)
    _busy: set[int] = field(default_factory=set)
    """Trainers whose gradients are being applied."""
    _phases: Phases = field(default_factory=Phases)
    _written: Future[Written] = field(default_factory=Future)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Over what is asked and pushed, held for moments only."""
    _update_lock: threading.Lock = field(default_factory=threading.Lock)
    """Over the tables' changes."""

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
                table, optimizer, seed=job.seed, start=start, stop=stop, blank=bool(checkpoint),
                lock=self._update_lock,
            )  # fmt: skip
            self.shards.append(shard)
        step = 0
        if checkpoint is not None:
            folder = Path(checkpoint)
            manifest = read_manifest(folder)
            for shard in self.shards:
                load_shard(folder, manifest, shard)
            step = manifest.step
            self.updates = step * (1 if self.synchronous else manifest.trainers)
        self.pushed = [step] * self.num_trainers
        trace.recorder.step = step
        return sum(shard.num_bytes for shard in self.shards)

    @property
    def step(self) -> int:
        """The steps whose gradients, of all trainers, are in the tables."""
        return min(self.pushed)

    def ask(self, trainer: int, question: Question, step: int, *, train: bool) -> Future[Answer]:
        """Look up for a trainer; at once if the rows are new enough, else when they are."""
        answer: Future[Answer] = Future()
        parked = Parked(trainer, question, step, answer)
        with self._lock:
            self.ids_served += len(question.ids)
            if train:
                self._asked[trainer, step] = question
            if step > self.step + self.staleness:
                self._parked.append(parked)
                return answer
        self._answer(parked)
        return answer

    def _answer(self, parked: Parked) -> None:
        try:
            with self._phases.timed("server lookup"):
                sums, rows = self.kernels.answer(
                    self.shards, parked.question, partial=self.num_servers > 1
                )
        except Exception as error:  # noqa: BLE001 - the trainer that waits must hear of it
            parked.answer.set_exception(error)  # type: ignore[arg-type] # torch's own annotation
            return
        seconds = self._phases.take() if parked.trainer == 0 else {}
        lag = max(0, parked.step - self.step)
        parked.answer.set_result(Answer(sums, rows, lag, seconds))

    def push(self, trainer: int, gradient: Tensor, step: int, power: float = 1.0) -> Future[int]:
        """Take one trainer's gradients; the Future gives the step that the tables reach.

        Those of one trainer may overtake each other on their way: they are applied in order. power:
        see `packed`.
        """
        answer: Future[int] = Future()
        gradient = unpacked(gradient, power)
        with self._lock:
            question = self._asked.get((trainer, step))
            if question is None or (trainer, step) in self._pushes:
                raise TableError(
                    f"trainer {trainer} pushed step {step}, but the tables are at {self.step}"
                )
            expected = sum(question.size_of(part) for part in question.parts)
            if tuple(gradient.shape) != (expected,):
                raise TableError(
                    f"trainer {trainer} pushed {tuple(gradient.shape)} values, not ({expected},)"
                )
            self._pushes[trainer, step] = Pushed(question, gradient, answer)
        while pushes := self._take_pushes():
            self._apply(pushes)
        return answer

    def _take_pushes(self) -> dict[int, Pushed]:
        """Take the gradients of the next update, if all are here: trainer -> what it pushed."""
        everyone = range(self.num_trainers)
        with self._lock:
            due = [
                one
                for one in everyone
                if one not in self._busy and (one, self.pushed[one]) in self._pushes
            ]
            if self.synchronous and len(due) < self.num_trainers:
                return {}
            taken = due if self.synchronous else due[:1]
            self._busy.update(taken)
            return {one: self._pushes.pop((one, self.pushed[one])) for one in taken}

    def _apply(self, pushes: dict[int, Pushed]) -> None:
        """Take a step of the optimizer, and answer what has waited for it."""
        with self._update_lock, self._phases.timed("server update"):
            self.updates += 1
            gradients = [(one.question, one.gradient) for one in pushes.values()]
            self.kernels.apply(self.shards, gradients, self.updates)
        with self._lock:
            for trainer in pushes:
                del self._asked[trainer, self.pushed[trainer]]
                self.pushed[trainer] += 1
            self._busy.difference_update(pushes)
            trace.recorder.step = self.step
            newest = self.step + self.staleness
            ready = [one for one in self._parked if one.step <= newest]
            self._parked = [one for one in self._parked if one.step > newest]
        for parked in ready:
            self._answer(parked)
        for one in pushes.values():
            one.answer.set_result(self.step)

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
        with self._update_lock:
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
