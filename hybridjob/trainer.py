"""A trainer: it reads its part of the data, computes, and sends gradients on their two ways.

The dense ones go to the other trainers (DDP), those of the rows to the servers. In synchronous
mode every sample of a step weighs the same wherever it was read: the local mean loss is scaled by
n T / N (n samples here, N over all T trainers), so that DDP's mean over the trainers is the mean
over the global batch.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hybridjob import mailbox, remote, trace
from hybridjob.ahead import LookAhead
from hybridjob.checkpoint.clock import SaveClock
from hybridjob.checkpoint.manifest import read_manifest
from hybridjob.checkpoint.order import SaveOrder
from hybridjob.data.batch import empty_batch
from hybridjob.data.reader import open_reader
from hybridjob.dense import DenseModel
from hybridjob.errors import ModelError
from hybridjob.evaluate import evaluate
from hybridjob.logs import log_event
from hybridjob.messages import Boundary, Finished, Left, Progress, Scores
from hybridjob.models.build import build_model
from hybridjob.random_state import seed_all
from hybridjob.rendezvous import join_trainers
from hybridjob.reporting import Interval, Reporter
from hybridjob.tables.client import TableClient
from hybridjob.trainer_files import load_trainer, save_trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from hybridjob.ahead import GlobalBatch
    from hybridjob.config import Job
    from hybridjob.jobfolder import JobFolder
    from hybridjob.messages import Begin
    from hybridjob.rendezvous import World


logger = logging.getLogger(__name__)


def run_trainer(job: Job, world: World, folder: JobFolder) -> bool:
    """Train until the data, or the job file's number of steps, is used up, or until asked to leave.

    Returns whether the run is complete.
    """
    join_trainers(world, cuda=torch.cuda.is_available())
    limit_s = job.training.stall_timeout_s
    message = mailbox.begins.get(timeout_s=limit_s, what="the master to make the tables")
    Trainer(job, world, folder, message).run()
    complete = mailbox.stops.get(timeout_s=limit_s, what="the master to finish the run")
    dist.destroy_process_group()
    return complete


class Trainer:
    """The loop of one trainer."""

    def __init__(self, job: Job, world: World, folder: JobFolder, message: Begin) -> None:
        self._job, self._world = job, world
        module, self._tables = build_model(job.model, message.schema, seed=job.seed)
        if self._tables != message.tables:
            raise ModelError(
                f"the model factory {job.model.path} declares other tables here than on the "
                "master: it must depend on its arguments alone"
            )
        self._dense = DenseModel(module, job.training, device=_device(world))
        self._client = TableClient(world, self._tables, job.training, self._dense.device)
        self._synchronous = job.training.mode == "sync"
        self._depth = 1 if self._synchronous else max(1, job.training.staleness)
        # Each trainer draws its own dropout masks, and the same ones in every run.
        seed_all(job.seed + 1 + world.index)
        num_trainers = world.layout.num_trainers
        self._readers = {
            split: open_reader(
                job.data,
                split=split,
                seed=job.seed,
                trainer=world.index,
                num_trainers=num_trainers,
                batch_size=share_of(job.training.batch_size, world.index, num_trainers),
                folder=folder.vocabularies,
            )
            for split in ("train", "test")
        }
        self._empty_batch = empty_batch(message.schema)
        self._step = self._epoch = self._samples = 0
        self._loss = float("nan")
        self._position: dict[str, Any] | None = None
        self._leaving = False
        self._interval = Interval()
        self._clock = SaveClock(self._job.checkpoint.every_minutes if world.index == 0 else 0)
        if message.checkpoint is not None:
            self._restore(Path(message.checkpoint))
        trace.recorder.step = self._step
        self._reporter = Reporter(world)

    def run(self) -> None:
        """Run all epochs, then report."""
        training, every = self._job.training, self._job.checkpoint.every_steps
        for epoch in range(self._epoch, training.epochs):
            self._epoch = epoch
            ahead = LookAhead(
                self._client,
                self._depth,
                phases=lambda: self._interval.phases,
                is_time_to_save=self._clock.rings,
            )
            source = self._readers["train"].batches(epoch, self._position)
            with contextlib.closing(
                ahead.batches(source, self._empty_batch, self._step, training.max_steps)
            ) as batches:
                for part in batches:
                    self._train(part)
                    if self._step % training.log_every_steps == 0:
                        self._report_interval()
                    if part.is_to_be_saved or (every and self._step % every == 0):
                        self._save(last=False)
            self._client.finish_pushes()
            if ahead.leaving:
                self._leaving = True
                break
            last = self._step == training.max_steps or epoch == training.epochs - 1
            if training.evaluate == "epoch" or (last and training.evaluate == "end"):
                self._report_scores()
            if last:
                break
            self._position = None
        self._report_interval()
        self._save(last=True)
        if self._leaving:
            self._reporter.send_last(Left(self._world.index, self._step))
        else:
            self._report_finished()

    def _train(self, part: GlobalBatch) -> None:
        start = time.perf_counter()
        timed = self._interval.phases.timed
        num_trainers = self._world.layout.num_trainers
        batch, num_samples = part.batch, part.num_samples
        weight = batch.size * num_trainers / num_samples if self._synchronous else 1.0
        with timed("lookup"):
            block = self._client.receive(part.asked)
        loss = self._dense.backward(batch, block.vectors(), weight, timed)
        if not math.isfinite(loss):  # before it spoils the tables, and a checkpoint
            raise ModelError(
                f"the loss is {loss} at step {self._step}: lower the learning rates "
                "(training.table_optimizer.lr, training.dense_optimizer.lr), or see the data"
            )
        with timed("push"):
            scale = 1.0 / num_trainers if self._synchronous else 1.0
            self._client.push(block, self._step, scale=scale, most_on_their_way=self._depth)
        with timed("update"):  # while the gradients travel
            self._dense.update()
        trace.recorder.add("step", start, time.perf_counter())
        self._step += 1
        trace.recorder.step = self._step
        self._samples += num_samples
        if batch.size:
            self._position = batch.position
        self._interval.add(loss * batch.size, num_samples)

    def _save(self, *, last: bool) -> None:
        """Have a checkpoint written together with all others, between two steps.

        Training goes on once there is a snapshot; after the last one, once it is durable.
        """
        boundary = Boundary(
            trainer=self._world.index,
            step=self._step,
            epoch=self._epoch,
            samples=self._samples,
            position=self._position or {},
            last=last,
        )
        limit_s = self._job.training.stall_timeout_s
        self._clock.restart()
        with self._interval.phases.timed("checkpoint"):
            self._client.finish_pushes()
            remote.call(self._world, 0, mailbox.report, boundary)
            order = mailbox.saves.get(timeout_s=limit_s, what="the master to begin a checkpoint")
            if isinstance(order, SaveOrder):
                save_trainer(order, self._world, self._dense)
                mailbox.resumes.get(timeout_s=limit_s, what="the checkpoint to be taken")

    def _restore(self, folder: Path) -> None:
        manifest = read_manifest(folder)
        self._step, self._epoch = manifest.step, manifest.epoch
        self._samples = manifest.samples
        load_trainer(folder, manifest, self._world.index, self._dense)
        if manifest.trainers == self._world.layout.num_trainers:
            self._position = manifest.positions[self._world.index] or None
        else:
            log_event(
                logger,
                "another number of trainers deals the data anew: the epoch begins again",
                logging.WARNING,
                epoch=manifest.epoch,
                before=manifest.trainers,
                now=self._world.layout.num_trainers,
            )

    def _report_interval(self) -> None:
        interval, self._interval = self._interval, Interval()
        if interval.samples == 0:
            return
        total = torch.tensor([interval.loss_sum], dtype=torch.float64)
        dist.all_reduce(total)
        of_servers = self._client.server_seconds()
        of_servers["server idle"] = max(0.0, interval.elapsed_s - sum(of_servers.values()))
        self._loss = float(total) / interval.samples
        self._reporter.send(
            Progress(
                step=self._step,
                epoch=self._epoch,
                loss=self._loss,
                samples=interval.samples,
                elapsed_s=interval.elapsed_s,
                estimated_steps=self._estimated_steps(),
                seconds={**interval.phases.take(), **of_servers},
                waits=self._client.take_waits(),
                lag=self._client.take_lag(),
            )
        )

    def _report_scores(self) -> None:
        if not (self._job.data.test_fraction or self._job.data.test_path):
            return
        metrics = evaluate(self._predictions(), self._job.training.loss)
        if metrics:
            self._reporter.send(Scores(step=self._step, epoch=self._epoch, metrics=metrics))

    def _predictions(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self._readers["test"].batches(0):
            asked = self._client.ask(self._client.plan(batch), self._step, train=False)
            vectors = self._client.receive(asked).vectors()
            yield self._dense.predict(batch, vectors), batch.labels

    def _report_finished(self) -> None:
        skipped = sum(reader.skipped_rows for reader in self._readers.values())
        finished = Finished(
            trainer=self._world.index,
            step=self._step,
            epoch=self._epoch,
            loss=self._loss,
            samples=self._samples,
            skipped_rows=skipped,
            dense_digest=self._dense.digest(),
        )
        self._reporter.send_last(finished)

    def _estimated_steps(self) -> int:
        training = self._job.training
        steps: int = self._readers["train"].estimated_batches() * training.epochs
        return max(self._step, min(steps, training.max_steps or steps))


def share_of(batch_size: int, trainer: int, num_trainers: int) -> int:
    """Split a global batch: the first trainers take one sample more if it does not divide."""
    return batch_size // num_trainers + (trainer < batch_size % num_trainers)


def _device(world: World) -> torch.device:
    """Give the GPU of this task: Slurm may show each task its own, or all of the node's."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", world.local_rank % torch.cuda.device_count())
