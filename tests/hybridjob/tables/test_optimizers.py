"""The tables' optimizers give what torch's give on sparse gradients."""

import pytest
import torch
from torch.nn import EmbeddingBag

from hybridjob.config import TableOptimizer
from hybridjob.schema import Table
from hybridjob.tables.shard import Shard

ROWS, DIM, STEPS = 40, 5, 12

TORCH_TWINS = {
    "sgd": lambda p, c: torch.optim.SGD(p, lr=c.lr),
    "adagrad": lambda p, c: torch.optim.Adagrad(
        p, lr=c.lr, lr_decay=c.lr_decay, initial_accumulator_value=c.initial_accumulator
    ),
    "adam": lambda p, c: torch.optim.SparseAdam(p, lr=c.lr, betas=c.betas),
}


def make_shard(config, start=0, stop=ROWS):
    table = Table(name="t", num_embeddings=ROWS, embedding_dim=DIM, feature_names=("f",))
    return Shard(table, config, seed=3, start=start, stop=stop)


def draw(generator):
    ids = torch.randint(0, ROWS, (30,), generator=generator)
    target = torch.randn(6, DIM, generator=generator)
    return ids, torch.arange(0, 30, 5), target


def gradient_of(rows, ids, offsets, target):
    """Give unique ids and their summed gradient of a squared loss over pooled bags."""
    unique, places = torch.unique(ids, return_inverse=True)
    leaf = rows[unique].clone().requires_grad_()
    pooled = torch.nn.functional.embedding_bag(places, leaf, offsets, mode="sum")
    (pooled - target).square().mean().backward()
    return unique, leaf.grad


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("sgd", {}),
        ("adagrad", {}),
        ("adagrad", {"lr_decay": 0.1, "initial_accumulator": 0.5}),
        ("adam", {"betas": (0.8, 0.95)}),
    ],
)
def test_an_optimizer_equals_torch_on_sparse_gradients(name, more):
    config = TableOptimizer(name=name, lr=0.1, **more)
    shard = make_shard(config)
    bag = EmbeddingBag(ROWS, DIM, mode="sum", sparse=True)
    bag.weight.data.copy_(shard.rows)
    twin = TORCH_TWINS[name](bag.parameters(), config)
    generator = torch.Generator().manual_seed(0)
    for step in range(1, STEPS + 1):
        ids, offsets, target = draw(generator)
        unique, gradient = gradient_of(shard.rows, ids, offsets, target)
        shard.update([unique], [gradient], step)
        twin.zero_grad()
        (bag(ids, offsets) - target).square().mean().backward()
        twin.step()
    torch.testing.assert_close(shard.rows, bag.weight.data, rtol=0, atol=1e-6)


def test_rowwise_adagrad_follows_its_formula():
    config = TableOptimizer(name="rowwise_adagrad", lr=0.1)
    shard = make_shard(config)
    rows, total = shard.rows.clone(), torch.zeros(ROWS)
    generator = torch.Generator().manual_seed(0)
    for step in range(1, STEPS + 1):
        ids, offsets, target = draw(generator)
        unique, gradient = gradient_of(shard.rows, ids, offsets, target)
        shard.update([unique], [gradient], step)
        for one, g in zip(unique.tolist(), gradient, strict=True):
            total[one] += (g**2).mean()
            rows[one] -= 0.1 * g / (total[one].sqrt() + 1e-10)
    torch.testing.assert_close(shard.rows, rows, rtol=0, atol=1e-6)
    torch.testing.assert_close(shard.optimizer.state["sum"], total, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
def test_gradients_of_several_trainers_are_summed_before_the_step(name):
    config = TableOptimizer(name=name, lr=0.1)
    together, apart = make_shard(config), make_shard(config)
    ids = [torch.tensor([1, 4, 9]), torch.tensor([4, 9, 20])]
    gradients = [torch.randn(3, DIM, generator=torch.Generator().manual_seed(i)) for i in (1, 2)]
    summed = torch.zeros(4, DIM)
    summed[:3] += gradients[0]
    summed[1:] += gradients[1]
    apart.update(ids, gradients, 1)
    together.update([torch.tensor([1, 4, 9, 20])], [summed], 1)
    for one, other in zip(apart.tensors.values(), together.tensors.values(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
def test_untouched_rows_and_their_state_stay_as_they_are(name):
    shard = make_shard(TableOptimizer(name=name, lr=0.1))
    before = {key: tensor.clone() for key, tensor in shard.tensors.items()}
    shard.update([torch.tensor([3, 7])], [torch.ones(2, DIM)], 1)
    untouched = [row for row in range(ROWS) if row not in (3, 7)]
    for key, tensor in shard.tensors.items():
        assert torch.equal(tensor[untouched], before[key][untouched])
        assert not torch.equal(tensor[[3, 7]], before[key][[3, 7]])


def test_no_rows_at_all_is_a_step_too():
    shard = make_shard(TableOptimizer(name="adam", lr=0.1))
    before = shard.rows.clone()
    shard.update([torch.empty(0, dtype=torch.int64)], [torch.empty(0, DIM)], 1)
    assert torch.equal(shard.rows, before)
