"""A trainer's side of the tables: one question to each server for all tables, one push."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from hybridjob.phases import Phases
from hybridjob.remote import start_call
from hybridjob.tables import server as remote_server
from hybridjob.tables.block import Block
from hybridjob.tables.data_types import torch_type
from hybridjob.tables.kernels import trainer_kernels
from hybridjob.tables.plan import Planner
from hybridjob.tables.wire import check_answer, packed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hybridjob.config import Training
    from hybridjob.data.batch import Batch
    from hybridjob.remote import Pending
    from hybridjob.rendezvous import World
    from hybridjob.schema import Table
    from hybridjob.tables.plan import Plan
    from hybridjob.tables.wire import Answer


@dataclass(frozen=True)
class Asked:
    """A batch whose rows are on their way."""

    plan: Plan
    calls: list[Pending]


class TableClient:
    """Looks rows up ahead of their use, and pushes gradients without waiting for them."""

    def __init__(
        self, world: World, tables: Sequence[Table], training: Training, device: torch.device
    ) -> None:
        self._world, self._device = world, device
        # An answer may have to wait for another trainer's step: a frozen peer is noticed elsewhere.
        self._limit_s = training.stall_timeout_s
        self._kernels = trainer_kernels(training.kernels)
        self._servers = world.layout.server_ranks
        self._value_type = torch_type(training.wire_data_type)
        self._planner = Planner(
            tables,
            len(self._servers),
            self._kernels,
            training.pool_on,
            value_type=self._value_type,
            sharding=training.sharding,
        )
        self._partial = len(self._servers) > 1 and self._kernels.pools_on_servers
        self._pushes: deque[list[Pending]] = deque()
        self._lag = 0
        self._server_phases = Phases()
        self._waits = Phases()

    def plan(self, batch: Batch) -> Plan:
        """Prepare what is asked; may run in a thread, one batch after the other.

        Raises TableError for an id out of range, ModelError for a feature that the data lacks.
        """
        return self._planner.plan(batch)

    def ask(self, plan: Plan, step: int, *, train: bool = True) -> Asked:
        """Ask for the rows as they are at the begin of a step. `train`: gradients will follow.

        The servers answer once the steps before are in the tables.
        """
        calls = [
            self._start(rank, remote_server.ask, question, step, train)
            for rank, question in zip(self._servers, plan.questions, strict=True)
        ]
        return Asked(plan, calls)

    def receive(self, asked: Asked) -> Block:
        """Wait for the rows. Raises TableError or PeerError."""
        answers = self._answers(asked)
        sums = torch.float64 if self._partial else self._value_type
        for server, (answer, question) in enumerate(
            zip(answers, asked.plan.questions, strict=True)
        ):
            check_answer(answer, question, server, sums)
            for name, seconds in answer.seconds.items():
                self._server_phases.add(name, seconds / len(answers))
        self._lag = max(self._lag, *(answer.lag for answer in answers))
        return Block(asked.plan, answers, self._kernels, self._device)

    def _answers(self, asked: Asked) -> list[Answer]:
        """Wait for all servers; the whole wait counts as one for whoever answered last.

        That is the last one whose answer was not there when all before it were.
        """
        start, latest = time.perf_counter(), None
        answers: list[Answer] = []
        for rank, call in zip(self._servers, asked.calls, strict=True):
            if not call.done():
                latest = rank
            answers.append(call.wait())
        if latest is not None:
            self._waits.add(self._world.name_of(latest), time.perf_counter() - start)
        return answers

    def push(self, block: Block, step: int, *, scale: float, most_on_their_way: int) -> None:
        """Send the gradients that backward left, times `scale`.

        Waits only for those of earlier steps, until no more than so many steps are on their way.
        """
        gradients, power = packed(block.gradients(scale), self._value_type)
        calls = [
            self._start(rank, remote_server.push, gradient, step, power)
            for rank, gradient in zip(self._servers, gradients, strict=True)
        ]
        self._pushes.append(calls)
        self._wait(most_on_their_way)

    def _start(self, rank: int, function: Callable[..., Any], *args: Any) -> Pending:
        index, limit_s = self._world.index, self._limit_s
        return start_call(self._world, rank, function, index, *args, timeout_s=limit_s)

    def finish_pushes(self) -> None:
        """Wait until all gradients are in the tables."""
        self._wait(0)

    def server_seconds(self) -> dict[str, float]:
        """Give what a server, on average, has spent in each phase since this was last asked."""
        return self._server_phases.take()

    def take_waits(self) -> dict[str, float]:
        """Give server -> seconds in which its answer was the last to come, since last asked."""
        return self._waits.take()

    def take_lag(self) -> int:
        """Give how many steps' gradients rows lacked at most, since this was last asked."""
        lag, self._lag = self._lag, 0
        return lag

    def _wait(self, most_on_their_way: int) -> None:
        while len(self._pushes) > most_on_their_way:
            for call in self._pushes.popleft():
                call.wait()
