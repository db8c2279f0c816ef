"""The optimizers of the tables: they read and write only the state of rows that a batch touched.

U touched rows, D columns, n rows in the shard. The rows themselves are changed by their shard,
w -= rate * direction, which knows their type. Every step takes each row once, its duplicates
summed before: Adagrad's and Adam's steps are not linear in the gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hybridjob.tables.memory import filled

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.config import TableOptimizer


class RowOptimizer(Protocol):
    """State of n rows, float32, and where a step leads U of them."""

    name: str
    state: dict[str, Tensor]
    """Name -> (n, D) or (n,) float32: what a checkpoint must hold beside the rows."""

    def scalars(self, step: int) -> tuple[float, ...]:
        """Give the numbers of a step: first the rate, with what depends on the step."""

    def direction(self, ids: Tensor, gradient: Tensor, step: int) -> Tensor:
        """Take the gradient into the state; give what, times the rate, the rows shall lose: (U, D).

        ids: (U,) int64, no duplicates. gradient: (U, D). step: counts from 1.
        """


class RowSgd:
    """w -= lr g."""

    def __init__(self, config: TableOptimizer, num_rows: int, dim: int) -> None:
        del num_rows, dim
        self.name, self.state = "sgd", dict[str, "Tensor"]()
        self._lr = config.lr

    def scalars(self, step: int) -> tuple[float, ...]:
        """Give the rate."""
        del step
        return (self._lr,)

    def direction(self, ids: Tensor, gradient: Tensor, step: int) -> Tensor:
        """Give the direction of a step."""
        del ids, step
        return gradient


class RowAdagrad:
    """s += g^2; w -= lr g / (sqrt(s) + eps). Duchi et al., JMLR 2011; as torch.optim.Adagrad."""

    def __init__(self, config: TableOptimizer, num_rows: int, dim: int) -> None:
        self._config = config
        self._eps = 1e-10 if config.eps is None else config.eps
        self.name = "adagrad"
        self.state = {"sum": filled((num_rows, dim), config.initial_accumulator)}

    def scalars(self, step: int) -> tuple[float, ...]:
        """Give rate and eps."""
        return self._config.lr / (1 + (step - 1) * self._config.lr_decay), self._eps

    def direction(self, ids: Tensor, gradient: Tensor, step: int) -> Tensor:
        """Give the direction of a step."""
        del step
        total = self.state["sum"][ids].addcmul_(gradient, gradient)
        self.state["sum"][ids] = total
        return gradient / total.sqrt_().add_(self._eps)


class RowwiseAdagrad:
    """One sum a row: s += mean(g^2); w -= lr g / (sqrt(s) + eps).

    DLRM's row-wise sparse Adagrad (Naumov et al., arXiv:1906.00091), as in FBGEMM.
    """

    def __init__(self, config: TableOptimizer, num_rows: int, dim: int) -> None:
        del dim
        self._config = config
        self._eps = 1e-10 if config.eps is None else config.eps
        self.name = "rowwise_adagrad"
        self.state = {"sum": filled((num_rows,), config.initial_accumulator)}

    def scalars(self, step: int) -> tuple[float, ...]:
        """Give rate and eps."""
        return self._config.lr / (1 + (step - 1) * self._config.lr_decay), self._eps

    def direction(self, ids: Tensor, gradient: Tensor, step: int) -> Tensor:
        """Give the direction of a step."""
        del step
        total = self.state["sum"][ids].add_(gradient.square().mean(dim=1))
        self.state["sum"][ids] = total
        return gradient / total.sqrt_().add_(self._eps).unsqueeze(1)


class RowAdam:
    """Adam whose moments decay only where a row is touched, as torch.optim.SparseAdam.

    Kingma and Ba, arXiv:1412.6980, algorithm 1, with the bias corrections of the global step.
    """

    def __init__(self, config: TableOptimizer, num_rows: int, dim: int) -> None:
        self._config = config
        self._eps = 1e-8 if config.eps is None else config.eps
        self.name = "adam"
        self.state = {
            "exp_avg": filled((num_rows, dim), 0.0),
            "exp_avg_sq": filled((num_rows, dim), 0.0),
        }

    def scalars(self, step: int) -> tuple[float, ...]:
        """Give the rate with the bias corrections, eps, and (1 - b1, b2, 1 - b2)."""
        beta1, beta2 = self._config.betas
        correction = (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        return self._config.lr * correction, self._eps, 1 - beta1, beta2, 1 - beta2

    def direction(self, ids: Tensor, gradient: Tensor, step: int) -> Tensor:
        """Give the direction of a step."""
        del step
        beta1, beta2 = self._config.betas
        mean = self.state["exp_avg"][ids].lerp_(gradient, 1 - beta1)
        square = self.state["exp_avg_sq"][ids].mul_(beta2)
        square.addcmul_(gradient, gradient, value=1 - beta2)
        self.state["exp_avg"][ids] = mean
        self.state["exp_avg_sq"][ids] = square
        return mean / square.sqrt_().add_(self._eps)


_OPTIMIZERS: dict[str, type[RowSgd | RowAdagrad | RowwiseAdagrad | RowAdam]] = {
    "sgd": RowSgd,
    "adagrad": RowAdagrad,
    "rowwise_adagrad": RowwiseAdagrad,
    "adam": RowAdam,
}


def make_optimizer(config: TableOptimizer, *, num_rows: int, dim: int) -> RowOptimizer:
    """Make the optimizer of one shard: num_rows x dim."""
    return _OPTIMIZERS[config.name](config, num_rows, dim)
