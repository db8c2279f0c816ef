"""Values of 16 bits are read exactly, and rounded to the nearest, or by chance without a bias."""

import numpy as np
import pytest
import torch

from hybridjob.tables.data_types import bits_of
from hybridjob.tables.rounding import _to_bfloat16, key_of_step, round_by_chance

pytest.importorskip("numba")

from hybridjob.tables.pooling_kernels import gather
from hybridjob.tables.update_kernels import update_sgd

TYPES = [torch.bfloat16, torch.float16]
EVERY = torch.arange(-(2**15), 2**15).to(torch.int16)
"""All patterns of 16 bits."""
KEY = key_of_step(1, "t", 1)


def converted(values, dtype):
    """Give values in another type, by the compiled kernel."""
    out = torch.empty(len(values), dtype=dtype)
    gather(bits_of(values), 1, np.arange(len(values), dtype=np.int32), bits_of(out))
    return out


def by_chance(values, dtype, key=KEY, first_row=0):
    """Give values that are rounded by chance, by the compiled kernel: (U,) as (U, 1)."""
    count = len(values)
    rows = torch.zeros(count, dtype=dtype)
    update_sgd(
        bits_of(rows), 1, np.arange(count, dtype=np.int32), np.arange(count, dtype=np.int64),
        -values.numpy(), np.uint64(key), first_row, np.float32(1),
    )  # fmt: skip
    return rows


def reference(values, dtype, key=KEY, first_row=0):
    rows = torch.arange(first_row, first_row + len(values))
    return round_by_chance(values[:, None], dtype, key=key, rows=rows)[:, 0]


def assert_same_bits(one, other):
    assert one.dtype == other.dtype
    assert torch.equal(one.isnan(), other.isnan())
    known = ~one.isnan()
    integers = torch.int32 if one.dtype == torch.float32 else torch.int16
    assert torch.equal(one[known].view(integers), other[known].view(integers))


def floats(dtype):
    """Give float32 values of all kinds, many of them beside a number of dtype or between two."""
    numbers = EVERY.view(dtype).float().view(torch.int32)
    steps = [0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(-(2**31), 2**31, (500_000,), generator=generator).to(torch.int32)
    return torch.cat([drawn, *(numbers + step for step in steps)]).view(torch.float32)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_number_is_read_as_torch_reads_it(dtype):
    assert_same_bits(converted(EVERY.view(dtype), torch.float32), EVERY.view(dtype).float())


@pytest.mark.parametrize("dtype", TYPES)
def test_the_nearest_number_is_that_of_torch(dtype):
    assert_same_bits(converted(floats(dtype), dtype), floats(dtype).to(dtype))
    other = EVERY.view(TYPES[dtype == TYPES[0]])
    assert_same_bits(converted(other, dtype), other.to(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_compiled_kernels_round_by_the_same_chance(dtype):
    values = floats(dtype) + 0.0  # 0 - -x knows no -0.0
    assert_same_bits(by_chance(values, dtype), reference(values, dtype))
    # Beyond 2^32 too: rows of a table are counted by 64 bits.
    assert_same_bits(
        by_chance(values[:999], dtype, first_row=2**40),
        reference(values[:999], dtype, first_row=2**40),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_a_number_of_the_type_stays_whatever_the_chance(dtype):
    numbers = EVERY.view(dtype)
    for key in (KEY, 0, 2**64 - 1):
        assert_same_bits(reference(numbers.float(), dtype, key), numbers)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_value_becomes_one_of_its_two_neighbours(dtype):
    numbers = EVERY.view(dtype)
    ascending = numbers[numbers.isfinite()].float().unique()
    values = floats(dtype)
    values = values[values.abs() < torch.finfo(dtype).max]
    found = reference(values, dtype).float()
    below = ascending[torch.searchsorted(ascending, values, right=True) - 1]
    above = ascending[torch.searchsorted(ascending, values)]
    assert ((found == below) | (found == above)).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [1.0, -300.0, 2.0**-20, 2.0**-24])  # float16: subnormal, too
@pytest.mark.parametrize("share", [1 / 256, 0.25, 0.5, 0.9])
def test_a_value_is_right_on_average(dtype, scale, share):
    least = torch.tensor([scale]).to(dtype)
    bits = least.view(torch.int16)
    low, high = least.float().item(), (bits + 1).view(dtype).float().item()
    count = 2**17
    values = torch.full((count,), low + share * (high - low))
    ups = (reference(values, dtype).float() == high).float().mean().item()
    # Five standard deviations; the bits are the same each time.
    assert abs(ups - share) < 5 * (share * (1 - share) / count) ** 0.5


def test_chance_of_bfloat16_is_exactly_the_distance():
    """Over all 2^16 that may be drawn, a value goes up as often as it lies above the lower one."""
    noise = np.arange(2**16, dtype=np.uint32)
    for distance in (0, 1, 77, 2**15, 2**16 - 1):
        bits = np.uint32(0x3F800000 + distance) + np.zeros(2**16, np.uint32)
        assert int((_to_bfloat16(bits, noise) == 0x3F81).sum()) == distance


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_no_ordinary_number_stays_so(dtype):
    infinite, nan = float("inf"), float("nan")
    odd = torch.tensor([infinite, -infinite, nan, -nan, 0.0, -0.0, 3.4e38, -3.4e38])
    negative_nan = torch.tensor([-1, 0x7FFFFFFF], dtype=torch.int32).view(torch.float32)
    assert reference(negative_nan, dtype).isnan().all()
    found = reference(odd, dtype)
    assert found[:2].tolist() == [infinite, -infinite]
    assert found[2:4].isnan().all()
    assert found[4:6].view(torch.int16).tolist() == [0, -(2**15)]
    assert (found[6:].abs() >= torch.finfo(dtype).max).all()
    assert found[6:].sign().tolist() == [1, -1]


def test_chance_differs_by_seed_table_step_row_and_column():
    values = torch.full((64, 32), 1 + 2.0**-8)
    rows = torch.arange(64)

    def drawn(seed=1, table="t", step=1, first=0):
        key = key_of_step(seed, table, step)
        return round_by_chance(values, torch.bfloat16, key=key, rows=rows + first)

    usual = drawn()
    assert torch.equal(usual, drawn())
    for other in (drawn(seed=2), drawn(table="u"), drawn(step=2), drawn(first=64)):
        assert 0.4 < (usual != other).float().mean() < 0.6
    assert len({tuple(row) for row in usual.tolist()}) == 64
    assert len({tuple(column) for column in usual.T.tolist()}) == 32
    assert torch.equal(drawn(first=16)[:48], usual[16:])
