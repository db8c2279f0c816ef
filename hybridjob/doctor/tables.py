"""How many bytes the tables will take, as far as that can be told without the model's code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.data.layout import categorical_columns
from hybridjob.data.tutorial_shape import FEATURE, NUM_EMBEDDINGS
from hybridjob.doctor.finding import bad, ok, warn
from slurm.site import memory_mb

if TYPE_CHECKING:
    from hybridjob.config import Job, Resources
    from hybridjob.doctor.finding import Finding

_FLOAT = 4
_VALUE = {"float32": 4, "float16": 2, "bfloat16": 2}
_DIMENSIONS = {"tutorial": 16, "click": 16}
_UNKNOWN_DIMENSION = 64
# Python, torch and the buffers of requests, for each process that holds a shard.
_PROCESS_BYTES = 500 * 10**6


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """rows: of all tables. state_bytes: of rows and optimizer state. sure: nothing was assumed."""

    rows: int
    dimension: int
    state_bytes: int
    sure: bool


def estimate_tables(job: Job) -> Estimate:
    """Take a row for every id of every feature, and the embedding_dim of the model's options."""
    sizes, sure = _cardinalities(job)
    given = job.model.options.get("embedding_dim")
    dimension = given if isinstance(given, int) else _DIMENSIONS.get(job.model.factory)
    own_model = job.model.factory not in _DIMENSIONS
    rows = sum(sizes)
    width = dimension or _UNKNOWN_DIMENSION
    return Estimate(
        rows=rows,
        dimension=width,
        state_bytes=rows * _bytes_of_a_row(job, width),
        sure=sure and dimension is not None and not own_model,
    )


def check_memory(job: Job, estimate: Estimate, node_mb: int | None) -> Finding:
    """Compare a node's share of the tables with the memory that it gets.

    node_mb: what the machine or the smallest node has, where the job file says nothing.
    """
    servers_a_node = job.ps.tasks_per_node
    share = estimate.state_bytes / job.ps.nodes
    need = share + servers_a_node * _PROCESS_BYTES
    have, source = _memory_of_a_node(job.ps, node_mb)
    about = f"{_size(share)} of tables and optimizer state a server node" + _assumed(estimate)
    if have is None:
        return warn("memory", f"{about}; how much a node gives is not known", "set ps.mem")
    found = f"{about}, of {_size(have)} ({source})"
    if need > have:
        change = f"set ps.mem to {_size(1.2 * need)} or more, or give ps.nodes more nodes"
        return bad("memory", found, change) if estimate.sure else warn("memory", found, change)
    return ok("memory", found)


def checkpoint_bytes(job: Job, estimate: Estimate) -> int:
    """Add up the checkpoints that are there at once: the kept ones, and the one being written."""
    return estimate.state_bytes * (job.checkpoint.keep_last + 1)


def _memory_of_a_node(asked: Resources, node_mb: int | None) -> tuple[float | None, str]:
    mebibyte = 1024.0 * 1024
    if asked.mem is not None and memory_mb(asked.mem) > 0:
        return memory_mb(asked.mem) * mebibyte, f"ps.mem = {asked.mem}"
    if asked.mem_per_cpu is not None:
        cores = asked.tasks_per_node * asked.cpus_per_task
        return memory_mb(asked.mem_per_cpu) * cores * mebibyte, "ps.mem_per_cpu"
    if node_mb is None:
        return None, ""
    return node_mb * mebibyte, "a node's memory; ps.mem is not set"


def _cardinalities(job: Job) -> tuple[list[int], bool]:
    """Give the ids of each feature; False beside them if a vocabulary is not built yet."""
    data = job.data
    if data.format == "tutorial":
        return [NUM_EMBEDDINGS for _ in [FEATURE]], True
    if data.format == "synthetic":
        return [feature.cardinality for feature in data.features], True
    sizes = [column.num_embeddings for column in categorical_columns(data)]
    return [size for size in sizes if size], all(sizes)


def _bytes_of_a_row(job: Job, dimension: int) -> int:
    state = {"sgd": 0, "adagrad": dimension, "rowwise_adagrad": 1, "adam": 2 * dimension}
    row = _VALUE[job.model.table_data_type] * dimension
    return row + _FLOAT * state[job.training.table_optimizer.name]


def _assumed(estimate: Estimate) -> str:
    if estimate.sure:
        return ""
    return f" (a guess: {estimate.rows:,} ids and more, {estimate.dimension} numbers each)"


def _size(number: float) -> str:
    for unit in ("B", "K", "M", "G"):
        if number < 1024:  # noqa: PLR2004 - as Slurm counts
            return f"{number:.3g}{unit}"
        number /= 1024
    return f"{number:.3g}T"
