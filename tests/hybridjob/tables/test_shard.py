"""Rows, their cuts over servers, and the digest that the cuts do not change."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hybridjob.config import TableOptimizer
from hybridjob.errors import TableError
from hybridjob.schema import Table
from hybridjob.tables.digest import add_sums, shard_sums, state_digest
from hybridjob.tables.initial import initial_rows
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds, split_sorted


def table_of(rows, dim=3, **more):
    return Table(name="t", num_embeddings=rows, embedding_dim=dim, feature_names=("f",), **more)


def shards_of(table, num_servers, optimizer="adagrad"):
    bounds = row_bounds(table.num_embeddings, num_servers)
    config = TableOptimizer(name=optimizer)
    return [
        Shard(table, config, seed=1, start=start, stop=stop)
        for start, stop in itertools.pairwise(bounds)
    ]


@given(rows=st.integers(1, 100), servers=st.integers(1, 12))
def test_bounds_cover_every_row_once_and_evenly(rows, servers):
    bounds = row_bounds(rows, servers)
    sizes = [stop - start for start, stop in itertools.pairwise(bounds)]
    assert bounds[0] == 0
    assert bounds[-1] == rows
    assert max(sizes) - min(sizes) <= 1


@given(ids=st.sets(st.integers(0, 49), max_size=30), servers=st.integers(1, 7))
def test_every_id_goes_to_the_server_that_holds_it(ids, servers):
    ascending = torch.tensor(sorted(ids), dtype=torch.int64)
    bounds = row_bounds(50, servers)
    parts = [ascending[part].tolist() for part in split_sorted(ascending, bounds)]
    assert [one for part in parts for one in part] == sorted(ids)
    for server, part in enumerate(parts):
        assert all(bounds[server] <= one < bounds[server + 1] for one in part)


@pytest.mark.parametrize("initial", ["normal", "uniform", "zeros"])
def test_rows_start_the_same_however_they_are_cut(initial):
    table = table_of(40_000, initial=initial)
    whole = initial_rows(table, seed=5, start=0, stop=40_000)
    cuts = [0, 7, 16_384, 16_385, 33_000, 40_000]
    parts = [
        initial_rows(table, seed=5, start=start, stop=stop)
        for start, stop in itertools.pairwise(cuts)
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_seed_and_name_decide_how_rows_start():
    one = initial_rows(table_of(100), seed=1, start=0, stop=100)
    assert torch.equal(one, initial_rows(table_of(100), seed=1, start=0, stop=100))
    assert not torch.equal(one, initial_rows(table_of(100), seed=2, start=0, stop=100))
    other = Table(name="u", num_embeddings=100, embedding_dim=3, feature_names=("f",))
    assert not torch.equal(one, initial_rows(other, seed=1, start=0, stop=100))
    assert abs(float(one.std()) - 1.0) < 0.1


def test_an_id_out_of_range_is_named_by_its_global_number():
    shard = shards_of(table_of(10), 2)[1]
    with pytest.raises(TableError, match=r"id 10 is out of range of table 't'.*rows 5 to 9"):
        shard.lookup(torch.tensor([0, 5]))
    with pytest.raises(TableError, match=r"id 4 is out of range"):
        shard.update([torch.tensor([-1])], [torch.ones(1, 3)], 1)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
def test_the_digest_does_not_depend_on_the_number_of_servers(optimizer):
    table = table_of(101)
    digests = set()
    for servers in (1, 2, 3, 7):
        shards = shards_of(table, servers, optimizer)
        digests.add(str(sorted(add_sums(shard_sums(one) for one in shards).items())))
    assert len(digests) == 1


def test_one_changed_bit_anywhere_changes_the_digest():
    table = table_of(50)
    (shard,) = shards_of(table, 1)
    before = shard_sums(shard)
    for name, row in (("rows", 0), ("rows", 49), ("sum", 17)):
        tensor = shard.tensors[name]
        kept = tensor.clone()
        tensor.view(torch.int32)[row, 1] ^= 1
        assert shard_sums(shard) != before
        tensor.copy_(kept)
    assert shard_sums(shard) == before


def test_two_rows_that_change_places_change_the_digest():
    (shard,) = shards_of(table_of(50), 1)
    before = shard_sums(shard)
    shard.rows[[3, 4]] = shard.rows[[4, 3]]
    assert shard_sums(shard) != before


def test_step_and_dense_layers_are_part_of_the_state_digest():
    sums = {"t/rows": (1, 2)}
    one = state_digest(sums, "dense", 5)
    assert one != state_digest(sums, "dense", 6)
    assert one != state_digest(sums, "other", 5)
