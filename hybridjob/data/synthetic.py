"""Made-up samples of any number, the same for any number of trainers, with labels to learn from.

Each id of each feature has a hidden effect, a hash of it, so that no table of effects is kept. A
sample's score is twice the sum of its ids' effects over the root of their number, plus the dense
columns weighted alike; a binary label is 1 with probability sigmoid(score).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hybridjob.data.hashing import hash_numbers, mix
from hybridjob.data.rows import Bag, Rows, take
from hybridjob.data.source import BlockRows
from hybridjob.data.zipf import sample_zipf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hybridjob.data.columns import SyntheticFeature
    from hybridjob.data.config import DataConfig
    from hybridjob.data.split import Split

_PURPOSE = 0x5A3B
_EFFECTS = 0xEFFE
_LEAST_BLOCK = 32
_MOST_BLOCK = 8192
_BLOCKS_WANTED = 64
_STRENGTH = 2.0
# A uniform effect in [-sqrt(3), sqrt(3)) has variance 1.
_SPREAD = 2 * 3.0**0.5


class SyntheticSource:
    """Blocks of samples, each a function of (configuration, seed, block)."""

    def __init__(self, config: DataConfig, split: Split, seed: int) -> None:
        self._config = config
        self._split = split
        self._seed = seed
        self._total = config.num_samples or 0
        self._size = min(max(self._total // _BLOCKS_WANTED, _LEAST_BLOCK), _MOST_BLOCK)

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        if self._split.name == "test" and self._split.fraction == 0:
            return 0
        return -(-self._total // self._size)

    def estimated_rows(self) -> int:
        """Say about how many samples this split has."""
        share = self._split.fraction if self._split.name == "test" else 1 - self._split.fraction
        return round(self._total * share)

    def read(self, block: int) -> BlockRows:
        """Make this split's samples of a block."""
        count = min(self._size, self._total - block * self._size)
        rows = self._make(block, count)
        if not self._split.takes_all:
            keep = self._split.holds(0, block, np.arange(count, dtype=np.int64))
            rows = take(rows, np.flatnonzero(keep))
        return BlockRows(rows, 0)

    def _make(self, block: int, count: int) -> Rows:
        config = self._config
        generator = np.random.Generator(np.random.PCG64(hash_numbers(_PURPOSE, self._seed, block)))
        dense = generator.standard_normal((count, config.num_dense), dtype=np.float32)
        bags = {feature.name: _bag(generator, feature, count) for feature in config.features}
        score = self._score(dense, bags)
        if config.label_type == "float":
            return Rows(dense, score.astype(np.float32), bags)
        ones = generator.random(count) < 1 / (1 + np.exp(-score))
        flipped = generator.random(count) < config.label_noise
        return Rows(dense, (ones ^ flipped).astype(np.float32), bags)

    def _score(self, dense: NDArray[np.float32], bags: dict[str, Bag]) -> NDArray[np.float64]:
        count = len(dense)
        total = np.zeros(count, dtype=np.float64)
        parts = np.full(count, float(dense.shape[1]))
        if dense.shape[1]:
            columns = np.arange(dense.shape[1], dtype=np.uint64)
            total += dense @ self._effects(columns, len(bags))
        for number, bag in enumerate(bags.values()):
            effects = self._effects(bag.values.view(np.uint64), number)
            if bag.weights is not None:
                effects = effects * bag.weights
            total += _sum_bags(effects, bag, count)
            parts += bag.width if bag.offsets is None else np.diff(bag.offsets)
        score: NDArray[np.float64] = _STRENGTH * total / np.sqrt(np.maximum(parts, 1))
        return score

    def _effects(self, ids: NDArray[np.uint64], number: int) -> NDArray[np.float64]:
        salt = np.uint64(hash_numbers(_EFFECTS, self._seed, number))
        hashes: NDArray[np.float64] = mix(ids ^ salt).astype(np.float64)
        return (hashes * 2.0**-64 - 0.5) * _SPREAD


def _bag(generator: np.random.Generator, feature: SyntheticFeature, count: int) -> Bag:
    least, most = feature.bag_sizes
    offsets: NDArray[np.int64] | None = None
    total = count * least
    if least != most:
        lengths = generator.integers(least, most + 1, size=count, dtype=np.int64)
        offsets = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        total = int(offsets[-1])
    ids = sample_zipf(generator, feature.zipf, feature.cardinality, total)
    weights: Any = None
    if feature.weighted:
        weights = generator.random(total, dtype=np.float32) + np.float32(0.5)
    return Bag(ids, offsets, weights, 1 if offsets is not None else least)


def _sum_bags(effects: NDArray[Any], bag: Bag, count: int) -> NDArray[np.float64]:
    if bag.offsets is None:
        sums: NDArray[np.float64] = effects.reshape(count, bag.width).sum(axis=1)
        return sums
    before = np.concatenate([[0.0], np.cumsum(effects)])
    return np.asarray(before[bag.offsets[1:]] - before[bag.offsets[:-1]], dtype=np.float64)
