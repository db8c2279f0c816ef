"""A checkpoint as plain files for serving, rows in the order of ids. Imports no torch.

Every table becomes one file with all its rows, the dense layers another: safetensors, rows in the
type in which they were trained, or, for the tables, parquet with a column of ids and one of float32
vectors.

Tables are read and written here, not by the library: numpy knows no bfloat16, whose values are
taken as their bits, uint16.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open
from safetensors.numpy import save_file

from hybridjob.checkpoint.shard_names import shard_name
from hybridjob.errors import CheckpointError
from hybridjob.tables.spreading import spread_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from hybridjob.checkpoint.manifest import Manifest

Format = Literal["safetensors", "parquet"]
_CHUNK_ROWS = 65_536
_MODULE = "module/"
_TYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}


def export_checkpoint(folder: Path, manifest: Manifest, out: Path, kind: Format) -> list[Path]:
    """Write the tables' rows and the dense parameters, without any optimizer's state.

    Returns the files. Raises CheckpointError if `out` is there already.
    """
    try:
        out.mkdir(parents=True)
    except FileExistsError as error:
        raise CheckpointError(f"{out} is there already: give another folder") from error
    except OSError as error:
        raise CheckpointError(f"cannot make {out}: {error.strerror}") from error
    files = [
        _export_table(_in_order(folder, manifest, table), out / f"{table}.{kind}", kind, shape)
        for table, shape in manifest.tables.items()
    ]
    dense = out / "dense.safetensors"
    with safe_open(folder / "dense.safetensors", framework="np") as file:
        names = [name for name in file.keys() if name.startswith(_MODULE)]  # noqa: SIM118
        save_file({name[len(_MODULE) :]: file.get_tensor(name) for name in names}, dense)
    return [*files, dense]


def _shards(folder: Path, kind: str, table: str) -> list[Path]:
    names = (name for path in folder.iterdir() if (name := shard_name(path.name)) is not None)
    own = [name for name in names if (name.kind, name.table) == (kind, table)]
    return [folder / str(name) for name in sorted(own, key=lambda name: name.start)]


def _in_order(folder: Path, manifest: Manifest, table: str) -> Iterator[NDArray[Any]]:
    """Give a table's rows in the order of ids, in blocks; if they were spread, by way of memory."""
    blocks = _rows(folder, manifest, table)
    if manifest.sharding == "range":
        yield from blocks
        return
    rows = np.concatenate(list(blocks))
    spread = spread_of(table, len(rows))
    for start in range(0, len(rows), _CHUNK_ROWS):
        ids = np.arange(start, min(start + _CHUNK_ROWS, len(rows)))
        yield rows[spread.rows_of(ids)]


def _rows(folder: Path, manifest: Manifest, table: str) -> Iterator[NDArray[Any]]:
    """Give all rows of a table in blocks, those of the base overlaid with the delta's."""
    ids, changed = _delta(_shards(folder, "delta", table))
    first = 0
    for path in _shards(manifest.base_folder(folder), "table", table):
        rows = _tensor(path, "rows")
        for start in range(0, len(rows), _CHUNK_ROWS):
            block = np.array(rows[start : start + _CHUNK_ROWS])
            low, high = np.searchsorted(ids, [first, first + len(block)])
            if low < high:
                block[ids[low:high] - first] = changed[low:high]
            yield block
            first += len(block)


def _delta(shards: list[Path]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Read the rows of a delta, and their numbers, ascending."""
    ids, rows = [np.empty(0, np.int64)], []
    for path in shards:
        ids.append(_tensor(path, "ids"))
        rows.append(_tensor(path, "rows"))
    return np.concatenate(ids), np.concatenate(rows) if rows else np.empty(0, np.float32)


def _tensor(path: Path, name: str) -> NDArray[Any]:
    """Map a tensor of a file."""
    with path.open("rb") as file:
        head_bytes = int.from_bytes(file.read(8), "little")
        place = json.loads(file.read(head_bytes))[name]
    kind, shape, (start, stop) = _TYPES[place["dtype"]], place["shape"], place["data_offsets"]
    if start == stop:  # numpy maps no empty file
        return np.empty(shape, kind)
    return np.memmap(path, kind, "r", 8 + head_bytes + start, tuple(shape))


def _export_table(
    blocks: Iterator[NDArray[Any]], out: Path, kind: Format, shape: list[int]
) -> Path:
    if kind == "safetensors":
        _write_safetensors(blocks, out, shape)
        return out
    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), shape[1]))])
    first = 0
    with pq.ParquetWriter(out, schema) as writer:
        for rows in blocks:
            ids = pa.array(np.arange(first, first + len(rows)))
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(_float32(rows).ravel()), shape[1])
            writer.write_table(pa.table([ids, vectors], schema=schema))
            first += len(rows)
    return out


def _write_safetensors(blocks: Iterator[NDArray[Any]], out: Path, shape: list[int]) -> None:
    """Write a table block by block; https://github.com/huggingface/safetensors#format."""
    first = next(blocks)
    size = math.prod(shape) * first.itemsize
    place = {"dtype": _NAMES[first.dtype], "shape": shape, "data_offsets": [0, size]}
    head = json.dumps({"weight": place}).encode()
    head += b" " * (-len(head) % 8)
    with out.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for block in itertools.chain([first], blocks):
            file.write(block.data)


def _float32(rows: NDArray[Any]) -> NDArray[np.float32]:
    if rows.dtype == np.uint16:
        return (rows.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return rows.astype(np.float32)
