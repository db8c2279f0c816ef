"""What computes on the tables fastest: `python benchmarks/kernels.py [--rounds 5] [--threads 1]`.

Looks up, with sums, and updates, duplicates summed, in one process: the product's compiled kernels
(numba), its plain torch, torch's own EmbeddingBag with sparse gradients, FBGEMM's table-batched
embedding on the CPU (if fbgemm-gpu-cpu can be imported), and an extension of torch compiled from
C++ here (if a compiler is there). In turn within each round; prints the median milliseconds of a
batch. Shapes: A one table 1M x 64, 4096 bags of 26 ids; B 26 tables 100k x 16, 2048 bags of one id.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import torch  # noqa: E402

from hybridjob.config import TableOptimizer  # noqa: E402
from hybridjob.data.batch import Batch, Jagged  # noqa: E402
from hybridjob.schema import Table  # noqa: E402
from hybridjob.tables.compiled_server import CompiledServer  # noqa: E402
from hybridjob.tables.compiled_trainer import CompiledTrainer  # noqa: E402
from hybridjob.tables.plan import Planner  # noqa: E402
from hybridjob.tables.shard import Shard  # noqa: E402
from hybridjob.tables.torch_server import TorchServer  # noqa: E402
from hybridjob.tables.torch_trainer import TorchTrainer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


_BATCHES = 6
_LR = 0.01
_SHAPES = {"A": (1, 1_000_000, 64, 4096, 26), "B": (26, 100_000, 16, 2048, 1)}
_CPP = """
#include <torch/extension.h>
#include <cmath>
#include <unordered_map>
void lookup(torch::Tensor rows, torch::Tensor ids, int64_t width, torch::Tensor out) {
  int64_t dim = rows.size(1), bags = out.size(0);
  const float* w = rows.data_ptr<float>(); const int64_t* id = ids.data_ptr<int64_t>();
  float* o = out.data_ptr<float>();
  for (int64_t b = 0; b < bags; b++) {
    float* t = o + b * dim;
    for (int64_t c = 0; c < dim; c++) t[c] = 0;
    for (int64_t p = b * width; p < (b + 1) * width; p++) {
      if (p + 8 < bags * width)
        for (int64_t c = 0; c < dim; c += 16) __builtin_prefetch(w + id[p + 8] * dim + c);
      const float* r = w + id[p] * dim;
      for (int64_t c = 0; c < dim; c++) t[c] += r[c];
    }
  }
}
void update(torch::Tensor rows, torch::Tensor sums, torch::Tensor ids, int64_t width,
            torch::Tensor gradient, double lr, bool rowwise) {
  int64_t dim = rows.size(1), count = ids.numel();
  float* w = rows.data_ptr<float>(); const int64_t* id = ids.data_ptr<int64_t>();
  float* s = sums.data_ptr<float>(); const float* g = gradient.data_ptr<float>();
  std::vector<int64_t> next(count, -1), unique, first, last;
  std::unordered_map<int64_t, int64_t> found; found.reserve(2 * count);
  for (int64_t p = 0; p < count; p++) {
    auto it = found.emplace(id[p], (int64_t)unique.size());
    if (it.second) { unique.push_back(id[p]); first.push_back(p); last.push_back(p); }
    else { next[last[it.first->second]] = p; last[it.first->second] = p; }
  }
  std::vector<float> total(dim);
  for (size_t u = 0; u < unique.size(); u++) {
    if (u + 8 < unique.size())
      for (int64_t c = 0; c < dim; c += 16) __builtin_prefetch(w + unique[u + 8] * dim + c, 1);
    std::fill(total.begin(), total.end(), 0.f);
    for (int64_t p = first[u]; p >= 0; p = next[p])
      for (int64_t c = 0; c < dim; c++) total[c] += g[p / width * dim + c];
    float rate = lr;
    if (rowwise) {
      float norm = 0;
      for (int64_t c = 0; c < dim; c++) norm += total[c] * total[c];
      s[unique[u]] += norm / dim; rate = lr / (std::sqrt(s[unique[u]]) + 1e-10f);
    }
    float* r = w + unique[u] * dim;
    for (int64_t c = 0; c < dim; c++) r[c] -= rate * total[c];
  }
}
"""


class Contender(Protocol):
    """Kernels on tables of their own. number: of the batch."""

    def lookup(self, number: int) -> Any:
        """Give the vectors of all bags."""

    def update(self, number: int, looked_up: Any) -> None:
        """Change the rows by a gradient."""


class Case:
    """A shape's tables, and batches that are made once. ids: per batch and table (B * width,)."""

    def __init__(self, shape: str, optimizer: str) -> None:
        self.tables, self.rows, self.dim, self.bags, self.width = _SHAPES[shape]
        self.optimizer = optimizer
        generator = torch.Generator().manual_seed(0)
        size = (_BATCHES, self.tables, self.bags * self.width)
        self.ids = torch.randint(0, self.rows, size, generator=generator)
        self.gradient = torch.randn(self.bags * self.dim * self.tables, generator=generator) * 1e-3
        self.offsets = torch.arange(0, self.bags * self.width + 1, self.width)

    @functools.cached_property
    def declared(self) -> list[Table]:
        """Declare the tables as a model does."""
        return [
            Table(name=f"t{n}", num_embeddings=self.rows, embedding_dim=self.dim,
                  feature_names=(f"f{n}",), initial_scale=0.1)
            for n in range(self.tables)
        ]  # fmt: skip


class OfProduct:
    """The product's kernels, as a server calls them."""

    def __init__(self, case: Case, server: Any, trainer: Any) -> None:
        self._server = server
        config = TableOptimizer(name=case.optimizer, lr=_LR)  # type: ignore[arg-type]
        self._shards = [
            Shard(one, config, seed=0, start=0, stop=case.rows) for one in case.declared
        ]
        planner = Planner(case.declared, 1, trainer, "servers")
        batches = [
            {f"f{n}": Jagged(one, case.offsets) for n, one in enumerate(ids)} for ids in case.ids
        ]
        dense = torch.zeros(case.bags, 0)
        self._questions = [
            planner.plan(Batch(dense, features, dense[:, 0:0].sum(1))).questions[0]
            for features in batches
        ]
        self._gradients = [
            case.gradient if server.name == "numba" else
            torch.randn(sum(one.size_of(part) for part in one.parts)) * 1e-3
            for one in self._questions
        ]  # fmt: skip

    def lookup(self, number: int) -> Any:
        """Answer the question."""
        return self._server.answer(self._shards, self._questions[number], partial=False)

    def update(self, number: int, looked_up: Any) -> None:
        """Apply one trainer's push."""
        del looked_up
        push = (self._questions[number], self._gradients[number])
        self._server.apply(self._shards, [push], 1)


class OfTorch:
    """torch's EmbeddingBag, sparse gradients and optimizer."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._bags = torch.nn.ModuleList(
            torch.nn.EmbeddingBag(case.rows, case.dim, mode="sum", sparse=True,
                                  include_last_offset=True)
            for _ in range(case.tables)
        )  # fmt: skip
        kind = torch.optim.SGD if case.optimizer == "sgd" else torch.optim.Adagrad
        self._optimizer = kind(self._bags.parameters(), lr=_LR)

    def lookup(self, number: int) -> Any:
        """Pool every table."""
        pairs = zip(self._bags, self._case.ids[number], strict=True)
        return torch.cat([bag(ids, self._case.offsets).view(-1) for bag, ids in pairs])

    def update(self, number: int, looked_up: Any) -> None:
        """Go backward and take a step."""
        del number
        looked_up.backward(self._case.gradient)
        self._optimizer.step()
        self._optimizer.zero_grad()


class OfFbgemm:
    """FBGEMM's table-batched embedding, the optimizer fused into the backward pass."""

    def __init__(self, case: Case) -> None:
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
            ComputeDevice,
            EmbeddingLocation,
            SplitTableBatchedEmbeddingBagsCodegen,
        )

        kinds = {
            "sgd": EmbOptimType.EXACT_SGD,
            "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        }
        spec = (case.rows, case.dim, EmbeddingLocation.HOST, ComputeDevice.CPU)
        self._tables = SplitTableBatchedEmbeddingBagsCodegen(
            embedding_specs=[spec] * case.tables, optimizer=kinds[case.optimizer], learning_rate=_LR
        )
        self._ids = case.ids.view(_BATCHES, -1)
        self._offsets = torch.arange(0, self._ids.shape[1] + 1, case.width)
        self._gradient = case.gradient.view(case.bags, -1)

    def lookup(self, number: int) -> Any:
        """Pool all tables."""
        return self._tables(self._ids[number], self._offsets)

    def update(self, number: int, looked_up: Any) -> None:
        """Go backward, which updates."""
        del number
        looked_up.backward(self._gradient)


class OfExtension:
    """Loops in C++, compiled here for this processor; the rows are grouped by std's hash map."""

    def __init__(self, case: Case) -> None:
        from torch.utils.cpp_extension import load_inline

        self._module = load_inline(
            "hybridjob_bench", _CPP, functions=["lookup", "update"],
            extra_cflags=["-O3", "-march=native", "-ffast-math"],
        )  # fmt: skip
        self._case = case
        self._rows = [torch.randn(case.rows, case.dim) for _ in range(case.tables)]
        self._sums = [torch.zeros(case.rows) for _ in range(case.tables)]
        self._out = torch.empty(case.tables, case.bags, case.dim)
        self._gradient = case.gradient.view(case.tables, case.bags, case.dim)

    def lookup(self, number: int) -> Any:
        """Pool table by table."""
        for rows, ids, out in zip(self._rows, self._case.ids[number], self._out, strict=True):
            self._module.lookup(rows, ids, self._case.width, out)
        return self._out

    def update(self, number: int, looked_up: Any) -> None:
        """Update table by table."""
        del looked_up
        rowwise, width = self._case.optimizer != "sgd", self._case.width
        parts = zip(self._rows, self._sums, self._case.ids[number], self._gradient, strict=True)
        for rows, sums, ids, gradient in parts:
            self._module.update(rows, sums, ids, width, gradient, _LR, rowwise)


def contenders(case: Case, threads: int) -> dict[str, Contender]:
    """Make all that can be made here."""
    makers: dict[str, Callable[[], Contender]] = {
        "hybridjob, numba": lambda: OfProduct(case, CompiledServer(threads), CompiledTrainer()),
        "hybridjob, torch": lambda: OfProduct(case, TorchServer(), TorchTrainer()),
        "torch EmbeddingBag, sparse": lambda: OfTorch(case),
        "FBGEMM table-batched": lambda: OfFbgemm(case),
        "C++ extension, one thread": lambda: OfExtension(case),
    }
    made = {}
    for name, make in makers.items():
        try:
            made[name] = make()
        except (ImportError, OSError, RuntimeError) as error:
            print(f"  {name} cannot be measured: {str(error).splitlines()[0]}")
    return made


def once(one: Contender, number: int) -> tuple[float, float]:
    """Give the milliseconds of one lookup and one update."""
    begin = time.perf_counter()
    looked_up = one.lookup(number)
    middle = time.perf_counter()
    one.update(number, looked_up)
    return 1e3 * (middle - begin), 1e3 * (time.perf_counter() - middle)


def measure(case: Case, threads: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Give the median milliseconds of lookup and update: name -> the two."""
    made = contenders(case, threads)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
    for turn in range(rounds + 1):
        for name, one in made.items():
            own = [once(one, number) for number in range(_BATCHES)]
            if turn:  # the first compiles, and fills memory
                times[name] += own
    return {
        name: (statistics.median(a for a, _ in own), statistics.median(b for _, b in own))
        for name, own in times.items()
    }


def main() -> None:
    """Measure all, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shapes", nargs="+", choices=list(_SHAPES), default=list(_SHAPES))
    parser.add_argument("--out", type=Path, default=Path("kernel-benchmark.json"))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results = {}
    for shape in given.shapes:
        for optimizer in ("sgd", "rowwise_adagrad"):
            title = f"{shape}, {optimizer}, {given.threads} thread(s)"
            print(f"{title}\n  {'ms a batch':<28}{'lookup':>9}{'update':>9}{'both':>9}")
            results[title] = measure(Case(shape, optimizer), given.threads, given.rounds)
            for name, (lookup, update) in results[title].items():
                print(
                    f"  {name:<28}{lookup:>9.2f}{update:>9.2f}{lookup + update:>9.2f}", flush=True
                )
    given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
