"""Checkpoints from the login node: listed, verified, exported as plain files."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_tensors
from typer.testing import CliRunner

from hybridjob.checkpoint import export
from hybridjob.checkpoint.export import export_checkpoint
from hybridjob.checkpoint.files import write_tensors
from hybridjob.checkpoint.manifest import Manifest, begin_draft, draft_of, publish, read_manifest
from hybridjob.checkpoint_cli import app
from hybridjob.errors import CheckpointError, RunError
from hybridjob.tables.spreading import spread_of

ROWS = torch.arange(35.0).reshape(7, 5)


@pytest.fixture
def job_folder(tmp_path):
    return write_checkpoints(tmp_path, ROWS)


def write_checkpoints(tmp_path, rows):
    for step in (10, 20):
        draft = begin_draft(draft_of(tmp_path / "checkpoints", step, "0.0.0"))
        files = [
            write_tensors(draft / f"table-t.{start}-{stop}.safetensors", {"rows": rows[start:stop]})
            for start, stop in ((0, 3), (3, 7))
        ]
        dense = {"module/fc.weight": torch.ones(2, 2), "optimizer/0/step": torch.tensor(1.0)}
        files.append(write_tensors(draft / "dense.safetensors", dense))
        publish(
            draft,
            Manifest(
                step=step, epoch=1, samples=99, servers=2, trainers=1,
                tables={"t": [7, 5]}, positions=[{}], files=files,
            ),
        )  # fmt: skip
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_ls_names_every_checkpoint(job_folder):
    done = run("ls", job_folder)
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "step-00000010",
        "step-00000020",
    ]


def test_verify_names_the_damaged_one_and_fails(job_folder):
    assert run("verify", job_folder).exit_code == 0
    victim = job_folder / "checkpoints/step-00000020/table-t.3-7.safetensors"
    victim.write_bytes(victim.read_bytes()[:-1])
    done = run("verify", job_folder)
    assert done.exit_code == 1
    assert "step-00000010: ok, 3 files" in done.stdout
    assert "step-00000020: DAMAGED" in done.stdout
    assert "table-t.3-7.safetensors" in done.stdout


def test_export_gives_whole_tables_and_dense_parameters_alone(job_folder, tmp_path):
    assert run("export", job_folder, tmp_path / "plain").exit_code == 0
    weight = load_file(tmp_path / "plain/t.safetensors")
    assert list(weight) == ["weight"]
    np.testing.assert_array_equal(weight["weight"], ROWS.numpy())
    assert list(load_file(tmp_path / "plain/dense.safetensors")) == ["fc.weight"]


def test_export_to_parquet_has_ids_and_vectors(job_folder, tmp_path):
    assert run("export", job_folder, tmp_path / "pq", "--format", "parquet").exit_code == 0
    table = pq.read_table(tmp_path / "pq/t.parquet")
    assert table["id"].to_pylist() == list(range(7))
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist()), ROWS.numpy())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_of_16_bits_are_exported_as_they_are_and_to_parquet_as_float32(tmp_path, dtype):
    rows = (ROWS / 7).to(dtype)
    folder = write_checkpoints(tmp_path, rows)
    assert run("export", folder, tmp_path / "plain").exit_code == 0
    weight = load_tensors(tmp_path / "plain/t.safetensors")["weight"]
    assert weight.dtype == dtype
    assert torch.equal(weight, rows)
    assert run("export", folder, tmp_path / "pq", "--format", "parquet").exit_code == 0
    vectors = pq.read_table(tmp_path / "pq/t.parquet")["vector"].to_pylist()
    assert torch.equal(torch.tensor(vectors), rows.float())


def test_export_passes_over_a_damaged_checkpoint(job_folder, tmp_path):
    (job_folder / "checkpoints/step-00000020/dense.safetensors").unlink()
    done = run("export", job_folder, tmp_path / "plain")
    assert done.exit_code == 0
    assert "passed over: " in done.stderr


def test_a_folder_that_exists_is_not_written_into(job_folder):
    with pytest.raises(CheckpointError, match="is there already"):
        CliRunner().invoke(
            app, ["export", str(job_folder), str(job_folder)], catch_exceptions=False
        )


def test_a_folder_without_checkpoints_is_one_message(tmp_path):
    with pytest.raises(RunError, match="there is no run"):
        CliRunner().invoke(app, ["ls", str(tmp_path)], catch_exceptions=False)


def test_a_run_is_named_as_everywhere(tmp_path, job_folder):
    own = tmp_path / "runs" / "clicks" / "67"
    own.mkdir(parents=True)
    (own / "job.toml").write_text('name = "clicks"\n')
    arguments = ["ls", "clicks", "--runs", str(tmp_path / "runs")]
    with pytest.raises(CheckpointError, match="clicks/67 has no checkpoint yet"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    (job_folder / "checkpoints").rename(own / "checkpoints")
    done = run(*arguments)
    assert done.exit_code == 0
    assert "step-00000020" in done.stdout


@pytest.mark.parametrize("kind", ["safetensors", "parquet"])
def test_rows_that_were_spread_are_exported_in_the_order_of_ids(
    job_folder, tmp_path, monkeypatch, kind
):
    monkeypatch.setattr(export, "_CHUNK_ROWS", 3)
    newest = job_folder / "checkpoints/step-00000020"
    spread = replace(read_manifest(newest), sharding="hash")
    export_checkpoint(newest, spread, tmp_path / "out", kind)
    if kind == "parquet":
        table = pq.read_table(tmp_path / "out/t.parquet")
        assert table["id"].to_pylist() == list(range(7))
        found = np.array(table["vector"].to_pylist())
    else:
        found = load_file(tmp_path / "out/t.safetensors")["weight"]
    rows = spread_of("t", 7).rows_of(np.arange(7))
    assert rows.tolist() != list(range(7))
    np.testing.assert_array_equal(found, ROWS.numpy()[rows])


@pytest.mark.parametrize("kind", ["safetensors", "parquet"])
def test_a_delta_is_exported_whole(job_folder, tmp_path, kind):
    base = job_folder / "checkpoints/step-00000020"
    draft = begin_draft(draft_of(job_folder / "checkpoints", 30, "0.0.0"))
    parts = {"0-3": ([1], -ROWS[1:2]), "3-7": ([3, 6], -ROWS[[3, 6]])}
    files = [
        write_tensors(
            draft / f"delta-t.{cut}.safetensors", {"ids": torch.tensor(ids), "rows": rows}
        )
        for cut, (ids, rows) in parts.items()
    ]
    files.append(write_tensors(draft / "dense.safetensors", {"module/fc.weight": torch.ones(2)}))
    publish(
        draft,
        Manifest(
            step=30, epoch=1, samples=99, servers=2, trainers=1, tables={"t": [7, 5]},
            positions=[{}], files=files, base=base.name, base_files=read_manifest(base).files,
            deltas=1,
        ),
    )  # fmt: skip
    expected = ROWS.clone()
    expected[[1, 3, 6]] *= -1
    assert "and its base step-00000020" in run("verify", job_folder).stdout
    assert run("export", job_folder, tmp_path / "out", "--format", kind).exit_code == 0
    if kind == "parquet":
        found = np.array(pq.read_table(tmp_path / "out/t.parquet")["vector"].to_pylist())
    else:
        found = load_file(tmp_path / "out/t.safetensors")["weight"]
    np.testing.assert_array_equal(found, expected.numpy())
