"""N trainers and P servers give what one process with plain torch gives for the same batches."""

import itertools

import pytest
import sample_model
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from hybridjob.checkpoint.export import export_checkpoint
from hybridjob.checkpoint.manifest import read_manifest
from hybridjob.config import TableOptimizer
from hybridjob.data.reader import open_reader
from hybridjob.data.schema_of import schema_of
from hybridjob.errors import CheckpointError
from hybridjob.jobfile import load_job
from hybridjob.restoring import restore
from hybridjob.tables.initial import initial_rows
from hybridjob.tables.spreading import spread_of
from hybridjob.trainer import share_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

STEPS = 50
JOB = """
name = "equality"
seed = 11
[model]
factory = "sample_model:factory"
[training]
batch_size = 31
epochs = 4
max_steps = 50
evaluate = "never"
[training.table_optimizer]
lr = 0.05
[training.dense_optimizer]
name = "Adam"
lr = 0.01
[checkpoint]
every_steps = 0
[data]
format = "synthetic"
num_samples = 500
num_dense = 3
[[data.features]]
name = "weighted"
cardinality = 40
ids_per_sample = [0, 4]
weighted = true
[[data.features]]
name = "single"
cardinality = 40
zipf = 1.1
[[data.features]]
name = "bag"
cardinality = 23
ids_per_sample = [0, 5]
[[data.features]]
name = "top"
cardinality = 31
ids_per_sample = [0, 3]
"""


def rows_of_ids(job, table):
    """Give the row of each id of a table."""
    ids = torch.arange(table.num_embeddings)
    if job.training.sharding == "range":
        return ids
    return torch.from_numpy(spread_of(table.name, len(ids)).rows_of(ids.numpy()))


class Reference(nn.Module):
    """The same model in one process: nn.EmbeddingBag where the job has servers."""

    def __init__(self, job):
        super().__init__()
        schema = schema_of(job.data)
        torch.manual_seed(job.seed)
        self.module, _ = sample_model.factory(schema)
        self.tables = sample_model.tables_of(schema)
        self.bags = nn.ModuleDict()
        for table in self.tables:
            bag = nn.EmbeddingBag(
                table.num_embeddings,
                table.embedding_dim,
                mode=table.pooling,
                sparse=table.pooling != "max",  # torch has no sparse gradient for it
                include_last_offset=True,
            )
            rows = initial_rows(table, seed=job.seed, start=0, stop=table.num_embeddings)
            bag.weight.data.copy_(rows[rows_of_ids(job, table)])
            self.bags[table.name] = bag

    def loss(self, batches):
        """Give the mean loss over the trainers' batches together."""
        outputs, labels = [], []
        for batch in batches:
            vectors = {}
            for table in self.tables:
                for name in table.feature_names:
                    bag = batch.features[name]
                    vectors[name] = self.bags[table.name](
                        bag.values, bag.offsets, per_sample_weights=bag.weights
                    )
            outputs.append(self.module(batch.dense, vectors))
            labels.append(batch.labels)
        return F.binary_cross_entropy_with_logits(torch.cat(outputs), torch.cat(labels))

    def sparsify(self, batches):
        """Turn the gradient of max pooling to one of the touched rows alone."""
        for table in self.tables:
            weight = self.bags[table.name].weight
            if table.pooling == "max":
                touched = torch.unique(
                    torch.cat([b.features[n].values for b in batches for n in table.feature_names])
                )
                weight.grad = torch.sparse_coo_tensor(
                    touched[None], weight.grad[touched], weight.shape
                )


class RowwiseAdagrad(torch.optim.Optimizer):
    """Row-wise Adagrad by its formula, on sparse gradients."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                total = self.state[parameter].setdefault("sum", torch.zeros(len(parameter)))
                gradient = parameter.grad.coalesce()
                rows, values = gradient.indices()[0], gradient.values()
                total[rows] += values.square().mean(dim=1)
                parameter[rows] -= group["lr"] * values / (total[rows].sqrt() + 1e-10)[:, None]


TABLE_OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rowwise_adagrad": RowwiseAdagrad,
    "adam": torch.optim.SparseAdam,
}


def global_batches(job, folder):
    """Give each step's batches of all trainers, epoch after epoch."""
    trainers = job.layout.num_trainers
    readers = [
        open_reader(
            job.data, split="train", seed=job.seed, trainer=index, num_trainers=trainers,
            batch_size=share_of(job.training.batch_size, index, trainers), folder=folder,
        )
        for index in range(trainers)
    ]  # fmt: skip
    for epoch in range(job.training.epochs):
        for batches in itertools.zip_longest(*(reader.batches(epoch) for reader in readers)):
            yield [batch for batch in batches if batch is not None]


def train_reference(job, folder):
    torch.set_num_threads(1)
    reference = Reference(job)
    config = job.training.table_optimizer
    assert config == TableOptimizer(name=config.name, lr=0.05)
    optimizers = [
        TABLE_OPTIMIZERS[config.name](list(reference.bags.parameters()), lr=config.lr),
        torch.optim.Adam(reference.module.parameters(), lr=0.01),
    ]
    for batches in itertools.islice(global_batches(job, folder), STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        reference.loss(batches).backward()
        reference.sparsify(batches)
        for optimizer in optimizers:
            optimizer.step()
    return reference


@pytest.mark.parametrize("trainers", [1, 2])
@pytest.mark.parametrize("optimizer", list(TABLE_OPTIMIZERS))
def test_a_job_equals_plain_torch_and_itself(run_job, tmp_path, optimizer, trainers):
    overrides = [f"training.table_optimizer.name={optimizer}", f"trainer.tasks_per_node={trainers}"]
    check_equality(run_job, tmp_path, overrides)


@pytest.mark.parametrize("kernels", ["numba", "torch"])
def test_a_job_with_ids_spread_by_hash_equals_plain_torch_and_itself(run_job, tmp_path, kernels):
    spread = ["training.sharding=hash", f"training.kernels={kernels}"]
    run = check_equality(run_job, tmp_path, ["trainer.tasks_per_node=2", *spread])
    exported = tmp_path / "exported"
    export_checkpoint(run.checkpoint, read_manifest(run.checkpoint), exported, "safetensors")
    job = load_job(tmp_path / "reference.toml", spread)
    for table in sample_model.tables_of(schema_of(job.data)):
        in_order = run.tables()[table.name]["rows"][rows_of_ids(job, table)]
        assert torch.equal(load_file(exported / f"{table.name}.safetensors")["weight"], in_order)
    with pytest.raises(CheckpointError, match=r"set training.sharding = 'hash'"):
        restore(load_job(tmp_path / "reference.toml"), None, [], run.checkpoint.parent)


def check_equality(run_job, tmp_path, overrides):
    """Compare jobs of 1, 2 and 3 servers with plain torch and each other; gives the last."""
    (tmp_path / "reference.toml").write_text(JOB)
    job = load_job(tmp_path / "reference.toml", overrides)
    reference = train_reference(job, tmp_path)
    order = {table.name: rows_of_ids(job, table) for table in reference.tables}
    digests = set()
    for servers in (1, 2, 3):
        run = run_job(JOB, f"ps.tasks_per_node={servers}", *overrides)
        assert run.returncode == 0, run.stdout + run.stderr
        assert run.summary["final_step"] == STEPS
        digests.add(run.summary["state_digest"])
        assert len(run.summary["ids_served"]) == servers
        assert min(run.summary["ids_served"]) > 0
        for name, tensors in run.tables().items():
            expected = reference.bags[name].weight.data
            torch.testing.assert_close(tensors["rows"][order[name]], expected, rtol=0, atol=1e-5)
        for name, tensor in run.dense().items():
            expected = reference.module.state_dict()[name]
            torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-5)
    # The cut of the tables over servers changes nothing, not even a bit.
    assert len(digests) == 1
    return run


@pytest.mark.parametrize(
    ("key", "tolerance"),
    [
        ("model.table_data_type=float16", 5e-3),
        ("model.table_data_type=bfloat16", 5e-2),
        ("training.wire_data_type=bfloat16", 5e-2),
    ],
)
def test_a_job_of_16_bits_stays_near_plain_torch_on_any_number_of_servers(
    run_job, tmp_path, key, tolerance
):
    overrides = [key, "trainer.tasks_per_node=2", "training.pool_on=servers"]
    (tmp_path / "reference.toml").write_text(JOB)
    reference = train_reference(load_job(tmp_path / "reference.toml", overrides), tmp_path)
    digests = set()
    for servers in (1, 2):
        run = run_job(JOB, f"ps.tasks_per_node={servers}", *overrides)
        assert run.returncode == 0, run.stdout + run.stderr
        digests.add(run.summary["state_digest"])
        for name, tensors in run.tables().items():
            rows, expected = tensors["rows"], reference.bags[name].weight.data
            assert rows.dtype == (torch.float32 if "wire" in key else getattr(torch, key[22:]))
            difference = (rows.float() - expected).abs().mean()
            assert difference < tolerance * expected.abs().mean()
    assert len(digests) == 1


def test_the_same_job_run_twice_gives_the_same_bits(run_job):
    more = ["ps.tasks_per_node=2", "trainer.tasks_per_node=2", "training.max_steps=20"]
    first, second = (run_job(JOB, *more).summary for _ in range(2))
    assert first["state_digest"] == second["state_digest"]
    assert first["final_loss"] == second["final_loss"]
    other = run_job(JOB, *more, "seed=12").summary
    assert other["state_digest"] != first["state_digest"]
