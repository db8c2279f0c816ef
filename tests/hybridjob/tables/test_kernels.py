"""Compiled kernels give what plain torch gives, and the same bits however the work is cut."""

import numpy as np
import pytest
import torch

from hybridjob.config import TableOptimizer
from hybridjob.data.batch import Batch, Jagged
from hybridjob.errors import ModelError, TableError
from hybridjob.schema import Table
from hybridjob.tables.block import Block
from hybridjob.tables.plan import Planner
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds
from hybridjob.tables.spreading import spread_of
from hybridjob.tables.torch_server import TorchServer
from hybridjob.tables.torch_trainer import TorchTrainer
from hybridjob.tables.wire import Answer

pytest.importorskip("numba")

from hybridjob.tables.compiled_server import CompiledServer
from hybridjob.tables.compiled_trainer import CompiledTrainer

CPU = torch.device("cpu")
OPTIMIZERS = ["sgd", "adagrad", "rowwise_adagrad", "adam"]
TABLES = [
    Table(name="one", num_embeddings=50, embedding_dim=5, feature_names=("single",)),
    Table(name="two", num_embeddings=40, embedding_dim=17, feature_names=("bag", "weighted")),
    Table(name="mean", num_embeddings=30, embedding_dim=8, feature_names=("even",), pooling="mean"),
    Table(name="max", num_embeddings=20, embedding_dim=3, feature_names=("top",), pooling="max"),
]


def bag(generator, rows, sizes, *, weighted=False):
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.tensor(sizes).cumsum(0)])
    values = torch.randint(0, rows, (int(offsets[-1]),), generator=generator)
    weights = torch.rand(len(values), generator=generator) if weighted else None
    return Jagged(values, offsets, weights)


def make_batch(seed, size=9):
    generator = torch.Generator().manual_seed(seed)
    jagged = torch.randint(0, 5, (size,), generator=generator).tolist()
    features = {
        "single": bag(generator, 50, [1] * size),
        "bag": bag(generator, 40, jagged),
        "weighted": bag(generator, 40, jagged[::-1], weighted=True),
        "even": bag(generator, 30, [3] * size),
        "top": bag(generator, 20, jagged),
    }
    return Batch(torch.empty(size, 0), features, torch.zeros(size))


class Tables:
    """Servers and trainers in one process, without a transport."""

    def __init__(
        self, servers, optimizer, *, threads=1, compiled=True, pool_on="auto", sharding="range"
    ):
        self.kernels = CompiledTrainer() if compiled else TorchTrainer()
        self.servers = [
            CompiledServer(threads) if compiled else TorchServer() for _ in range(servers)
        ]
        self.planners = [
            Planner(TABLES, servers, self.kernels, pool_on, sharding=sharding) for _ in (0, 1)
        ]
        config = TableOptimizer(name=optimizer, lr=0.1)
        self.shards = [
            [
                Shard(table, config, seed=5, start=bounds[server], stop=bounds[server + 1])
                for table in TABLES
                for bounds in (row_bounds(table.num_embeddings, servers),)
            ]
            for server in range(servers)
        ]
        self.steps = 0

    def look_up(self, trainer, batch):
        plan = self.planners[trainer].plan(batch)
        partial = len(self.servers) > 1
        answers = [
            Answer(*server.answer(shards, question, partial=partial), 0, {})
            for server, shards, question in zip(
                self.servers, self.shards, plan.questions, strict=True
            )
        ]
        return Block(plan, answers, self.kernels, CPU)

    def train(self, batches):
        blocks = [self.look_up(trainer, batch) for trainer, batch in enumerate(batches)]
        pushes = []
        for block in blocks:
            loss = sum((v - 0.3).square().sum() * (i + 1) for i, v in
                       enumerate(block.vectors().values()))  # fmt: skip
            loss.backward()
            pushes.append(block.gradients(0.5))
        self.steps += 1
        for number, (server, shards) in enumerate(zip(self.servers, self.shards, strict=True)):
            own = [(b.plan.questions[number], p[number]) for b, p in
                   zip(blocks, pushes, strict=True)]  # fmt: skip
            server.apply(shards, own, self.steps)
        return blocks

    def tensors(self):
        """Give table/tensor -> all rows."""
        return {
            f"{table.name}/{name}": torch.cat(
                [shards[number].tensors[name] for shards in self.shards]
            )
            for number, table in enumerate(TABLES)
            for name in self.shards[0][number].tensors
        }


def after(steps, *args, **more):
    tables = Tables(*args, **more)
    for step in range(steps):
        tables.train([make_batch(2 * step), make_batch(2 * step + 1)])
    return tables


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_compiled_kernels_train_as_plain_torch_does(optimizer):
    ours = after(6, 2, optimizer)
    reference = after(6, 2, optimizer, compiled=False)
    for name, tensor in ours.tensors().items():
        torch.testing.assert_close(tensor, reference.tensors()[name], rtol=1e-5, atol=1e-6)
    for one, other in zip(ours.shards, reference.shards, strict=True):
        for shard, twin in zip(one, other, strict=True):
            assert shard.num_touched == twin.num_touched
            changed, expected = (one.snapshot(delta=True).ids for one in (shard, twin))
            assert torch.equal(changed, expected)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_snapshot_is_kept_from_what_comes_after(compiled):
    tables = after(2, 2, "adam", compiled=compiled)
    expected = {name: tensor.clone() for name, tensor in tables.tensors().items()}
    held = [[shard.snapshot(delta=False) for shard in one] for one in tables.shards]
    for step in (2, 3):
        tables.train([make_batch(2 * step), make_batch(2 * step + 1)])
    for number, table in enumerate(TABLES):
        for name in tables.shards[0][number].tensors:
            parts = [one[number].read(name, 0, one[number].num_rows) for one in held]
            assert torch.equal(torch.cat(parts), expected[f"{table.name}/{name}"])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_servers_threads_and_the_place_of_pooling_change_no_bit(optimizer):
    expected = after(6, 1, optimizer, pool_on="trainers").tensors()
    for servers, threads, pool_on in (
        (1, 1, "servers"), (1, 3, "auto"), (2, 2, "servers"), (3, 1, "trainers"), (5, 2, "auto"),
        (45, 1, "servers"),
    ):  # fmt: skip
        found = after(6, servers, optimizer, threads=threads, pool_on=pool_on).tensors()
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), (servers, threads, pool_on, name)


def test_with_ids_spread_by_hash_neither_servers_nor_the_place_of_pooling_change_a_bit():
    expected = after(4, 1, "adam", pool_on="trainers", sharding="hash").tensors()
    for servers, pool_on in ((1, "servers"), (2, "servers"), (3, "trainers"), (45, "auto")):
        found = after(4, servers, "adam", pool_on=pool_on, sharding="hash").tensors()
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), (servers, pool_on, name)
    plain = after(4, 2, "adam", compiled=False, sharding="hash").tensors()
    for name, tensor in expected.items():
        torch.testing.assert_close(plain[name], tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled", [True, False])
def test_an_id_has_the_row_that_it_is_spread_to(compiled):
    tables, batch = Tables(3, "sgd", compiled=compiled, sharding="hash"), make_batch(2)
    given = batch.features["single"].values.clone()
    block = tables.look_up(0, batch)
    rows = tables.tensors()["one/rows"][spread_of("one", 50).rows_of(given.numpy())]
    assert torch.equal(block.vectors()["single"], rows)
    assert torch.equal(batch.features["single"].values, given)
    assert block.plan.batch is batch


@pytest.mark.parametrize("pool_on", ["servers", "trainers"])
def test_vectors_are_those_of_embedding_bag(pool_on):
    tables = Tables(2, "sgd", pool_on=pool_on)
    batch = make_batch(3)
    vectors = tables.look_up(0, batch).vectors()
    for table in TABLES:
        rows = tables.tensors()[f"{table.name}/rows"]
        for name in table.feature_names:
            bag = batch.features[name]
            expected = torch.nn.functional.embedding_bag(
                bag.values, rows, bag.offsets, mode=table.pooling, include_last_offset=True,
                per_sample_weights=bag.weights,
            )  # fmt: skip
            torch.testing.assert_close(vectors[name], expected)
            assert vectors[name].is_contiguous()


def test_a_model_may_change_its_vectors_in_place():
    block = Tables(1, "sgd").look_up(0, make_batch(1))
    vectors = block.vectors()
    sum(one.mul_(2).sum() for one in vectors.values()).backward()
    assert torch.equal(block.leaf.grad, torch.full_like(block.leaf, 2))


def test_a_batch_without_samples_changes_nothing():
    tables = Tables(2, "adam")
    before = {name: tensor.clone() for name, tensor in tables.tensors().items()}
    empty = make_batch(0, size=0)
    blocks = tables.train([empty, empty])
    assert blocks[0].vectors()["single"].shape == (0, 5)
    for name, tensor in tables.tensors().items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("sharding", ["range", "hash"])
@pytest.mark.parametrize("kernels", [CompiledTrainer(), TorchTrainer()])
def test_an_id_out_of_range_is_named(kernels, sharding):
    batch = make_batch(0)
    batch.features["single"].values[4] = 50
    with pytest.raises(TableError, match=r"id 50 is out of range of table 'one'.*0 to 49"):
        Planner(TABLES, 2, kernels, "auto", sharding=sharding).plan(batch)


def test_a_server_refuses_ids_that_lead_out_of_its_memory():
    tables = Tables(1, "sgd")
    question = tables.planners[0].plan(make_batch(0)).questions[0]
    question.ids[0] = 50
    with pytest.raises(TableError, match=r"id 50 is out of range of table 'one'"):
        tables.servers[0].answer(tables.shards[0], question, partial=False)


def test_weights_need_sums():
    batch = make_batch(0)
    bag = batch.features["even"]
    batch.features["even"] = Jagged(bag.values, bag.offsets, torch.ones(len(bag.values)))
    with pytest.raises(ModelError, match=r"need pooling 'sum', not 'mean': feature even"):
        Planner(TABLES, 1, CompiledTrainer(), "auto").plan(batch)


def test_what_moves_fewer_bytes_is_chosen():
    table = Table(name="t", num_embeddings=10_000, embedding_dim=16, feature_names=("f",))
    planner = Planner([table], 1, CompiledTrainer(), "auto")
    offsets = torch.arange(0, 2001, 20)
    many = Jagged(torch.arange(2000), offsets)  # 2000 distinct rows for 100 vectors
    few = Jagged(torch.zeros(2000, dtype=torch.int64), offsets)  # 1 row for 100 vectors

    def pooled_by_servers(bag):
        plan = Planner([table], 1, CompiledTrainer(), "auto").plan(
            Batch(torch.empty(100, 0), {"f": bag}, torch.zeros(100))
        )
        return len(plan.pooled) == 1

    assert pooled_by_servers(many)
    assert not pooled_by_servers(few)
    assert planner.plan(make_single(few)).questions[0].ids.dtype == torch.int32


def make_single(bag):
    return Batch(torch.empty(100, 0), {"f": bag}, torch.zeros(100))


def test_sums_do_not_depend_on_their_order():
    # 2^-13 + 1 - 1 and the like: float32 sums in another order differ.
    generator = np.random.default_rng(0)
    values = (generator.standard_normal(4000) * 10.0 ** generator.integers(-6, 3, 4000)).astype(
        np.float32
    )
    table = Table(name="t", num_embeddings=4000, embedding_dim=1, feature_names=("f",))
    shard = Shard(table, TableOptimizer(), seed=0, start=0, stop=4000)
    shard.rows.copy_(torch.from_numpy(values)[:, None])
    sums = set()
    for seed in range(8):
        ids = torch.randperm(4000, generator=torch.Generator().manual_seed(seed))
        bag = Jagged(ids, torch.tensor([0, 4000]))
        batch = Batch(torch.empty(1, 0), {"f": bag}, torch.zeros(1))
        question = Planner([table], 1, CompiledTrainer(), "servers").plan(batch).questions[0]
        found, _ = CompiledServer(1).answer([shard], question, partial=True)
        sums.add(float(found))
    assert len(sums) == 1
