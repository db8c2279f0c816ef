"""What other ranks call on a parameter server.

torch RPC runs functions of modules, so the process has one server: see hybridjob.tables.serving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybridjob.errors import CheckpointError, PeerError
from hybridjob.remote import Future, deferred
from hybridjob.roles import index_in_role
from hybridjob.tables.kernels import server_kernels
from hybridjob.tables.serving import Server

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.checkpoint.behind import Written
    from hybridjob.checkpoint.order import SaveOrder
    from hybridjob.config import Job
    from hybridjob.schema import Table
    from hybridjob.tables.digest import RowSums
    from hybridjob.tables.wire import Answer, Question

_server: Server | None = None


def this_server() -> Server:
    """Give the server of this process. Raises PeerError if it is none."""
    if _server is None:
        raise PeerError("this rank is no parameter server, or is not ready")
    return _server


def create_shards(
    tables: list[Table], job: Job, checkpoint: str | None
) -> tuple[int, CheckpointError | None]:
    """Make the server's shards. Returns their bytes, and what is wrong with the checkpoint.

    An error that is raised here would reach the caller as a failure of this rank.
    """
    try:
        return this_server().create(tables, job, checkpoint), None
    except CheckpointError as error:
        return 0, error


@deferred
def ask(trainer: int, question: Question, step: int, train: bool) -> Future[Answer]:  # noqa: FBT001 - it travels as a positional argument
    """Look up; answer when the rows are new enough."""
    return this_server().ask(trainer, question, step, train=train)


@deferred
def push(trainer: int, gradient: Tensor, step: int, power: float) -> Future[int]:
    """Take gradients; answer when they are applied."""
    return this_server().push(trainer, gradient, step, power)


def touched() -> tuple[int, int]:
    """Count the rows touched since the base, and all."""
    return this_server().touched()


def save(order: SaveOrder) -> None:
    """Hold the shards' state for a checkpoint; returns when training may go on."""
    this_server().save(order)


@deferred
def written() -> Future[Written]:
    """Answer when the files of the last `save` are on the disk, or could not be written."""
    return this_server().written()


def ids_served() -> int:
    """Count the ids of all questions so far."""
    return this_server().ids_served


def table_sums() -> RowSums:
    """Hash the server's shards."""
    return this_server().sums()


def prepare(job: Job, rank: int) -> None:
    """Make this process's server, if its rank is one, before any other rank can call it."""
    global _server  # noqa: PLW0603 - torch RPC reaches a server only through its module
    layout = job.layout
    if rank in layout.server_ranks:
        _server = Server(
            index=index_in_role(rank, layout),
            num_servers=layout.num_servers,
            num_trainers=layout.num_trainers,
            synchronous=job.training.mode == "sync",
            staleness=job.training.staleness if job.training.mode == "async" else 0,
            kernels=server_kernels(job.training.kernels, job.ps.cpus_per_task),
            servers_per_node=job.ps.tasks_per_node,
        )
