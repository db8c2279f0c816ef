"""Tables of 16 bits, and values that travel in 16 bits: as float32 within what 16 bits hold."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hybridjob.config import TableOptimizer
from hybridjob.data.batch import Batch, Jagged
from hybridjob.schema import Table
from hybridjob.tables.block import Block
from hybridjob.tables.data_types import torch_type
from hybridjob.tables.initial import initial_rows
from hybridjob.tables.plan import Planner
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds
from hybridjob.tables.torch_server import TorchServer
from hybridjob.tables.torch_trainer import TorchTrainer
from hybridjob.tables.wire import Answer, check_answer, packed, unpacked

pytest.importorskip("numba")

from hybridjob.tables.compiled_server import CompiledServer
from hybridjob.tables.compiled_trainer import CompiledTrainer

CPU = torch.device("cpu")
HALVES = ["bfloat16", "float16"]
OPTIMIZERS = ["sgd", "adagrad", "rowwise_adagrad", "adam"]
ERROR = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Of a value rounded to nearest, as a share of it."""
TABLES = [
    Table(name="sum", num_embeddings=40, embedding_dim=17, feature_names=("bag", "weighted")),
    Table(name="mean", num_embeddings=30, embedding_dim=8, feature_names=("even",), pooling="mean"),
    Table(name="max", num_embeddings=20, embedding_dim=3, feature_names=("top",), pooling="max"),
]


def make_batch(seed, size=9):
    generator = torch.Generator().manual_seed(seed)

    def bag(rows, sizes, *, weighted=False):
        offsets = torch.tensor([0, *sizes]).cumsum(0)
        values = torch.randint(0, rows, (int(offsets[-1]),), generator=generator)
        weights = torch.rand(len(values), generator=generator) if weighted else None
        return Jagged(values, offsets, weights)

    jagged = torch.randint(0, 5, (size,), generator=generator).tolist()
    features = {
        "bag": bag(40, jagged),
        "weighted": bag(40, jagged[::-1], weighted=True),
        "even": bag(30, [3] * size),
        "top": bag(20, jagged),
    }
    return Batch(torch.empty(size, 0), features, torch.zeros(size))


@dataclasses.dataclass
class Tables:
    """Servers and one trainer in one process, without a transport."""

    servers: int = 2
    optimizer: str = "adagrad"
    table_type: str = "float32"
    wire_type: str = "float32"
    pool_on: str = "auto"
    compiled: bool = True
    threads: int = 1

    def __post_init__(self):
        self.kernels = CompiledTrainer() if self.compiled else TorchTrainer()
        self.server = CompiledServer(self.threads) if self.compiled else TorchServer()
        self.wire = torch_type(self.wire_type)
        self.planner = Planner(
            TABLES, self.servers, self.kernels, self.pool_on, value_type=self.wire
        )
        config = TableOptimizer(name=self.optimizer, lr=0.1)
        self.shards = [
            [
                Shard(
                    dataclasses.replace(table, data_type=self.table_type), config, seed=5,
                    start=bounds[server], stop=bounds[server + 1],
                )
                for table in TABLES
                for bounds in (row_bounds(table.num_embeddings, self.servers),)
            ]
            for server in range(self.servers)
        ]  # fmt: skip

    def look_up(self, batch):
        plan = self.planner.plan(batch)
        partial = self.servers > 1 and self.compiled
        answers = []
        for number, question in enumerate(plan.questions):
            found = self.server.answer(self.shards[number], question, partial=self.servers > 1)
            answers.append(Answer(*found, 0, {}))
            check_answer(answers[-1], question, number, torch.float64 if partial else self.wire)
        return Block(plan, answers, self.kernels, CPU)

    def train(self, steps):
        for step in range(1, steps + 1):
            block = self.look_up(make_batch(step))
            vectors = block.vectors().values()
            sum((v - 0.3).square().sum() * (i + 1) for i, v in enumerate(vectors)).backward()
            gradients, power = packed(block.gradients(0.5), self.wire)
            for number, gradient in enumerate(gradients):
                pushed = [(block.plan.questions[number], unpacked(gradient, power))]
                self.server.apply(self.shards[number], pushed, step)
        return self

    def tensors(self):
        """Give table/tensor -> all rows."""
        return {
            f"{table.name}/{name}": torch.cat(
                [shards[number].tensors[name] for shards in self.shards]
            )
            for number, table in enumerate(TABLES)
            for name in self.shards[0][number].tensors
        }


def assert_equal(one, other):
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor, other.tensors()[name]), name


def test_rows_are_kept_in_the_type_of_their_table_and_state_in_float32():
    tables = Tables(table_type="bfloat16", optimizer="adam").tensors()
    assert {one.dtype for name, one in tables.items() if "rows" in name} == {torch.bfloat16}
    assert {one.dtype for name, one in tables.items() if "rows" not in name} == {torch.float32}
    (shard,) = Tables(servers=1, table_type="float16", optimizer="rowwise_adagrad").shards
    assert shard[0].num_bytes == 40 * 17 * 2 + 40 * 4


@pytest.mark.parametrize("data_type", HALVES)
def test_rows_start_as_those_of_float32_rounded_to_nearest(data_type):
    table = dataclasses.replace(TABLES[0], data_type=data_type)
    found = initial_rows(table, seed=1, start=3, stop=20)
    expected = initial_rows(TABLES[0], seed=1, start=3, stop=20)
    assert torch.equal(found, expected.to(torch_type(data_type)))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("data_type", HALVES)
def test_training_stays_near_that_of_float32(data_type, optimizer, compiled):
    exact = Tables(optimizer=optimizer, compiled=compiled).train(8).tensors()
    for more in ({"table_type": data_type}, {"table_type": data_type, "wire_type": data_type}):
        found = Tables(optimizer=optimizer, compiled=compiled, **more).train(8).tensors()
        for table in TABLES:
            rows, expected = found[f"{table.name}/rows"].float(), exact[f"{table.name}/rows"]
            # Each step is off by a rounding or two, and the next one's gradient by what came of it.
            assert (rows - expected).abs().max() < 60 * ERROR[data_type]
            assert (rows - expected).abs().mean() < 6 * ERROR[data_type]


@pytest.mark.parametrize("data_type", HALVES)
def test_compiled_kernels_and_torch_round_by_the_same_chance(data_type):
    """SGD from the same float32 values: the first step is the same to the bit."""
    more = {"optimizer": "sgd", "table_type": data_type, "servers": 3, "pool_on": "trainers"}
    one, other = Tables(**more).train(1), Tables(compiled=False, **more).train(1)
    for name, tensor in one.tensors().items():
        # Sums of several gradients may differ in the last bit of float32: seldom does it show.
        different = (tensor != other.tensors()[name]).float().mean()
        assert different < 0.02, name
    for name, tensor in one.train(5).tensors().items():
        expected = other.train(5).tensors()[name].float()
        torch.testing.assert_close(tensor.float(), expected, rtol=0, atol=60 * ERROR[data_type])
        break


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("data_type", HALVES)
def test_servers_threads_and_the_place_of_pooling_change_no_bit_of_a_table(data_type, optimizer):
    more = {"optimizer": optimizer, "table_type": data_type}
    expected = Tables(servers=1, pool_on="trainers", **more).train(5)
    for servers, threads, pool_on in ((1, 3, "servers"), (2, 1, "auto"), (45, 2, "servers")):
        found = Tables(servers=servers, threads=threads, pool_on=pool_on, **more).train(5)
        assert_equal(found, expected)


@pytest.mark.parametrize("pool_on", ["servers", "trainers"])
@pytest.mark.parametrize("table_type", ["float32", "bfloat16"])
@pytest.mark.parametrize("wire_type", HALVES)
def test_where_the_place_of_pooling_is_set_the_number_of_servers_changes_no_bit_of_what_travels(
    wire_type, table_type, pool_on
):
    more = {"table_type": table_type, "wire_type": wire_type, "pool_on": pool_on}
    expected = Tables(servers=1, **more).train(5)
    for servers in (2, 7):
        assert_equal(Tables(servers=servers, **more).train(5), expected)


@pytest.mark.parametrize("wire_type", HALVES)
def test_the_choice_of_a_batch_does_not_depend_on_those_before(wire_type):
    """A restart forgets them, and must not change a bit."""
    batches = [make_batch(seed, size=1 + 7 * seed) for seed in range(6)]
    planner = Tables(wire_type=wire_type, servers=1).planner
    for batch in batches:
        fresh = Tables(wire_type=wire_type, servers=1).planner
        assert planner.plan(batch).pooled == fresh.plan(batch).pooled


def test_bytes_are_counted_in_the_type_that_travels():
    table = Table(name="t", num_embeddings=999, embedding_dim=16, feature_names=("f",))

    def servers_pool(num_distinct, servers, wire):
        bag = Jagged(torch.arange(400) % num_distinct, torch.arange(0, 401, 4))
        batch = Batch(torch.empty(100, 0), {"f": bag}, torch.zeros(100))
        planner = Planner([table], servers, CompiledTrainer(), "auto", value_type=wire)
        return bool(planner.plan(batch).pooled)

    def least(servers, wire):
        """Give the least number of distinct rows with which 100 vectors are fewer bytes."""
        return next(one for one in range(1, 401) if servers_pool(one, servers, wire))

    # 100 vectors there and back and 400 ids, against twice the rows there and back with their ids.
    assert least(1, torch.float32) == math.ceil((100 * 128 + 1600) / (2 * (128 + 4)))
    assert least(1, torch.bfloat16) == math.ceil((100 * 64 + 1600) / (2 * (64 + 4)))
    # Each of two servers answers with sums of 8 bytes.
    assert least(2, torch.float32) == math.ceil((2 * 100 * 16 * (8 + 4) + 1600) / (2 * 132))
    assert least(2, torch.float16) == math.ceil((2 * 100 * 16 * (8 + 2) + 1600) / (2 * 68))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("wire_type", HALVES)
def test_vectors_that_travel_are_rounded_to_nearest(wire_type, compiled):
    exact = Tables(pool_on="servers").look_up(make_batch(3)).vectors()
    for table_type in ("float32", wire_type):
        tables = Tables(
            table_type=table_type, wire_type=wire_type, pool_on="servers", compiled=compiled
        )
        for name, vectors in tables.look_up(make_batch(3)).vectors().items():
            torch.testing.assert_close(
                vectors, exact[name], rtol=ERROR[wire_type], atol=5 * ERROR[wire_type]
            )
            if compiled and name != "top":
                assert torch.equal(vectors, vectors.to(torch_type(wire_type)).float())


def test_what_travels_as_float32_is_not_touched():
    gradients = [torch.randn(5), torch.empty(0)]
    found, power = packed(gradients, torch.float32)
    assert power == 1.0
    assert all(one is other for one, other in zip(found, gradients, strict=True))
    assert unpacked(gradients[0], 1.0) is gradients[0]


@given(
    exponents=st.lists(st.integers(-120, 126), min_size=1, max_size=9),
    cut=st.integers(0, 9),
)
def test_no_gradient_overflows_in_float16_and_the_large_ones_keep_all_their_bits(exponents, cut):
    exact = torch.tensor([(-1) ** one * 1.7 * 2.0**one for one in exponents])
    parts, power = packed([exact[:cut], exact[cut:]], torch.float16)
    assert all(one.isfinite().all() for one in parts)
    found = torch.cat([unpacked(one, power) for one in parts])
    # What is smaller by more than 2^14 loses bits; the step there is 2^-38 of the largest.
    least = max(2.0 ** (max(exponents) - 38), 2.0**-120)
    torch.testing.assert_close(found, exact, rtol=2.0**-11, atol=least)
    assert packed([exact], torch.float16)[1] == power  # however many servers there are


@pytest.mark.parametrize("odd", [float("inf"), float("nan")])
@pytest.mark.parametrize("wire_type", HALVES)
def test_a_gradient_that_is_no_number_arrives_as_none(wire_type, odd):
    (sent,), power = packed([torch.tensor([1.0, odd])], torch_type(wire_type))
    found = unpacked(sent, power)
    assert found[0] == 1.0
    assert not found[1].isfinite()


def test_small_changes_are_not_lost():
    """2^12 steps of 2^-12 each: rounded to nearest, bfloat16 would stand still at 1."""
    table = Table(
        name="t", num_embeddings=512, embedding_dim=4, feature_names=("f",), data_type="bfloat16",
        initial="zeros",
    )  # fmt: skip
    shard = Shard(table, TableOptimizer(name="sgd", lr=1.0), seed=0, start=0, stop=512)
    shard.rows.fill_(1.0)
    ids, gradient = torch.arange(512), torch.full((512, 4), -(2.0**-12))
    for step in range(1, 2**10 + 1):
        shard.update([ids], [gradient], step)
    mean = shard.rows.float().mean().item()
    assert mean == pytest.approx(1.25, abs=0.005)
    assert (torch.tensor(1.0) + 2.0**-12).to(torch.bfloat16) == 1.0
