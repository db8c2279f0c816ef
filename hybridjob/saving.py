"""The master's part of a checkpoint: all trainers stand at one step, then all ranks save.

Servers and trainers take a snapshot, the trainers go on, and the files are written behind; the
master, which waits for nobody, publishes once all are reported. There is one checkpoint at a time.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hybridjob import mailbox, remote
from hybridjob.checkpoint.manifest import Manifest, begin_draft, draft_of, publish, remove_draft
from hybridjob.checkpoint.order import SaveOrder
from hybridjob.checkpoint.retention import remove_old
from hybridjob.checkpoint.shard_names import shard_name
from hybridjob.errors import CheckpointError
from hybridjob.logs import log_event
from hybridjob.messages import Boundary, Saved, Woken
from hybridjob.tables import server as remote_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.config import Job
    from hybridjob.jobfolder import JobFolder
    from hybridjob.rendezvous import World
    from hybridjob.schema import Table

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Base:
    """A durable checkpoint of all rows, and how many deltas have followed it."""

    folder: str
    files: list[FileEntry]
    deltas: int = 0


@dataclass
class Write:
    """One checkpoint on its way: first the snapshots, then the files."""

    boundaries: list[Boundary]
    draft: Path
    order: SaveOrder
    snapshots: list[remote.Pending]
    started: float = field(default_factory=time.monotonic)
    stall_s: float | None = None
    server_files: list[remote.Pending] = field(default_factory=list)
    trainer_files: dict[int, Saved] = field(default_factory=dict)


class Saving:
    """Collects the trainers' words, has all ranks save, lets the trainers go on, publishes."""

    def __init__(self, job: Job, world: World, folder: JobFolder, generation: str) -> None:
        self.tables: list[Table] = []
        self._job, self._world, self._folder = job, world, folder
        self._generation = generation
        self._boundaries: dict[int, Boundary] = {}
        self._write: Write | None = None
        self._base: Base | None = None
        self._durable_step: int | None = None
        self._failures = 0

    @property
    def busy(self) -> bool:
        """Tell whether a checkpoint is on its way."""
        return self._write is not None

    def restored(self, folder: Path, manifest: Manifest) -> None:
        """Go on from a checkpoint: the next ones may be deltas to the same base."""
        self._durable_step = manifest.step
        tables = [file for file in manifest.whole_files if shard_name(file.name) is not None]
        self._base = Base(manifest.base_folder(folder).name, tables, manifest.deltas)

    def take(self, message: Boundary | Saved | Woken) -> None:
        """Take a trainer's word, or that a call was answered, and do what can be done now."""
        match message:
            case Boundary():
                self._boundaries[message.trainer] = message
            case Saved():
                if self._write is None:
                    raise AssertionError(f"trainer {message.trainer} saved what nobody asked for")
                self._write.trainer_files[message.trainer] = message
            case Woken():
                pass
        if self._write is not None:
            self._go_on(self._write)
        if len(self._boundaries) == self._world.layout.num_trainers:
            self._decide([self._boundaries[index] for index in sorted(self._boundaries)])

    def _decide(self, boundaries: list[Boundary]) -> None:
        """Begin a checkpoint, or leave it out, or keep the trainers waiting for the one before."""
        steps = {boundary.step for boundary in boundaries}
        if len(steps) != 1:
            raise AssertionError(f"trainers stand at different steps: {sorted(steps)}")
        (step,), last = steps, boundaries[0].last
        if self._write is not None:
            if last:
                return
            log_event(
                logger,
                "a checkpoint is left out, the one before is still being written: see "
                "checkpoint.every_steps",
                step=step,
                writing=self._write.boundaries[0].step,
            )
        self._boundaries = {}
        if self._write is not None or step == self._durable_step:
            self._answer(None)
            return
        try:
            self._write = self._begin(boundaries, step)
        except CheckpointError as error:
            self._fail(error)
            self._answer(None)

    def _begin(self, boundaries: list[Boundary], step: int) -> Write:
        draft = begin_draft(draft_of(self._folder.checkpoints, step, self._generation))
        order = SaveOrder(
            draft=str(draft),
            delta=self._wants_delta(),
            behind=self._job.checkpoint.write_behind and not boundaries[0].last,
        )
        if not order.delta:
            self._base = None  # the servers count from this snapshot on, whatever becomes of it
        write = Write(boundaries, draft, order, self._ask_servers(remote_server.save, order))
        self._answer(order)
        return write

    def _wants_delta(self) -> bool:
        config = self._job.checkpoint
        if self._base is None or self._base.deltas >= config.full_every:
            return False
        counts = remote.call_each(
            self._world, self._world.layout.server_ranks, remote_server.touched
        )
        touched, rows = (sum(column) for column in zip(*counts, strict=True))
        return bool(touched <= config.max_delta_fraction * rows)

    def _go_on(self, write: Write) -> None:
        if write.stall_s is None:
            if not all(call.done() for call in write.snapshots):
                return
            for call in write.snapshots:
                call.wait()
            write.stall_s = time.monotonic() - write.started
            write.server_files = self._ask_servers(remote_server.written)
            if write.order.behind:
                self._resume()
        everyone = self._world.layout.num_trainers
        if len(write.trainer_files) < everyone or not all(c.done() for c in write.server_files):
            return
        try:
            self._publish(write)
            self._failures = 0
        except CheckpointError as error:
            remove_draft(write.draft)  # a full disk has room again
            self._fail(error)
        self._write = None
        if not write.order.behind:
            self._resume()

    def _publish(self, write: Write) -> None:
        results = [call.wait() for call in write.server_files]
        results += [write.trainer_files[index] for index in sorted(write.trainer_files)]
        errors = [one.error for one in results if one.error]
        if errors:
            raise CheckpointError(errors[0])
        manifest = self._manifest(write, [file for one in results for file in one.files])
        self._folder.check_newest(self._generation)
        folder = publish(write.draft, manifest)
        self.restored(folder, manifest)
        config = self._job.checkpoint
        try:
            remove_old(
                self._folder.checkpoints,
                newest=manifest.step,
                keep_last=config.keep_last,
                keep_every=config.keep_every,
            )
        except OSError as error:
            log_event(logger, f"old checkpoints stay for now: {error}", logging.WARNING)
        log_event(
            logger,
            "checkpoint saved",
            step=manifest.step,
            kind="base" if manifest.base is None else "delta",
            mb=sum(file.size for file in manifest.files) / 1e6,
            stall_s=write.stall_s,
            seconds=time.monotonic() - write.started,
            folder=folder.name,
        )

    def _manifest(self, write: Write, files: list[FileEntry]) -> Manifest:
        first, layout = write.boundaries[0], self._world.layout
        base = self._base if write.order.delta else None
        return Manifest(
            step=first.step,
            epoch=first.epoch,
            samples=first.samples,
            servers=layout.num_servers,
            trainers=layout.num_trainers,
            tables={one.name: [one.num_embeddings, one.embedding_dim] for one in self.tables},
            positions=[boundary.position for boundary in write.boundaries],
            files=files,
            base=base.folder if base else None,
            base_files=base.files if base else [],
            deltas=base.deltas + 1 if base else 0,
            sharding=self._job.training.sharding,
        )

    def _fail(self, error: CheckpointError) -> None:
        """Go on without this checkpoint, unless too many in a row could not be written."""
        self._failures += 1
        limit = self._job.checkpoint.max_failures
        if self._failures >= limit:
            raise CheckpointError(
                f"{self._failures} checkpoints in a row could not be written "
                f"(checkpoint.max_failures); the last error: {error}"
            ) from error
        log_event(
            logger,
            f"a checkpoint could not be written, the one before stays: {error}",
            logging.WARNING,
            in_a_row=self._failures,
        )

    def _ask_servers(self, function: Callable[..., Any], *args: Any) -> list[remote.Pending]:
        """Call all servers; each answer wakes the master."""
        calls = [
            remote.start_call(
                self._world, rank, function, *args, timeout_s=self._job.training.stall_timeout_s
            )
            for rank in self._world.layout.server_ranks
        ]
        for call in calls:
            call.then(lambda: mailbox.reports.put(Woken()))
        return calls

    def _answer(self, order: SaveOrder | None) -> None:
        remote.call_each(self._world, self._world.layout.trainer_ranks, mailbox.save, order)

    def _resume(self) -> None:
        remote.call_each(self._world, self._world.layout.trainer_ranks, mailbox.resume)
