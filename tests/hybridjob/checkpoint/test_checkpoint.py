"""A checkpoint is whole or not there, and every byte of it is checked."""

import itertools
import json
import os

import pytest
import torch

from hybridjob.checkpoint import entries, files, manifest
from hybridjob.checkpoint.entries import describe
from hybridjob.checkpoint.files import Wanted, read_rows, read_tensors, write_tensors
from hybridjob.checkpoint.manifest import (
    Manifest,
    all_checkpoints,
    begin_draft,
    draft_of,
    folder_of,
    newest_valid,
    publish,
    read_manifest,
    step_of,
    verify,
)
from hybridjob.checkpoint.retention import remove_old
from hybridjob.checkpoint.shards import load_shard, part_of, save_parts
from hybridjob.config import TableOptimizer
from hybridjob.errors import CheckpointError, DamageError
from hybridjob.schema import Table
from hybridjob.tables.digest import add_sums, shard_sums
from hybridjob.tables.shard import Shard
from hybridjob.tables.sharding import row_bounds


def shards_of(num_servers, *, rows=31, optimizer="adam", seed=1, dim=4, data_type="float32"):
    table = Table(
        name="t.x", num_embeddings=rows, embedding_dim=dim, feature_names=("f",),
        data_type=data_type,
    )  # fmt: skip
    bounds = row_bounds(rows, num_servers)
    config = TableOptimizer(name=optimizer)
    return [
        Shard(table, config, seed=seed, start=start, stop=stop)
        for start, stop in itertools.pairwise(bounds)
    ]


def digest(shards):
    return add_sums(shard_sums(one) for one in shards)


def save(checkpoints, step, shards, base=None):
    """Write a checkpoint; a delta if the folder of a base is given."""
    draft = begin_draft(draft_of(checkpoints, step, "0.0.0"))
    parts = [part_of(one, delta=base is not None) for one in shards]
    described = Manifest(
        step=step, epoch=0, samples=9, servers=len(shards), trainers=1, tables={}, positions=[{}],
        files=save_parts(draft, parts),
        base=base.name if base else None,
        base_files=read_manifest(base).files if base else [],
        deltas=1 if base else 0,
    )  # fmt: skip
    return publish(draft, described)


def load(folder, shards):
    for one in shards:
        load_shard(folder, read_manifest(folder), one)


def train(shards, rows, seed):
    """Take a step on some rows of the table."""
    generator = torch.Generator().manual_seed(seed)
    gradient = torch.randn(len(rows), shards[0].rows.shape[1], generator=generator)
    for shard in shards:
        mine = [number for number, row in enumerate(rows) if shard.start <= row < shard.stop]
        ids = torch.tensor([rows[number] - shard.start for number in mine], dtype=torch.int64)
        shard.update([ids], [gradient[mine]], seed)


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
    load(folder, again)
    assert digest(again) == digest(shards)


def test_a_draft_is_no_checkpoint(tmp_path):
    draft = begin_draft(draft_of(tmp_path, 3, "0.0.0"))
    save_parts(draft, [part_of(shards_of(1)[0], delta=False)])
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
    with pytest.raises(
        CheckpointError, match=r"no checkpoint verifies; set checkpoint\.restart_from_zero"
    ):
        newest_valid(tmp_path)


def test_the_newest_stay_and_nothing_half_removed_is_seen(tmp_path):
    for step in (5, 10, 15, 20):
        save(tmp_path, step, shards_of(1))
    remove_old(tmp_path, newest=20, keep_last=2)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["step-00000015", "step-00000020"]
    assert verify(folder_of(tmp_path, 20)).step == 20


def test_the_same_step_saved_again_replaces_the_first(tmp_path):
    save(tmp_path, 5, shards_of(1))
    shards = shards_of(2, seed=4)
    folder = save(tmp_path, 5, shards)
    assert verify(folder).servers == 2


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 1)])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
def test_a_base_and_a_delta_give_the_whole_state_to_any_number_of_servers(
    tmp_path, before, after, optimizer
):
    shards = shards_of(before, optimizer=optimizer)
    train(shards, [1, 4, 30], 1)
    base = save(tmp_path, 1, shards)
    train(shards, [0, 4, 11, 12, 30], 2)
    save(tmp_path, 2, shards, base)
    train(shards, [11, 29], 3)
    folder = save(tmp_path, 3, shards, base)
    ids = [read_tensors(path)["ids"] for path in folder.glob("delta-*")]
    assert sorted(torch.cat(ids).tolist()) == [0, 4, 11, 12, 29, 30]
    again = shards_of(after, optimizer=optimizer, seed=99)
    load(folder, again)
    assert digest(again) == digest(shards)
    # What is not in the base is known after the restore too: the next delta is as good.
    train(again, [7], 4)
    last = save(tmp_path, 4, again, base)
    other = shards_of(before, optimizer=optimizer, seed=98)
    load(last, other)
    assert digest(other) == digest(again)
    assert verify(last).base == base.name


@pytest.mark.parametrize(
    "damage",
    [damage_flip, lambda path: os.truncate(path, path.stat().st_size - 1), lambda p: p.unlink()],
)
def test_damage_to_a_base_sends_its_deltas_too_to_the_one_before(tmp_path, damage):
    shards = shards_of(2)
    older = save(tmp_path, 1, shards)
    base = save(tmp_path, 2, shards)
    train(shards, [3, 20], 1)
    delta = save(tmp_path, 3, shards, base)
    assert newest_valid(tmp_path) == (delta, [])
    victim = base / "table-t.x.15-31.safetensors"
    kept = victim.read_bytes()
    damage(victim)
    found, told = newest_valid(tmp_path)
    assert found == older
    assert [str(victim) in one for one in told] == [True, True]
    with pytest.raises(DamageError, match=r"table-t\.x\.15-31"):
        load(delta, shards_of(2))
    victim.write_bytes(kept)
    damage(delta / "delta-t.x.0-15.safetensors")
    assert newest_valid(tmp_path)[0] == base
    with pytest.raises(DamageError, match=r"delta-t\.x\.0-15"):
        load(delta, shards_of(2))


def test_any_flipped_bit_is_seen_by_the_servers_that_read_it(tmp_path, monkeypatch):
    for module in (entries, files):  # many chunks in a small file
        monkeypatch.setattr(module, "CHUNK_BYTES", 100)
    shards = shards_of(1)
    folder = save(tmp_path, 1, shards)
    again = shards_of(3, seed=5)
    load(folder, again)
    assert digest(again) == digest(shards)
    path = next(folder.glob("table-*"))
    content = path.read_bytes()
    for position in range(0, len(content), 37):
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 16]) + content[position + 1 :]
        )
        with pytest.raises(DamageError):
            load(folder, shards_of(3))


def test_a_base_stays_as_long_as_a_delta_needs_it_and_some_stay_for_ever(tmp_path):
    shards = shards_of(1)
    first = save(tmp_path, 10, shards)
    for step in (20, 30):
        save(tmp_path, step, shards, first)
    second = save(tmp_path, 40, shards)
    for step in (50, 60, 70):
        save(tmp_path, step, shards, second)
    save(tmp_path, 90, shards)  # of a time that was given up
    remove_old(tmp_path, newest=70, keep_last=2, keep_every=50)
    # 30 stays, with its base, for the day on which 40 is found to be damaged.
    assert [step_of(one) for one in all_checkpoints(tmp_path)] == [10, 30, 40, 50, 60, 70, 90]
    remove_old(tmp_path, newest=70, keep_last=1)
    assert [step_of(one) for one in all_checkpoints(tmp_path)] == [40, 70, 90]


def test_a_checkpoint_of_another_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "FORMAT", 1)
    draft = begin_draft(draft_of(tmp_path, 1, "0.0.0"))
    one = Manifest(
        step=1, epoch=0, samples=9, servers=1, trainers=1, tables={}, positions=[], format=1
    )
    folder = publish(draft, one)
    monkeypatch.setattr(manifest, "FORMAT", 2)
    with pytest.raises(CheckpointError, match=r"has format 1, but this version .* reads only 2"):
        verify(folder)


def test_a_manifest_that_names_no_sharding_is_of_ranges(tmp_path):
    folder = save(tmp_path, 1, shards_of(1))
    path = folder / manifest.MANIFEST
    values = json.loads(path.read_text())
    del values["sharding"]
    path.write_text(manifest._render(values))
    found = verify(folder)
    manifest.check_sharding(folder, found, "range")
    with pytest.raises(CheckpointError, match=r"with training.sharding = 'range', but .* 'hash'"):
        manifest.check_sharding(folder, found, "hash")


def test_rows_are_read_by_range(tmp_path):
    rows = torch.randn(20, 3)
    entry = write_tensors(tmp_path / "one.safetensors", {"rows": rows, "sum": rows[:, 0]})
    assert entry == describe(tmp_path / "one.safetensors")
    part = torch.empty(5, 3)
    read_rows(tmp_path / "one.safetensors", [Wanted("rows", 4, part)], entry)
    assert torch.equal(part, rows[4:9])
    assert torch.equal(read_tensors(tmp_path / "one.safetensors")["sum"], rows[:, 0])


def test_another_optimizer_or_size_is_refused(tmp_path):
    folder = save(tmp_path, 5, shards_of(1, optimizer="sgd"))
    with pytest.raises(CheckpointError, match="was the optimizer of the tables changed"):
        load(folder, shards_of(1, optimizer="adam"))
    with pytest.raises(CheckpointError, match="was num_embeddings changed"):
        load(folder, shards_of(1, rows=40, optimizer="sgd"))


@pytest.mark.parametrize("data_type", ["bfloat16", "float16"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_rows_of_16_bits_go_on_from_a_base_and_a_delta_as_if_never_stopped(
    tmp_path, optimizer, data_type
):
    """5 columns of 31 rows: neither a row nor a table is a whole number of 32-bit words."""
    like = {"optimizer": optimizer, "data_type": data_type, "dim": 5}
    shards = shards_of(2, **like)
    train(shards, [0, 3, 30], seed=1)
    base = save(tmp_path, 1, shards)
    train(shards, [3, 4, 16], seed=2)
    delta = save(tmp_path, 2, shards, base=base)
    again = shards_of(3, **like)
    load(delta, again)
    assert digest(again) == digest(shards)
    for step in (3, 4):
        train(shards, [0, 4, 30], seed=step)
        train(again, [0, 4, 30], seed=step)
    assert digest(again) == digest(shards)


@pytest.mark.parametrize("data_type", ["bfloat16", "float16"])
def test_a_snapshot_of_16_bits_holds_what_was_before_a_change(tmp_path, data_type):
    (shard,) = shards_of(1, dim=5, data_type=data_type)
    before = digest([shard])
    draft = begin_draft(draft_of(tmp_path, 1, "0.0.0"))
    part = part_of(shard, delta=False)
    train([shard], [0, 7, 30], seed=1)
    assert digest([shard]) != before
    (entry,) = save_parts(draft, [part])
    found = read_tensors(draft / entry.name, entry)
    (again,) = shards_of(1, dim=5, data_type=data_type)
    for name, tensor in again.tensors.items():
        assert found[name].dtype == tensor.dtype
        tensor.copy_(found[name])
    assert digest([again]) == before


@pytest.mark.parametrize(
    ("was", "wanted"), [("float32", "bfloat16"), ("bfloat16", "float16"), ("float16", "float32")]
)
def test_rows_of_another_type_are_refused_and_the_key_to_set_is_named(tmp_path, was, wanted):
    folder = save(tmp_path, 1, shards_of(2, data_type=was))
    with pytest.raises(CheckpointError, match=f"as {was}.* as {wanted}.*table_data_type = '{was}'"):
        load(folder, shards_of(2, data_type=wanted))
