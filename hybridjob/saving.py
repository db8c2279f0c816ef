"""The master's part of a checkpoint: all trainers stand at one step, then all ranks write."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from hybridjob import mailbox, remote
from hybridjob.checkpoint.manifest import Manifest, begin_draft, publish, remove_old
from hybridjob.logs import log_event
from hybridjob.messages import Boundary, Saved
from hybridjob.tables import server as remote_server

if TYPE_CHECKING:
    from hybridjob.checkpoint.files import FileEntry
    from hybridjob.config import Job
    from hybridjob.jobfolder import JobFolder
    from hybridjob.rendezvous import World
    from hybridjob.schema import Table

logger = logging.getLogger(__name__)


class Saving:
    """Collects the trainers' words, has the servers write, publishes, lets the trainers go on."""

    def __init__(self, job: Job, world: World, folder: JobFolder) -> None:
        self.tables: list[Table] = []
        self._job, self._world, self._folder = job, world, folder
        self._boundaries: dict[int, Boundary] = {}
        self._saved: dict[int, Saved] = {}
        self._server_calls: list[remote.Pending] = []
        self._started = 0.0

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
        draft = str(begin_draft(self._folder.checkpoints, steps.pop()))
        layout, limit_s = self._world.layout, self._job.training.stall_timeout_s
        self._server_calls = [
            remote.start_call(self._world, rank, remote_server.save, draft, timeout_s=limit_s)
            for rank in layout.server_ranks
        ]
        remote.call_each(self._world, layout.trainer_ranks, mailbox.save, draft)

    def _finish(self) -> None:
        files: list[FileEntry] = [file for call in self._server_calls for file in call.wait()]
        files += [file for index in sorted(self._saved) for file in self._saved[index].files]
        first = self._boundaries[0]
        layout = self._world.layout
        manifest = Manifest(
            step=first.step,
            epoch=first.epoch,
            samples=first.samples,
            servers=layout.num_servers,
            trainers=layout.num_trainers,
            tables={one.name: [one.num_embeddings, one.embedding_dim] for one in self.tables},
            positions=[self._boundaries[index].position for index in sorted(self._boundaries)],
            files=files,
        )
        folder = publish(self._folder.checkpoints, manifest)
        remove_old(self._folder.checkpoints, self._job.checkpoint.keep_last)
        self._boundaries, self._saved = {}, {}
        log_event(
            logger,
            "checkpoint saved",
            step=manifest.step,
            mb=sum(file.size for file in files) / 1e6,
            seconds=time.monotonic() - self._started,
            folder=folder.name,
        )
        remote.call_each(self._world, layout.trainer_ranks, mailbox.resume, manifest.step)
