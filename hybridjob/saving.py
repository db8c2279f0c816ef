"""The master's part of a checkpoint: all trainers stand at one step, then all ranks write."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from hybridjob import mailbox, remote
from hybridjob.checkpoint.manifest import Manifest, begin_draft, draft_of, publish, remove_old
from hybridjob.errors import CheckpointError
from hybridjob.logs import log_event
from hybridjob.messages import Boundary, Saved
from hybridjob.tables import server as remote_server

if TYPE_CHECKING:
    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.config import Job
    from hybridjob.jobfolder import JobFolder
    from hybridjob.rendezvous import World
    from hybridjob.schema import Table

logger = logging.getLogger(__name__)


class Saving:
    """Collects the trainers' words, has the servers write, publishes, lets the trainers go on."""

    def __init__(self, job: Job, world: World, folder: JobFolder, generation: str) -> None:
        self.tables: list[Table] = []
        self._job, self._world, self._folder = job, world, folder
        self._generation = generation
        self._draft = draft_of(folder.checkpoints, 0, generation)
        self._boundaries: dict[int, Boundary] = {}
        self._saved: dict[int, Saved] = {}
        self._server_calls: list[remote.Pending] = []
        self._started = 0.0
        self._failures = 0
        self._draft_error: str | None = None

    def take(self, message: Boundary | Saved) -> None:
        """Take a trainer's word; act once all have spoken."""
        everyone = self._world.layout.num_trainers
        match message:
            case Boundary():
                self._boundaries[message.trainer] = message
                if len(self._boundaries) == everyone:
                    self._begin()
            case Saved():
                self._saved[message.trainer] = message
                if len(self._saved) == everyone:
                    self._finish()

    def _begin(self) -> None:
        steps = {boundary.step for boundary in self._boundaries.values()}
        if len(steps) != 1:
            raise AssertionError(f"trainers stand at different steps: {sorted(steps)}")
        self._started = time.monotonic()
        self._draft = draft_of(self._folder.checkpoints, steps.pop(), self._generation)
        draft = str(self._draft)
        try:
            begin_draft(self._draft)
            self._draft_error = None
        except CheckpointError as error:  # told, and counted, once all have answered
            self._draft_error = str(error)
        layout, limit_s = self._world.layout, self._job.training.stall_timeout_s
        self._server_calls = [
            remote.start_call(self._world, rank, remote_server.save, draft, timeout_s=limit_s)
            for rank in layout.server_ranks
        ]
        remote.call_each(self._world, layout.trainer_ranks, mailbox.save, draft)

    def _finish(self) -> None:
        replies = [call.wait() for call in self._server_calls]
        saved = [self._saved[index] for index in sorted(self._saved)]
        errors = [self._draft_error] if self._draft_error else []
        errors += [error for _, error in replies if error]
        errors += [one.error for one in saved if one.error]
        files = [file for written, _ in replies for file in written]
        files += [file for one in saved for file in one.files]
        boundaries = [self._boundaries[index] for index in sorted(self._boundaries)]
        self._boundaries, self._saved = {}, {}
        try:
            self._publish(boundaries, files, errors)
            self._failures = 0
        except CheckpointError as error:
            self._fail(error)
        durable = self._failures == 0
        remote.call_each(self._world, self._world.layout.trainer_ranks, mailbox.resume, durable)

    def _publish(
        self, boundaries: list[Boundary], files: list[FileEntry], errors: list[str]
    ) -> None:
        if errors:
            raise CheckpointError(errors[0])
        first, layout = boundaries[0], self._world.layout
        manifest = Manifest(
            step=first.step,
            epoch=first.epoch,
            samples=first.samples,
            servers=layout.num_servers,
            trainers=layout.num_trainers,
            tables={one.name: [one.num_embeddings, one.embedding_dim] for one in self.tables},
            positions=[boundary.position for boundary in boundaries],
            files=files,
        )
        self._folder.check_newest(self._generation)
        folder = publish(self._draft, manifest)
        remove_old(self._folder.checkpoints, self._job.checkpoint.keep_last)
        log_event(
            logger,
            "checkpoint saved",
            step=manifest.step,
            mb=sum(file.size for file in files) / 1e6,
            seconds=time.monotonic() - self._started,
            folder=folder.name,
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
