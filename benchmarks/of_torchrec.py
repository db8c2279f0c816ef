"""TorchRec on two gloo ranks: whole tables dealt to the ranks, or rows of each on both.

One table alone can only lie on one rank whole; cut by columns or rows both ranks work. The
optimizer is fused into the backward of fbgemm's table-batched embedding.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import shapes
import torch
import torch.distributed as dist
from references import loss_of, read, timed_steps
from torch.nn.parallel import DistributedDataParallel

from hybridjob.data.schema_of import schema_of

if TYPE_CHECKING:
    from hybridjob.config import Job
    from hybridjob.data.batch import Batch

_OPTIMIZERS = {"sgd": "EXACT_SGD", "rowwise_adagrad": "EXACT_ROWWISE_ADAGRAD"}
_FEW_TABLES = 2


def sharded(tables: list[Any], optimizer: str) -> Any:
    """Make the tables, cut over the ranks."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, PoolingType
    from torchrec.distributed import DistributedModelParallel, ShardingEnv
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints

    bags = EmbeddingBagCollection(
        device=torch.device("meta"),
        tables=[
            EmbeddingBagConfig(
                name=one.name, num_embeddings=one.num_embeddings, embedding_dim=one.embedding_dim,
                feature_names=list(one.feature_names), pooling=PoolingType.SUM,
            )
            for one in tables
        ],
    )  # fmt: skip
    sharder = EmbeddingBagCollectionSharder(
        fused_params={"optimizer": getattr(EmbOptimType, _OPTIMIZERS[optimizer]),
                      "learning_rate": 0.01}
    )  # fmt: skip
    kind = "column_wise" if len(tables) < _FEW_TABLES else "table_wise"
    limits = {
        one.name: ParameterConstraints(sharding_types=[kind], min_partition=one.embedding_dim // 2)
        for one in tables
    }
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=2, compute_device="cpu"), constraints=limits
    )
    plan = planner.collective_plan(bags, [sharder], dist.group.WORLD)
    return DistributedModelParallel(
        bags, device=torch.device("cpu"), env=ShardingEnv.from_process_group(dist.group.WORLD),
        plan=plan, sharders=[sharder],
    )  # fmt: skip


def torchrec_rank(rank: int, job: Job, answer: Any) -> None:
    """Be one of two ranks."""
    import fbgemm_gpu  # noqa: F401 - registers the operators
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=os.environ["GLOO_AT"])
    torch.manual_seed(0)
    module, tables = shapes.factory(schema_of(job.data), **job.model.options)
    bags = sharded(list(tables), job.training.table_optimizer.name)
    replicated = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def keyed(batch: Batch) -> KeyedJaggedTensor:
        features = batch.features
        return KeyedJaggedTensor(
            keys=list(features),
            values=torch.cat([one.values for one in features.values()]),
            lengths=torch.cat([one.offsets.diff() for one in features.values()]),
        )

    batches = read(job, rank)
    made = [keyed(batch) for batch in batches]

    def step(number: int) -> None:
        batch = batches[number % len(batches)]
        found = bags(made[number % len(batches)]).to_dict()
        vectors = [found[name] for name in batch.features]
        optimizer.zero_grad()
        loss_of(replicated, batch, vectors).backward()
        optimizer.step()

    rate = timed_steps(job, 2 * batches[0].size, step)
    if rank == 0:
        answer.put(rate)
    dist.barrier()
