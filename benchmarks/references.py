"""What the product is measured against: `python benchmarks/references.py KIND JOB.toml`.

tutorial  PyTorch's "Combining Distributed DataParallel with Distributed RPC Framework": one process
          holds nn.EmbeddingBag(sparse=True) behind RPC, two trainers use distributed autograd, DDP
          and DistributedOptimizer.
plain     one process, nn.EmbeddingBag(sparse=True), no RPC.
torchrec  two gloo ranks, EmbeddingBagCollection in table-wise shards, fused optimizer, if torchrec
          and fbgemm-gpu-cpu can be imported.

Prints samples/s over all trainers, the median over groups of steps, as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed import autograd, rpc
from torch.distributed.optim import DistributedOptimizer
from torch.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import shapes  # noqa: E402

from hybridjob.data.schema_of import schema_of  # noqa: E402
from hybridjob.jobfile import load_job  # noqa: E402
from hybridjob.trainer import share_of  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from hybridjob.config import Job
    from hybridjob.data.batch import Batch

_GROUP = 10
_OPTIMIZERS = {"sgd": torch.optim.SGD, "rowwise_adagrad": torch.optim.Adagrad}


def read(job: Job, trainer: int) -> list[Batch]:
    """Make a trainer's batches."""
    trainers = job.layout.num_trainers
    size = share_of(job.training.batch_size, trainer, trainers)
    reader = shapes.MadeOnce(
        job.data, split="train", seed=0, trainer=trainer, num_trainers=trainers,
        batch_size=size, folder=Path(),
    )  # fmt: skip
    return reader._batches  # noqa: SLF001


def timed_steps(job: Job, samples: int, step: Callable[[int], None]) -> float:
    """Run the steps; give the median samples/s over groups of them, the first group left out."""
    rates = []
    steps = job.training.max_steps or 0
    for start in range(0, steps, _GROUP):
        begun = time.perf_counter()
        for number in range(start, min(steps, start + _GROUP)):
            step(number)
        rates.append(_GROUP * samples / (time.perf_counter() - begun))
    return statistics.median(rates[1:])


class Bags(nn.Module):
    """The tables of a model, in plain torch."""

    def __init__(self, tables: list[Any]) -> None:
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(
                one.num_embeddings, one.embedding_dim, mode="sum", sparse=True,
                include_last_offset=True,
            )
            for one in tables
        )  # fmt: skip

    def forward(self, ids: list[torch.Tensor], offsets: list[torch.Tensor]) -> list[torch.Tensor]:
        """Pool every table's bags."""
        return [bag(i, o) for bag, i, o in zip(self.bags, ids, offsets, strict=True)]

    def parameter_rrefs(self) -> list[Any]:
        """Point to the parameters, for DistributedOptimizer."""
        return [rpc.RRef(one) for one in self.parameters()]


def inputs(batch: Batch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Give ids and offsets, feature by feature."""
    bags = list(batch.features.values())
    return [bag.values for bag in bags], [bag.offsets for bag in bags]


def loss_of(module: nn.Module, batch: Batch, vectors: list[torch.Tensor]) -> torch.Tensor:
    """Give the mean loss of a batch."""
    features = dict(zip(batch.features, vectors, strict=True))
    return F.binary_cross_entropy_with_logits(module(batch.dense, features), batch.labels)


def run_plain(job: Job) -> float:
    """One process, one thread."""
    torch.set_num_threads(1)
    module, tables = shapes.factory(schema_of(job.data), **job.model.options)
    batches, bags = read(job, 0), Bags(tables)
    optimizers = [
        _OPTIMIZERS[job.training.table_optimizer.name](bags.parameters(), lr=0.01),
        torch.optim.SGD(module.parameters(), lr=0.01),
    ]

    def step(number: int) -> None:
        batch = batches[number % len(batches)]
        for one in optimizers:
            one.zero_grad()
        loss_of(module, batch, bags(*inputs(batch))).backward()
        for one in optimizers:
            one.step()

    return timed_steps(job, batches[0].size, step)


# The tutorial. ------------------------------------------------------------------------------------

_bags: Bags | None = None


def make_bags(tables: list[Any]) -> rpc.RRef:
    """Run on the parameter server: make the tables."""
    global _bags  # noqa: PLW0603 - as the tutorial does it
    torch.set_num_threads(2)
    _bags = Bags(tables)
    return rpc.RRef(_bags)


def forward_bags(ids: list[torch.Tensor], offsets: list[torch.Tensor]) -> list[torch.Tensor]:
    """Run on the parameter server: look up."""
    assert _bags is not None
    return _bags(ids, offsets)


def bag_rrefs() -> list[Any]:
    """Run on the parameter server: point to its parameters."""
    assert _bags is not None
    return _bags.parameter_rrefs()


def train_tutorial(job: Job, trainer: int) -> float:
    """Run on a trainer: the tutorial's loop."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=trainer, world_size=2, init_method=os.environ["GLOO_AT"])
    torch.manual_seed(0)
    module, _ = shapes.factory(schema_of(job.data), **job.model.options)
    replicated = DistributedDataParallel(module)
    rrefs = rpc.rpc_sync("ps", bag_rrefs)
    rrefs += [rpc.RRef(one) for one in replicated.parameters()]
    optimizer = DistributedOptimizer(_OPTIMIZERS[job.training.table_optimizer.name], rrefs, lr=0.01)
    batches = read(job, trainer)

    def step(number: int) -> None:
        batch = batches[number % len(batches)]
        with autograd.context() as context:
            vectors = rpc.rpc_sync("ps", forward_bags, args=inputs(batch))
            autograd.backward(context, [loss_of(replicated, batch, vectors)])
            optimizer.step(context)

    rate = timed_steps(job, batches[0].size, step)
    dist.barrier()
    return rate


def tutorial_rank(rank: int, job: Job, answer: Any) -> None:
    """Be rank 0 and 1: trainers; 2: the parameter server; 3: the master."""
    warnings.filterwarnings("ignore")
    names = ["trainer0", "trainer1", "ps", "master"]
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=os.environ["RPC_AT"], _transports=["uv"], rpc_timeout=300
    )
    rpc.init_rpc(names[rank], rank=rank, world_size=4, rpc_backend_options=options)
    if rank == len(names) - 1:
        _, tables = shapes.factory(schema_of(job.data), **job.model.options)
        kept = rpc.rpc_sync("ps", make_bags, args=(tables,))
        calls = [rpc.rpc_async(f"trainer{one}", train_tutorial, args=(job, one)) for one in (0, 1)]
        answer.put(sum(one.wait() for one in calls))
        del kept
    rpc.shutdown()


def free_address() -> str:
    """Find a port of this machine that is free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


def run_ranks(function: Any, count: int, job: Job) -> float:
    """Start processes and take what one of them answers."""
    os.environ.update(
        RPC_AT=free_address(), GLOO_AT=free_address(), GLOO_SOCKET_IFNAME="lo",
        TP_SOCKET_IFNAME="lo",
    )  # fmt: skip
    answer = mp.get_context("spawn").SimpleQueue()
    mp.spawn(function, args=(job, answer), nprocs=count)
    return float(answer.get())


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["tutorial", "plain", "torchrec"])
    parser.add_argument("job", type=Path)
    given = parser.parse_args()
    job = load_job(given.job)
    if given.kind == "plain":
        rate = run_plain(job)
    elif given.kind == "tutorial":
        rate = run_ranks(tutorial_rank, 4, job)
    else:
        from of_torchrec import torchrec_rank

        rate = run_ranks(torchrec_rank, 2, job)
    print(json.dumps({"samples_per_s": rate}))


if __name__ == "__main__":
    main()
