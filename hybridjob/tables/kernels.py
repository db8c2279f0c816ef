"""Which kernels compute: compiled by numba, or plain torch."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Protocol

from hybridjob.errors import ConfigError
from hybridjob.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from hybridjob.config import Kernels
    from hybridjob.tables.plan import TrainerKernels
    from hybridjob.tables.shard import Shard
    from hybridjob.tables.wire import Question

logger = logging.getLogger(__name__)


class ServerKernels(Protocol):
    """What a server computes: see hybridjob.tables.torch_server."""

    name: str

    def answer(  # noqa: D102
        self, shards: Sequence[Shard], question: Question, *, partial: bool
    ) -> tuple[Tensor, Tensor]: ...
    def apply(  # noqa: D102
        self, shards: Sequence[Shard], pushes: Sequence[tuple[Question, Tensor]], step: int
    ) -> None: ...


def trainer_kernels(wanted: Kernels) -> TrainerKernels:
    """Choose a trainer's kernels. Raises ConfigError if those of the job file are missing."""
    if _have_numba(wanted):
        from hybridjob.tables.compiled_trainer import CompiledTrainer  # noqa: PLC0415

        return CompiledTrainer()
    from hybridjob.tables.torch_trainer import TorchTrainer  # noqa: PLC0415

    return TorchTrainer()


def server_kernels(wanted: Kernels, num_threads: int) -> ServerKernels:
    """Choose a server's kernels, and say which. Raises ConfigError as `trainer_kernels`."""
    chosen: ServerKernels
    if _have_numba(wanted):
        from hybridjob.tables.compiled_server import CompiledServer  # noqa: PLC0415

        chosen = CompiledServer(num_threads)
    else:
        from hybridjob.tables.torch_server import TorchServer  # noqa: PLC0415

        chosen = TorchServer()
    log_event(logger, "kernels of the tables", kernels=chosen.name, threads=num_threads)
    return chosen


def _have_numba(wanted: Kernels) -> bool:
    if wanted == "torch":
        return False
    try:
        importlib.import_module("hybridjob.tables.jit")
    except ImportError as error:
        if wanted == "numba":
            raise ConfigError(
                f"training.kernels is 'numba', but numba cannot be imported: {error}. Install it "
                "(pip install numba), or set training.kernels = 'torch'"
            ) from error
        log_event(logger, f"numba cannot be imported, tables use plain torch: {error}")
        return False
    return True
