import random
from pathlib import Path

import numpy as np
import pytest
import torch

from hybridjob.data.config import DataConfig
from hybridjob.data.hashing import hash_numbers
from hybridjob.data.reader import open_reader
from hybridjob.data.zipf import sample_zipf
from hybridjob.errors import DataError


def read(config, epoch=0, start=None, **keys):
    defaults = {"split": "train", "seed": 5, "trainer": 0, "num_trainers": 1, "batch_size": 512}
    reader = open_reader(config, folder=Path(), **{**defaults, **keys})
    return list(reader.batches(epoch, start))


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.05, 2.5])
def test_ids_follow_the_distribution_that_was_asked_for(exponent):
    ids = sample_zipf(np.random.default_rng(1), exponent, 50, 200_000)
    expected = np.arange(1.0, 51.0) ** -exponent
    expected *= len(ids) / expected.sum()
    found = np.bincount(ids, minlength=50)
    assert len(found) == 50
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected) + 1)


def test_a_huge_table_needs_no_memory_for_its_distribution():
    ids = sample_zipf(np.random.default_rng(1), 1.05, 1 << 50, 1000)
    assert ids.min() >= 0
    assert ids.max() < 1 << 50
    assert (ids < 100).mean() > 0.1


def test_labels_can_be_learnt_from_the_ids():
    config = DataConfig(
        format="synthetic",
        num_samples=20_000,
        features=[{"name": "a", "cardinality": 20}, {"name": "b", "cardinality": 20}],
    )
    batches = read(config)
    labels = torch.cat([batch.labels for batch in batches])
    ids = torch.cat([batch.features["a"].values for batch in batches])
    rates = torch.stack([labels[ids == i].mean() for i in range(20)])
    assert set(labels.tolist()) == {0.0, 1.0}
    assert rates.max() - rates.min() > 0.4
    noisy = read(config.model_copy(update={"label_noise": 0.5}))
    labels = torch.cat([batch.labels for batch in noisy])
    rates = torch.stack([labels[ids == i].mean() for i in range(20)])
    assert rates.max() - rates.min() < 0.2


def tutorial_batch(generator):
    """Follow the tutorial's get_next_batch, with its random calls in order."""
    num_indices = generator.randint(20, 50)
    indices = [generator.randrange(0, 100) for _ in range(num_indices)]
    offsets = []
    start = 0
    batch_size = 0
    while start < num_indices:
        offsets.append(start)
        start += generator.randint(1, 10)
        batch_size += 1
    target = [generator.randrange(8) for _ in range(batch_size)]
    return indices, offsets, target


def test_the_tutorials_data_is_made_by_its_algorithm():
    batches = read(DataConfig(format="tutorial"), epoch=3, trainer=1, num_trainers=2)
    assert len(batches) == 10
    for number, batch in enumerate(batches):
        seed = hash_numbers(0x7070, 5, 3, 1, number)
        indices, offsets, target = tutorial_batch(random.Random(seed))
        bag = batch.features["indices"]
        assert bag.values.tolist() == indices
        assert bag.offsets.tolist() == [*offsets, len(indices)]
        assert batch.labels.tolist() == target
        assert batch.labels.dtype == torch.int64
        assert batch.dense.shape == (batch.size, 0)


def test_the_tutorials_data_goes_on_from_any_position():
    config = DataConfig(format="tutorial")
    whole = read(config)
    for i, batch in enumerate(whole):
        rest = read(config, start=batch.position)
        assert [b.labels.tolist() for b in rest] == [b.labels.tolist() for b in whole[i + 1 :]]
    assert read(config, trainer=1, num_trainers=2)[0].labels.tolist() != whole[0].labels.tolist()
    assert read(config, split="test") == []
    with pytest.raises(DataError, match="not one of epoch 1"):
        read(config, epoch=1, start=whole[0].position)
