"""A checkpoint is whole or not there, and every byte of it is checked."""

import itertools
import os

import pytest
import torch

from hybridjob.checkpoint.entries import describe
from hybridjob.checkpoint.files import read_rows, read_tensors, write_tensors
from hybridjob.checkpoint.manifest import (
    Manifest,
    begin_draft,
    draft_of,
    folder_of,
    newest_valid,
    publish,
    remove_old,
    verify,
)
from hybridjob.checkpoint.shards import load_shard, save_shards
from hybridjob.config import TableOptimizer
from hybridjob.errors import CheckpointError
from hybridjob.schema import Table
from hybridjob.tables.digest import add_sums, shard_sums
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds


def shards_of(num_servers, *, rows=31, optimizer="adam", seed=1):
    table = Table(name="t.x", num_embeddings=rows, embedding_dim=4, feature_names=("f",))
    bounds = row_bounds(rows, num_servers)
    config = TableOptimizer(name=optimizer)
    return [
        Shard(table, config, seed=seed, start=start, stop=stop)
        for start, stop in itertools.pairwise(bounds)
    ]


def digest(shards):
    return add_sums(shard_sums(one) for one in shards)


def save(checkpoints, step, shards):
    draft = begin_draft(draft_of(checkpoints, step, "0.0.0"))
    files = [entry for one in shards for entry in save_shards(draft, [one])]
    manifest = Manifest(
        step=step, epoch=0, samples=9, servers=len(shards), trainers=1, tables={}, positions=[{}],
        files=files,
    )  # fmt: skip
    return publish(draft, manifest)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 5), (40, 2), (2, 2)])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
def test_another_number_of_servers_reads_the_same_rows_and_state(
    tmp_path, before, after, optimizer
):
    shards = shards_of(before, optimizer=optimizer)
    for shard in shards:
        for tensor in shard.tensors.values():
            tensor.copy_(torch.randn(tensor.shape))
    folder = save(tmp_path, 5, shards)
    again = shards_of(after, optimizer=optimizer, seed=99)
    for shard in again:
        load_shard(folder, shard)
    assert digest(again) == digest(shards)


def test_a_draft_is_no_checkpoint(tmp_path):
    draft = begin_draft(draft_of(tmp_path, 3, "0.0.0"))
    save_shards(draft, shards_of(1))
    assert newest_valid(tmp_path) == (None, [])
    assert begin_draft(draft) == draft
    assert not list(draft.iterdir())


def damage_flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        damage_flip,
        lambda path: os.truncate(path, path.stat().st_size - 1),
        lambda path: path.unlink(),
    ],
)
@pytest.mark.parametrize("victim", ["table-t.x.0-15.safetensors", "manifest.json"])
def test_damage_is_named_and_the_checkpoint_before_is_taken(tmp_path, damage, victim):
    older = save(tmp_path, 5, shards_of(2))
    newer = save(tmp_path, 10, shards_of(2))
    assert newest_valid(tmp_path) == (newer, [])
    damage(newer / victim)
    found, told = newest_valid(tmp_path)
    assert found == older
    assert len(told) == 1
    assert victim in told[0]


def test_with_no_checkpoint_left_the_work_is_not_silently_begun_anew(tmp_path):
    folder = save(tmp_path, 5, shards_of(1))
    damage_flip(next(folder.glob("table-*")))
    with pytest.raises(CheckpointError, match="no checkpoint verifies; remove the folder"):
        newest_valid(tmp_path)


def test_the_newest_stay_and_nothing_half_removed_is_seen(tmp_path):
    for step in (5, 10, 15, 20):
        save(tmp_path, step, shards_of(1))
    remove_old(tmp_path, keep_last=2)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["step-00000015", "step-00000020"]
    assert verify(folder_of(tmp_path, 20)).step == 20


def test_the_same_step_saved_again_replaces_the_first(tmp_path):
    save(tmp_path, 5, shards_of(1))
    shards = shards_of(2, seed=4)
    folder = save(tmp_path, 5, shards)
    assert verify(folder).servers == 2


def test_rows_are_read_by_range(tmp_path):
    rows = torch.randn(20, 3)
    entry = write_tensors(tmp_path / "one.safetensors", {"rows": rows, "sum": rows[:, 0]})
    assert entry == describe(tmp_path / "one.safetensors")
    assert torch.equal(read_rows(tmp_path / "one.safetensors", "rows", 4, 9), rows[4:9])
    assert torch.equal(read_tensors(tmp_path / "one.safetensors")["sum"], rows[:, 0])


def test_another_optimizer_or_size_is_refused(tmp_path):
    folder = save(tmp_path, 5, shards_of(1, optimizer="sgd"))
    with pytest.raises(CheckpointError, match="was the optimizer of the tables changed"):
        load_shard(folder, shards_of(1, optimizer="adam")[0])
    with pytest.raises(CheckpointError, match="was num_embeddings changed"):
        load_shard(folder, shards_of(1, rows=40, optimizer="sgd")[0])
