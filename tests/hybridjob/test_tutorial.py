"""examples/tutorial.toml learns as the algorithm of PyTorch's tutorial does on the same data.

Source: "Combining Distributed DataParallel with Distributed RPC Framework", pytorch.org/tutorials.
"""

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hybridjob.data.reader import open_reader
from hybridjob.data.schema_of import schema_of
from hybridjob.jobfile import load_job
from hybridjob.models import tutorial
from hybridjob.tables.initial import initial_rows

pytestmark = pytest.mark.processes
EXAMPLE = ROOT / "examples" / "tutorial.toml"


def reference_losses(job, folder):
    """Give each epoch's mean loss: two trainers, each with its own batches, as the tutorial says.

    DDP averages the gradients of the linear layer; every trainer's gradient of the embedding goes
    to the parameter server as it is, and plain SGD applies both.
    """
    torch.manual_seed(job.seed)
    model, (table,) = tutorial.factory(schema_of(job.data))
    weight = initial_rows(table, seed=job.seed, start=0, stop=100).requires_grad_()
    readers = [
        open_reader(job.data, split="train", seed=job.seed, trainer=one, num_trainers=2,
                    batch_size=1, folder=folder)
        for one in (0, 1)
    ]  # fmt: skip
    losses = []
    for epoch in range(job.training.epochs):
        total = samples = 0
        for batches in zip(*(reader.batches(epoch) for reader in readers), strict=True):
            dense, sparse = [], []
            for batch in batches:
                bag = batch.features["indices"]
                pooled = F.embedding_bag(
                    bag.values, weight, bag.offsets, mode="sum", include_last_offset=True
                )
                loss = F.cross_entropy(model(batch.dense, {"indices": pooled}), batch.labels)
                *of_dense, of_weight = torch.autograd.grad(loss, [*model.parameters(), weight])
                dense.append(of_dense)
                sparse.append(of_weight)
                total += float(loss.detach()) * batch.size
                samples += batch.size
            with torch.no_grad():
                for parameter, one, other in zip(model.parameters(), *dense, strict=True):
                    parameter.sub_(0.05 * (one + other) / 2)
                weight -= 0.05 * (sparse[0] + sparse[1])
        losses.append(total / samples)
    return losses


def tensorboard_losses(folder):
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [event.value for event in events.Scalars("loss")]


def test_the_loss_falls_as_the_tutorials_own(run_job, tmp_path):
    run = run_job(EXAMPLE.read_text())
    assert run.returncode == 0, run.stdout + run.stderr
    job = load_job(EXAMPLE)
    assert (job.training.epochs, job.layout.num_servers, job.layout.num_trainers) == (100, 1, 2)
    expected = reference_losses(job, tmp_path)
    losses = [line["loss"] for line in run.metrics if "loss" in line]
    assert tensorboard_losses(run.folder) == pytest.approx(losses)
    assert len(losses) == 100
    # Who comes first is luck in the tutorial too: a step may see the other's update or not.
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=0, atol=0.05)
    assert sum(losses[-10:]) / 10 < sum(losses[:3]) / 3 - 0.1
