"""The master: it has the tables made, starts the trainers, watches, and writes what came of it."""

from __future__ import annotations

import json
import logging
import math
import time
from typing import TYPE_CHECKING

from hybridjob import mailbox, remote
from hybridjob.data.prepare import prepare
from hybridjob.data.schema_of import schema_of, vocabulary_sizes
from hybridjob.errors import DataError, PeerError
from hybridjob.jobfolder import write_atomically
from hybridjob.liveness import PeerWatch
from hybridjob.lives import read_lives
from hybridjob.logs import log_event
from hybridjob.messages import Begin, Boundary, Finished, Left, Progress, Saved, Scores, Woken
from hybridjob.metrics import MetricsWriter
from hybridjob.models.build import build_model
from hybridjob.phases import Phases
from hybridjob.restoring import Restored, restore
from hybridjob.saving import Saving
from hybridjob.tables import server as remote_server
from hybridjob.tables.digest import add_sums, state_digest
from hybridjob.trace_file import TraceFile

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.config import Job
    from hybridjob.jobfolder import JobFolder
    from hybridjob.messages import Report
    from hybridjob.rendezvous import World
    from hybridjob.schema import Schema, Table

logger = logging.getLogger(__name__)


def run_master(job: Job, world: World, folder: JobFolder, generation: str) -> bool:
    """Drive one run from the tables' making to summary.json; True if it is complete."""
    return Master(job, world, folder, generation).run()


class Master:
    """One run, seen from rank 0."""

    def __init__(self, job: Job, world: World, folder: JobFolder, generation: str) -> None:
        self._job, self._world, self._folder = job, world, folder
        self._generation = generation
        self._scores: dict[str, float] = {}
        self._phases = Phases()
        self._waits = Phases()
        self._finished: dict[int, Finished] = {}
        self._left: dict[int, Left] = {}
        self._saving = Saving(job, world, folder, generation)
        self._trace = TraceFile(job.training, world, folder, generation)

    def run(self) -> bool:
        """Make tables, train, write the summary, send everyone home.

        Returns whether the run is complete; if not, all were asked to leave and have saved.
        """
        data = self._job.data
        prepare(data, self._folder.vocabularies, seed=self._job.seed)
        schema = schema_of(data, vocabulary_sizes(data, self._folder.vocabularies))
        _, tables = build_model(self._job.model, schema, seed=self._job.seed)
        self._saving.tables = tables
        restored = self._create_tables(tables)
        self._begin(schema, tables, restored.folder)
        began = time.monotonic()
        with MetricsWriter(self._folder) as metrics:
            self._watch(metrics)
        self._trace.finish()
        if not self._left:
            self._write_summary(restored, training_s=time.monotonic() - began)
        ranks = range(1, self._world.layout.num_tasks)
        remote.call_each(self._world, ranks, mailbox.stop, not self._left)
        return not self._left

    def _create_tables(self, tables: list[Table]) -> Restored:
        restored = restore(self._job, self._world, tables, self._folder.checkpoints)
        if restored.folder is not None and restored.manifest is not None:
            self._saving.restored(restored.folder, restored.manifest)
        rows = sum(table.num_embeddings for table in tables)
        what = {
            "tables": len(tables),
            "rows": rows,
            "table_bytes": restored.table_bytes,
            "generation": self._generation,
            "from_step": restored.step,
            "passed_over": restored.damage,
        }
        write_atomically(self._folder.tables, json.dumps(what) + "\n")
        log_event(
            logger, "tables ready", tables=len(tables), rows=rows, mb=restored.table_bytes / 1e6,
            servers=self._world.layout.num_servers,
        )  # fmt: skip
        return restored

    def _begin(self, schema: Schema, tables: list[Table], checkpoint: Path | None) -> None:
        trainers = self._world.layout.trainer_ranks
        folder = None if checkpoint is None else str(checkpoint)
        message = Begin(schema=schema, tables=tables, checkpoint=folder)
        remote.call_each(self._world, trainers, mailbox.begin, message)
        log_event(logger, "training begins", trainers=len(trainers), mode=self._job.training.mode)

    def _watch(self, metrics: MetricsWriter) -> None:
        peers = PeerWatch(self._world, range(1, self._world.layout.num_tasks))
        heard = time.monotonic()
        everyone = self._world.layout.num_trainers
        while len(self._finished) + len(self._left) < everyone or self._saving.busy:
            message = mailbox.reports.poll(timeout_s=peers.interval_s)
            if message is not None:
                heard = time.monotonic()
                self._take(message, metrics)
            if peers.check():
                self._folder.check_newest(self._generation)
            if time.monotonic() - heard > self._job.training.stall_timeout_s:
                raise PeerError(self._stalled())

    def _take(self, message: Report, metrics: MetricsWriter) -> None:
        match message:
            case Progress():
                metrics.progress(message)
                self._trace.reached(message.step)
                for name, seconds in message.seconds.items():
                    self._phases.add(name, seconds)
                for name, seconds in message.waits.items():
                    self._waits.add(name, seconds)
                log_event(
                    logger,
                    "step",
                    step=message.step,
                    of=message.estimated_steps,
                    epoch=message.epoch,
                    loss=message.loss,
                    samples_per_s=round(message.samples / max(message.elapsed_s, 1e-9)),
                )
            case Scores():
                metrics.scores(message)
                self._scores = message.metrics
                log_event(logger, "test", **{"step": message.step, **message.metrics})
            case Boundary() | Saved() | Woken():
                self._saving.take(message)
            case Left():
                self._left[message.trainer] = message
                log_event(logger, "left as asked", trainer=message.trainer, step=message.step)
            case Finished():
                self._finished[message.trainer] = message

    def _stalled(self) -> str:
        waiting = [
            self._world.describe(rank)
            for index, rank in enumerate(self._world.layout.trainer_ranks)
            if index not in self._finished
        ]
        return (
            f"no step for {self._job.training.stall_timeout_s:.0f} s "
            f"(training.stall_timeout_s), waiting for {', '.join(waiting)}"
        )

    def _write_summary(self, restored: Restored, *, training_s: float) -> None:
        finished = [self._finished[index] for index in sorted(self._finished)]
        if finished[0].step == 0:
            raise DataError("the training data has no rows: see data.path and data.test_fraction")
        digests = {one.dense_digest for one in finished}
        if len(digests) > 1:
            raise AssertionError("the trainers' dense layers differ: DDP did not keep them equal")
        limit = self._job.training.stall_timeout_s
        servers = self._world.layout.server_ranks
        sums = add_sums(
            remote.call_each(self._world, servers, remote_server.table_sums, timeout_s=limit)
        )
        step = finished[0].step
        lives = read_lives(self._folder)
        wall_s = time.time() - lives[0].time
        samples = finished[0].samples
        summary = {
            "state": "completed",
            "name": self._job.name,
            "final_step": step,
            "final_loss": finished[0].loss if math.isfinite(finished[0].loss) else None,
            "test": self._scores,
            "samples": samples,
            "samples_per_s": round((samples - restored.samples) / max(training_s, 1e-9), 1),
            "skipped_rows": sum(one.skipped_rows for one in finished),
            "generations": len(self._folder.generations()),
            "requeues": len({one.life for one in lives}) - 1,
            "wall_s": round(wall_s, 3),
            "servers": self._world.layout.num_servers,
            "trainers": self._world.layout.num_trainers,
            "sharding": self._job.training.sharding,
            "ids_served": remote.call_each(self._world, servers, remote_server.ids_served),
            "table_bytes": restored.table_bytes,
            "passed_over": restored.damage,
            "seconds": {name: round(value, 3) for name, value in self._phases.take().items()},
            "waits": {name: round(value, 3) for name, value in self._waits.take().items()},
            "state_digest": state_digest(sums, digests.pop(), step),
        }
        write_atomically(self._folder.summary, json.dumps(summary, indent=1) + "\n")
        log_event(logger, "run completed", step=step, loss=finished[0].loss, wall_s=wall_s)
