"""No loss, no overlap, exact resume: over text of all line ends, parquet and synthetic data."""

import itertools
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from hybridjob.data.config import DataConfig
from hybridjob.data.reader import open_reader
from hybridjob.errors import DataError

NUM_ROWS = 3000


def columns():
    return {
        "label": "id",
        "label_type": "float",
        "numeric": [{"column": "id", "name": "x"}],
        "categorical": [{"column": "bag", "num_embeddings": 1 << 40, "separator": " "}],
    }


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    lines = [f"{i},{' '.join(str(i * 10 + j) for j in range(i % 4))}" for i in range(NUM_ROWS)]
    half = NUM_ROWS // 2
    (folder / "a.csv").write_bytes(("id,bag\n" + "\n".join(lines[:half])).encode())
    (folder / "b.csv").write_bytes(("id,bag\r\n" + "\r\n".join(lines[half:]) + "\r\n").encode())
    table = pa.table(
        {
            "id": list(range(NUM_ROWS)),
            "bag": [[i * 10 + j for j in range(i % 4)] for i in range(NUM_ROWS)],
        }
    )
    parquet.write_table(table, folder / "c.parquet", row_group_size=170)
    features = [
        {"name": "x", "cardinality": 50, "ids_per_sample": [0, 3], "zipf": 1.1, "weighted": True},
        {"name": "z", "cardinality": 1 << 40, "ids_per_sample": 2},
    ]
    return {
        "csv": {"format": "csv", "path": str(folder / "[ab].csv"), **columns()},
        "parquet": {"format": "parquet", "path": str(folder / "c.parquet"), **columns()},
        "synthetic": {
            "format": "synthetic",
            "num_samples": NUM_ROWS,
            "num_dense": 2,
            "features": features,
        },
    }


def reader_of(config, **keys):
    defaults = {"split": "train", "seed": 3, "trainer": 0, "num_trainers": 1, "batch_size": 64}
    return open_reader(config, folder=Path(tempfile.gettempdir()), **{**defaults, **keys})


def flat(batch):
    """Everything in a batch as plain values."""
    bags = {
        name: (bag.values.tolist(), bag.offsets.tolist(), bag.weights is not None)
        for name, bag in batch.features.items()
    }
    return batch.dense.tolist(), batch.labels.tolist(), bags, batch.position


def samples(config, epoch=0, **keys):
    """One hashable value for each sample of one trainer, in order."""
    found = []
    for batch in reader_of(config, **keys).batches(epoch):
        rows = [batch.dense.tolist(), batch.labels.tolist()]
        for bag in batch.features.values():
            parts = torch.split(bag.values, torch.diff(bag.offsets).tolist())
            rows.append([tuple(part.tolist()) for part in parts])
        found += [str(row) for row in zip(*rows, strict=True)]
    return found


def dealt(config, num_trainers, **keys):
    return [
        samples(config, trainer=trainer, num_trainers=num_trainers, **keys)
        for trainer in range(num_trainers)
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet", "synthetic"])
@settings(max_examples=8, deadline=None)
@given(
    num_trainers=st.integers(1, 5),
    keys=st.fixed_dictionaries({"epoch": st.integers(0, 3), "batch_size": st.integers(1, 700)}),
    own=st.fixed_dictionaries(
        {
            "test_fraction": st.sampled_from([0.0, 0.1, 0.7]),
            "shuffle_rows": st.integers(1, 2000),
        }
    ),
)
def test_every_row_comes_once_whatever_the_trainers(configs, kind, num_trainers, keys, own):
    config = DataConfig(**configs[kind], **own)
    train = list(itertools.chain(*dealt(config, num_trainers, **keys)))
    test = list(itertools.chain(*dealt(config, num_trainers, split="test", **keys)))
    plain = config.model_copy(update={"shuffle": False, "test_fraction": 0.0})
    assert sorted(train + test) == sorted(samples(plain))
    assert sorted(test) == sorted(samples(config, split="test"))
    assert abs(len(test) / NUM_ROWS - own["test_fraction"]) < 0.05


@pytest.mark.parametrize("kind", ["csv", "parquet", "synthetic"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_reading_goes_on_exactly_from_every_position(configs, kind, shuffle):
    config = DataConfig(**configs[kind], shuffle=shuffle, shuffle_rows=400, test_fraction=0.2)
    keys = {"trainer": 1, "num_trainers": 2, "batch_size": 60}
    whole = [flat(batch) for batch in reader_of(config, **keys).batches(2)]
    assert len(whole) > 10
    assert [len(labels) for _, labels, *_ in whole[:-1]] == [60] * (len(whole) - 1)
    reader = reader_of(config, **keys)
    for i, (*_, position) in enumerate(whole):
        assert [flat(batch) for batch in reader.batches(2, position)] == whole[i + 1 :]


@pytest.mark.parametrize("kind", ["csv", "parquet", "synthetic"])
def test_epochs_and_seeds_differ_in_order_and_runs_do_not(configs, kind):
    config = DataConfig(**configs[kind])
    first = samples(config)
    assert samples(config) == first
    for other in (
        samples(config, epoch=1),
        *([] if kind == "synthetic" else [samples(config, seed=4)]),
    ):
        assert other != first
        assert sorted(other) == sorted(first)


def test_rows_are_mixed_over_the_files(configs):
    config = DataConfig(**configs["csv"])
    ids = [batch.labels for batch in reader_of(config, batch_size=300).batches(0)]
    for batch in ids:
        assert abs(float(batch.mean()) - NUM_ROWS / 2) < 200


def test_jagged_bags_stay_with_their_rows(configs):
    for kind in ("csv", "parquet"):
        for batch in reader_of(DataConfig(**configs[kind])).batches(0):
            lengths = torch.diff(batch.features["bag"].offsets)
            assert lengths.tolist() == (batch.labels.long() % 4).tolist()
            assert batch.dense[:, 0].tolist() == batch.labels.tolist()


def test_lists_of_numbers_hash_like_their_text(configs):
    by_text = samples(DataConfig(**configs["csv"], shuffle=False))
    by_list = samples(DataConfig(**configs["parquet"], shuffle=False))
    assert by_text == by_list


def test_more_trainers_than_blocks_leave_some_without_rows(configs):
    config = DataConfig(**configs["parquet"])
    parts = dealt(config, 40)
    assert sum(len(part) for part in parts) == NUM_ROWS
    assert [] in parts


def test_the_number_of_batches_is_estimated_within_a_fifth(configs):
    for kind in configs:
        config = DataConfig(**configs[kind])
        assert abs(reader_of(config, batch_size=10).estimated_batches() - 300) < 60


@pytest.mark.parametrize(
    "position",
    [
        {"epoch": 1, "trainers": 1, "block": 0, "row": 0, "skipped": 0},
        {"epoch": 0, "trainers": 2, "block": 0, "row": 0, "skipped": 0},
        {"step": 1},
    ],
)
def test_a_foreign_position_is_refused(configs, position):
    reader = reader_of(DataConfig(**configs["csv"]))
    with pytest.raises(DataError, match="position"):
        reader.batches(0, position)


def test_tensors_are_writable_contiguous_and_of_the_right_type(configs):
    for batch in reader_of(DataConfig(**configs["synthetic"])).batches(0):
        bag = batch.features["x"]
        tensors = (batch.dense, batch.labels, bag.values, bag.offsets, bag.weights)
        assert [t.dtype for t in tensors] == [torch.float32] * 2 + [torch.int64] * 2 + [
            torch.float32
        ]
        assert all(tensor.is_contiguous() for tensor in tensors)
        assert batch.dense.shape == (batch.size, 2)
