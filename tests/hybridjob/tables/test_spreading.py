"""Ids become rows one to one, by both kernels alike, and frequent ids lie on all servers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hybridjob.errors import TableError
from hybridjob.tables.spreading import spread_of
from hybridjob.tables.torch_trainer import TorchTrainer

pytest.importorskip("numba")

from hybridjob.tables.compiled_trainer import CompiledTrainer

LARGEST = 2**41
KERNELS = (TorchTrainer(), CompiledTrainer())


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4, 6, 97, 1000, 30_030, 65_536, 100_003])
def test_every_row_has_one_id(num_rows):
    for one in KERNELS:
        rows = one.rows_of(torch.arange(num_rows), spread_of("t", num_rows))
        assert torch.equal(rows.sort().values, torch.arange(num_rows))


@given(num_rows=st.integers(1, LARGEST), seed=st.integers(0, 2**32 - 1))
def test_rows_are_exact_for_tables_of_any_size(num_rows, seed):
    spread = spread_of("t", num_rows)
    drawn = np.random.default_rng(seed).integers(0, num_rows, 20).tolist()
    ids = [0, num_rows - 1, *drawn]
    expected = [(one * spread.multiplier + spread.first) % num_rows for one in ids]
    for one in KERNELS:
        assert one.rows_of(torch.tensor(ids), spread).tolist() == expected


def test_rows_stay_what_they_were():
    # Trained tables depend on them.
    assert spread_of("t", 1000).rows_of(np.arange(4)).tolist() == [626, 245, 864, 483]
    assert spread_of("C1", LARGEST).rows_of(np.array([LARGEST - 1])).tolist() == [225531441406]


def test_a_table_too_large_to_be_spread_says_what_to_set():
    with pytest.raises(TableError, match=r"table 't' has 2199023255553 rows.*sharding = 'range'"):
        spread_of("t", LARGEST + 1)


@pytest.mark.parametrize("num_servers", range(2, 9))
def test_frequent_ids_with_small_numbers_lie_on_all_servers(num_servers):
    num_rows, tables = 100_003, [f"C{number}" for number in range(1, 27)]
    frequency = (np.arange(num_rows) + 1.0) ** -1.05  # Zipf's law
    frequency /= frequency.sum()
    in_a_batch = 1 - (1 - frequency) ** 4096
    of_all, of_distinct = np.zeros(num_servers), np.zeros(num_servers)
    for table in tables:
        rows = spread_of(table, num_rows).rows_of(np.arange(num_rows))
        servers = ((rows + 1) * num_servers - 1) // num_rows
        of_all += np.bincount(servers, frequency)
        distinct = np.bincount(servers, in_a_batch)
        of_distinct += distinct
        assert distinct.max() < 1.02 * distinct.mean()
    assert of_distinct.max() < 1.01 * of_distinct.mean()
    # Of ids asked with their repetitions, id 0 alone is a tenth: no sharding can cut it.
    assert of_all.max() < 1.25 * of_all.mean()
