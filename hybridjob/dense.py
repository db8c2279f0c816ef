"""The dense layers of one trainer: the module under DDP, its optimizer and its loss.

B samples of this trainer; the dense gradients are averaged over the trainers in backward.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel

from hybridjob.errors import CheckpointError, ConfigError, HybridjobError, ModelError
from hybridjob.failures import is_consequence
from hybridjob.loss import loss_of
from hybridjob.models.build import line_of
from hybridjob.tables.digest import dense_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from hybridjob.config import DenseOptimizer, Training
    from hybridjob.data.batch import Batch

    Timed = Callable[[str], AbstractContextManager[None]]

# LBFGS evaluates the loss several times a step, SparseAdam is for sparse gradients alone.
_UNFIT = {"Optimizer", "LBFGS", "SparseAdam"}


class DenseModel:
    """What is replicated on every trainer."""

    def __init__(self, module: nn.Module, training: Training, device: torch.device) -> None:
        self.device = device
        self.module = module.to(device)
        self._loss = loss_of(module, training.loss)
        parameters = [one for one in module.parameters() if one.requires_grad]
        self._replicated: nn.Module = module
        self._optimizer: torch.optim.Optimizer | None = None
        if parameters:
            on_gpu = [device.index] if device.type == "cuda" else None
            self._replicated = DistributedDataParallel(module, device_ids=on_gpu)
            self._optimizer = _make_optimizer(training.dense_optimizer, parameters)

    def backward(
        self, batch: Batch, vectors: dict[str, Tensor], weight: float, timed: Timed
    ) -> float:
        """Compute gradients of weight x the batch's mean loss. Returns the unweighted mean.

        vectors: feature name -> (B, D). A trainer that is out of data takes part with B = 0. timed:
        measures the phases; that of backward holds the wait for the other trainers' gradients.
        """
        if self._optimizer is not None:
            self._optimizer.zero_grad(set_to_none=True)
        with timed("forward"), _users_code("the model's forward"):
            outputs = _checked(self._replicated(batch.dense.to(self.device), vectors))
        if batch.size == 0:
            with timed("backward"):
                (outputs.sum() * 0.0).backward()
            return 0.0
        with timed("forward"), _users_code("the loss"):
            loss = self._loss(outputs, batch.labels.to(self.device))
        with timed("backward"), _users_code("backward"):
            (loss * weight).backward()
        return float(loss.detach())

    def update(self) -> None:
        """Take the optimizer's step."""
        if self._optimizer is not None:
            self._optimizer.step()

    @torch.no_grad()
    def predict(self, batch: Batch, vectors: dict[str, Tensor]) -> Tensor:
        """Give the outputs for a batch, on the CPU, dropout and the like switched off."""
        self.module.eval()
        with _users_code("the model's forward"):
            outputs = _checked(self.module(batch.dense.to(self.device), vectors))
        self.module.train()
        return outputs.float().cpu()

    def tensors(self) -> dict[str, Tensor]:
        """Give parameters, buffers and optimizer state by name."""
        found = {f"module/{name}": value for name, value in self.module.state_dict().items()}
        if self._optimizer is not None:
            for number, state in self._optimizer.state_dict()["state"].items():
                for name, value in state.items():
                    if value is not None:
                        found[f"optimizer/{number}/{name}"] = torch.as_tensor(value)
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `tensors` gave. Raises CheckpointError if it is of another model."""
        module = {name[7:]: one for name, one in tensors.items() if name.startswith("module/")}
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer/"):
                _, number, key = name.split("/", 2)
                state.setdefault(int(number), {})[key] = tensor
        try:
            self.module.load_state_dict(module)
            if self._optimizer is not None:
                groups = self._optimizer.state_dict()["param_groups"]
                self._optimizer.load_state_dict({"state": state, "param_groups": groups})
        except (RuntimeError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"the checkpoint's dense layers do not fit the model of the job file: {error}"
            ) from error

    def digest(self) -> str:
        """Hash parameters, buffers and optimizer state."""
        return dense_digest(self.tensors())


@contextlib.contextmanager
def _users_code(what: str) -> Iterator[None]:
    """Tell what the user's code raises as the user's mistake: starting again would not help.

    Another rank's loss shows in DDP's collectives too, and memory may be free the next time.
    """
    try:
        yield
    except (HybridjobError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if is_consequence(error):
            raise
        text = str(error).strip().split("\n", 1)[0]
        raise ModelError(
            f"{what} failed: {type(error).__name__}: {text}{line_of(error)}"
        ) from error


def _checked(outputs: Any) -> Tensor:
    if not isinstance(outputs, torch.Tensor) or not outputs.is_floating_point():
        got = outputs.dtype if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ModelError(f"the model's forward must return a tensor of floats, not {got}")
    return outputs


def _make_optimizer(
    config: DenseOptimizer, parameters: list[nn.Parameter]
) -> torch.optim.Optimizer:
    kind = getattr(torch.optim, config.name, None)
    known = {name for name in vars(torch.optim) if name[:1].isupper()} - _UNFIT
    if config.name not in known or not isinstance(kind, type):
        raise ConfigError(
            f"training.dense_optimizer.name is {config.name!r}, but torch.optim has "
            f"{', '.join(sorted(known))}"
        )
    try:
        arguments: dict[str, Any] = {"lr": config.lr, **config.options}
        optimizer: torch.optim.Optimizer = kind(parameters, **arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"training.dense_optimizer: {config.name} says: {error}") from error
    return optimizer
