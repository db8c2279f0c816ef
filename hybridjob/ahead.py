"""What a trainer does ahead of the step that it computes.

Batches are read, and what they want of the servers is prepared, in a thread. How many samples all
trainers' parts have is agreed on one step before it is needed, and the rows are asked for one step
or more before, so that neither is waited for while there is something to compute.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hybridjob import mailbox
from hybridjob.data.prefetch import prefetched
from hybridjob.trace import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from torch import Tensor

    from hybridjob.data.batch import Batch
    from hybridjob.phases import Phases
    from hybridjob.tables.client import Asked, TableClient
    from hybridjob.tables.plan import Plan

_READ_AHEAD = 2


@dataclass(frozen=True)
class GlobalBatch:
    """This trainer's part of a step's batch, its rows on their way, and the samples of all."""

    asked: Asked
    num_samples: int
    is_to_be_saved: bool
    """A checkpoint is to be written after this step: the first trainer's clock has said so."""

    @property
    def batch(self) -> Batch:
        """This trainer's part; of no samples if it is out of data."""
        return self.asked.plan.batch


@dataclass(frozen=True)
class _Counted:
    """A part whose counts are being summed: samples, parts, wishes to leave and to save."""

    plan: Plan
    counts: Tensor
    summing: Any


class LookAhead:
    """One trainer's look ahead in one epoch.

    A trainer that runs out of data first goes on with empty batches: DDP needs every one. If any
    rank of the job was asked to leave, all trainers end before the same step.
    """

    def __init__(
        self,
        client: TableClient,
        depth: int,
        *,
        phases: Callable[[], Phases],
        is_time_to_save: Callable[[], bool],
    ) -> None:
        self.leaving = False
        self._client, self._depth, self._phases = client, depth, phases
        self._is_time_to_save = is_time_to_save

    def batches(
        self, source: Iterable[Batch], empty: Batch, first_step: int, max_steps: int | None
    ) -> Generator[GlobalBatch, None, None]:
        """Give the steps' batches from first_step on, to the end of the epoch or max_steps."""
        steps = itertools.count(first_step)
        queue: deque[GlobalBatch] = deque()
        with contextlib.closing(self._counted(source, empty)) as counted:
            for step, part in zip(steps, counted, strict=False):
                if step == max_steps:
                    break
                with self._phases().timed("wait for trainers"):
                    part.summing.wait()
                num_samples, num_parts, num_leaving, num_saving = part.counts.tolist()
                self.leaving = num_leaving > 0
                if num_parts == 0 or self.leaving:
                    break
                asked = self._client.ask(part.plan, step)
                queue.append(GlobalBatch(asked, num_samples, num_saving > 0))
                if len(queue) > self._depth:
                    yield queue.popleft()
        yield from queue

    def _counted(self, source: Iterable[Batch], empty: Batch) -> Generator[_Counted, None, None]:
        """Give parts, the sum of the next one's counts begun before this one is given."""
        begun: deque[_Counted] = deque()
        planned = traced("read ahead", map(self._client.plan, source))
        plans = prefetched(planned, _READ_AHEAD)
        with contextlib.closing(plans):
            nothing = self._client.plan(empty)
            try:
                for plan in self._timed(itertools.chain(plans, itertools.repeat(None))):
                    begun.append(self._count(plan, nothing))
                    if len(begun) > 1:
                        yield begun.popleft()
            finally:
                for part in begun:
                    part.summing.wait()

    def _timed(self, plans: Iterable[Plan | None]) -> Iterator[Plan | None]:
        iterator = iter(plans)
        while True:
            with self._phases().timed("read"):
                plan = next(iterator)
            yield plan

    def _count(self, plan: Plan | None, nothing: Plan) -> _Counted:
        size = 0 if plan is None else plan.batch.size
        flags = (plan is not None, mailbox.leaving.is_set(), self._is_time_to_save())
        counts = torch.tensor([size, *flags])
        return _Counted(plan or nothing, counts, dist.all_reduce(counts, async_op=True))
