"""The optimizers of the tables: they read and write only the rows that a batch touched.

U touched rows, D columns, n rows in the shard. Every update takes each row once, its duplicates
summed before: Adagrad's and Adam's steps are not linear in the gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hybridjob.tables.memory import filled

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.config import TableOptimizer


class RowOptimizer(Protocol):
    """State of n rows, and the step that changes U of them."""

    name: str
    state: dict[str, Tensor]
    """Name -> (n, D) or (n,) float32: what a checkpoint must hold beside the rows."""

    def scalars(self, step: int) -> tuple[float, ...]:
        """Give the numbers of a step: first the rate, with what depends on the step."""

    def update(self, rows: Tensor, ids: Tensor, gradient: Tensor, step: int) -> None:
        """Change rows[ids] in place.

        rows: (n, D). ids: (U,) int64, no duplicates. gradient: (U, D). step: counts from 1.
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

    def update(self, rows: Tensor, ids: Tensor, gradient: Tensor, step: int) -> None:
        """Change rows[ids] in place."""
        del step
        rows.index_add_(0, ids, gradient, alpha=-self._lr)


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

    def update(self, rows: Tensor, ids: Tensor, gradient: Tensor, step: int) -> None:
        """Change rows[ids] in place."""
        total = self.state["sum"][ids].addcmul_(gradient, gradient)
        self.state["sum"][ids] = total
        scale, _ = self.scalars(step)
        rows.index_add_(0, ids, gradient / total.sqrt_().add_(self._eps), alpha=-scale)


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

    def update(self, rows: Tensor, ids: Tensor, gradient: Tensor, step: int) -> None:
        """Change rows[ids] in place."""
        total = self.state["sum"][ids].add_(gradient.square().mean(dim=1))
        self.state["sum"][ids] = total
        scale, _ = self.scalars(step)
        denominator = total.sqrt_().add_(self._eps).unsqueeze(1)
        rows.index_add_(0, ids, gradient / denominator, alpha=-scale)


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

    def update(self, rows: Tensor, ids: Tensor, gradient: Tensor, step: int) -> None:
        """Change rows[ids] in place."""
        beta1, beta2 = self._config.betas
        mean = self.state["exp_avg"][ids].lerp_(gradient, 1 - beta1)
        square = self.state["exp_avg_sq"][ids].mul_(beta2)
        square.addcmul_(gradient, gradient, value=1 - beta2)
        self.state["exp_avg"][ids] = mean
        self.state["exp_avg_sq"][ids] = square
        rate = self.scalars(step)[0]
        rows.index_add_(0, ids, mean / square.sqrt_().add_(self._eps), alpha=-rate)


_OPTIMIZERS: dict[str, type[RowSgd | RowAdagrad | RowwiseAdagrad | RowAdam]] = {
    "sgd": RowSgd,
    "adagrad": RowAdagrad,
    "rowwise_adagrad": RowwiseAdagrad,
    "adam": RowAdam,
}


def make_optimizer(config: TableOptimizer, *, num_rows: int, dim: int) -> RowOptimizer:
    """Make the optimizer of one shard: num_rows x dim."""
    return _OPTIMIZERS[config.name](config, num_rows, dim)
