"""The limit: the product's own arithmetic in one process, without any transport.

Compiled kernels and torch use all the cores that the product's processes share. What the trainers
ask is prepared once, before the clock starts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import shapes
import torch
from references import loss_of, read, timed_steps

from hybridjob.data.schema_of import schema_of
from hybridjob.tables.block import Block
from hybridjob.tables.compiled_server import CompiledServer
from hybridjob.tables.compiled_trainer import CompiledTrainer
from hybridjob.tables.plan import Planner
from hybridjob.tables.shard import Shard
from hybridjob.tables.wire import Answer

if TYPE_CHECKING:
    from hybridjob.config import Job


def run_limit(job: Job) -> float:
    """Train on all trainers' batches; give samples/s."""
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    module, tables = shapes.factory(schema_of(job.data), **job.model.options)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    kernels, server = CompiledTrainer(), CompiledServer(threads)
    shards = [
        Shard(one, job.training.table_optimizer, seed=0, start=0, stop=one.num_embeddings)
        for one in tables
    ]
    planner = Planner(tables, 1, kernels, job.training.pool_on)
    plans = [
        [planner.plan(batch) for batch in batches]
        for batches in zip(*(read(job, one) for one in range(job.layout.num_trainers)), strict=True)
    ]

    def step(number: int) -> None:
        pushes = []
        optimizer.zero_grad()
        for plan in plans[number % len(plans)]:
            (question,) = plan.questions
            answer = Answer(*server.answer(shards, question, partial=False), 0, {})
            block = Block(plan, [answer], kernels, torch.device("cpu"))
            vectors = list(block.vectors().values())
            loss_of(module, plan.batch, vectors).backward()
            (gradient,) = block.gradients(1.0)
            pushes.append((question, gradient))
        server.apply(shards, pushes, number + 1)
        optimizer.step()

    return timed_steps(job, job.training.batch_size, step)
