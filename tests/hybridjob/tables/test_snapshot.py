"""A snapshot gives what was, however much changes while it is read."""

import logging
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hybridjob.config import TableOptimizer
from hybridjob.schema import Table
from hybridjob.tables.shard import Shard

ROWS = 40


def shard_of(optimizer="adam"):
    table = Table(name="t", num_embeddings=ROWS, embedding_dim=3, feature_names=("f",))
    return Shard(table, TableOptimizer(name=optimizer), seed=1, start=0, stop=ROWS)


def train(shard, rows, step):
    ids = torch.tensor(sorted(rows), dtype=torch.int64)
    with shard.lock:
        shard.update([ids], [torch.full((len(ids), 3), float(step))], step)


def copies(shard, rows=slice(None)):
    return {name: tensor[rows].clone() for name, tensor in shard.tensors.items()}


some_rows = st.sets(st.integers(0, ROWS - 1), min_size=1)


@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad", "adam"])
@given(
    before=st.lists(some_rows, min_size=1, max_size=3),
    during=st.lists(some_rows, max_size=9),
    piece=st.integers(1, ROWS),
    delta=st.booleans(),
)
def test_pieces_are_those_of_the_moment(optimizer, before, during, piece, delta):
    shard = shard_of(optimizer)
    for step, rows in enumerate(before, 1):
        train(shard, rows, step)
    touched = sorted(set().union(*before))
    expected = copies(shard, touched if delta else slice(None))
    snapshot = shard.snapshot(delta=delta)
    assert snapshot.num_rows == (len(touched) if delta else ROWS)
    changes = iter(enumerate(during, len(before) + 1))
    for name, tensor in expected.items():
        parts = []
        for start in range(0, snapshot.num_rows, piece):
            if (change := next(changes, None)) is not None:
                train(shard, change[1], change[0])
            parts.append(snapshot.read(name, start, min(start + piece, snapshot.num_rows)))
        assert torch.equal(torch.cat(parts), tensor)
    snapshot.close()


def test_a_whole_snapshot_is_a_new_base_and_a_delta_is_none():
    shard = shard_of()
    train(shard, {1, 5}, 1)
    shard.snapshot(delta=False).close()
    assert shard.num_touched == 0
    train(shard, {5, 7}, 2)
    assert shard.snapshot(delta=True).ids.tolist() == [5, 7]
    assert shard.num_touched == 2


def test_rows_keep_changing_after_the_snapshot_is_closed():
    shard, other = shard_of(), shard_of()
    snapshot = shard.snapshot(delta=False)
    for step, rows in ((1, {2, 3}), (2, {3})):
        train(shard, rows, step)
        train(other, rows, step)
        snapshot.close()
    for name, tensor in shard.tensors.items():
        assert torch.equal(tensor, other.tensors[name])


def test_without_memory_training_waits_until_the_snapshot_is_read(caplog):
    shard = shard_of()
    expected = copies(shard)
    snapshot = shard.snapshot(delta=False, has_room=lambda _: False)
    with caplog.at_level(logging.WARNING):
        training = threading.Thread(target=train, args=(shard, {0, 9}, 1))
        training.start()
        for name, tensor in expected.items():
            assert torch.equal(snapshot.read(name, 0, ROWS), tensor)
        training.join(timeout=0.1)
        assert training.is_alive()
        snapshot.close()
        training.join(timeout=10)
    assert not training.is_alive()
    assert "no memory for a snapshot: training waits" in caplog.text
    assert not torch.equal(shard.rows[9], expected["rows"][9])
