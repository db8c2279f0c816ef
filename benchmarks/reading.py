"""Is reading ever the bottleneck? `python benchmarks/reading.py [--rows 1000000] [--rounds 3]`.

Makes Criteo-like click logs (label, 13 integers, 26 hexadecimal categories, Zipf 1.05, some cells
empty) in a temporary folder. Measures in turn within each round, in rows/s:

reading    an epoch by the real reader, as batches that a trainer takes, its thread and the one that
           takes them on one core: text hashed, text with vocabularies, parquet that holds the same
           texts, and what `hybridjob prepare` makes of the text
training   a DLRM-like model, 26 tables 100k x 16, 2048 samples a batch, batches made once: one
           process on one core (the limit of benchmarks/limit.py), and a job of one trainer and one
           server of one thread on all cores
together   that job reading the text, and reading what is prepared

Prints medians and how many times as fast as either training, and writes them to a file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import tomlkit  # noqa: E402
import torch  # noqa: E402
from pyarrow import csv, parquet  # noqa: E402
from step import run_product, run_reference  # noqa: E402

from hybridjob.data.config import DataConfig  # noqa: E402
from hybridjob.data.conversion import convert  # noqa: E402
from hybridjob.data.prepare import prepare  # noqa: E402
from hybridjob.data.reader import open_reader  # noqa: E402
from hybridjob.data.zipf import sample_zipf  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEED = 0
_CHUNK_ROWS = 100_000
_GROUP_ROWS = 20_000
_CARDINALITY = 100_000
_BATCH_SIZE = 2048
_NUMERIC = [f"I{number}" for number in range(1, 14)]
_CATEGORICAL = [f"C{number}" for number in range(1, 27)]
_SCHEMA = pa.schema(
    [("label", pa.int64())]
    + [(name, pa.int64()) for name in _NUMERIC]
    + [(name, pa.string()) for name in _CATEGORICAL]
)
_TRAININGS = ("training, one process on one core", "training, a job of one trainer")
_JOB = f"""
name = "reading"
ps = {{ cpus_per_task = 1 }}
trainer = {{ cpus_per_task = 1 }}
model = {{ factory = "shapes:factory", options = {{ dim = 16 }} }}
[training]
batch_size = {_BATCH_SIZE}
log_every_steps = 10
evaluate = "never"
max_steps = %d
table_optimizer = {{ name = "sgd", lr = 0.01 }}
dense_optimizer = {{ name = "SGD", lr = 0.01 }}
"""
_TRULY_READ = ("model.factory=click", 'model.options={embedding_dim = 16, pooling = "sum"}')


def clicks(rows: int) -> Iterator[Any]:
    """Make click logs, as arrow tables of strings and whole numbers."""
    generator = np.random.default_rng(_SEED)
    texts = [
        pa.array([f"{code:08x}" for code in generator.permutation(1 << 24)[:_CARDINALITY].tolist()])
        for _ in _CATEGORICAL
    ]
    for start in range(0, rows, _CHUNK_ROWS):
        count = min(_CHUNK_ROWS, rows - start)
        columns = {"label": pa.array(generator.integers(0, 2, count))}
        for name in _NUMERIC:
            numbers = np.exp(generator.normal(2, 2, count)).astype(np.int64)
            columns[name] = pa.array(numbers, mask=generator.random(count) < 0.1)
        for name, own in zip(_CATEGORICAL, texts, strict=True):
            ids = sample_zipf(generator, 1.05, _CARDINALITY, count)
            columns[name] = own.take(pa.array(ids, mask=generator.random(count) < 0.05))
        yield pa.table(columns, schema=_SCHEMA)


def write_files(rows: int, folder: Path) -> None:
    """Write the same clicks as text and as parquet."""
    options = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with (
        csv.CSVWriter(folder / "clicks.tsv", _SCHEMA, write_options=options) as text,
        parquet.ParquetWriter(folder / "clicks.parquet", _SCHEMA) as groups,
    ):
        for table in clicks(rows):
            text.write_table(table)
            groups.write_table(table, row_group_size=_GROUP_ROWS)


def configs_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Give each `[data]` that is read, and make the vocabularies and the prepared data."""
    text = {
        "format": "criteo",
        "path": str(folder / "clicks.tsv"),
        "num_embeddings": _CARDINALITY,
    }
    columns = {
        "label": "label",
        "numeric": [{"column": name, "transform": "log1p"} for name in _NUMERIC],
        "categorical": [{"column": name} for name in _CATEGORICAL],
    }
    words = [{"column": name, "encode": "vocabulary"} for name in _CATEGORICAL]
    with_vocabularies = {**text, "categorical": words}
    prepare(DataConfig(**with_vocabularies), folder, seed=_SEED)
    prepared = folder / "prepared"
    prepared.mkdir()
    begun = time.perf_counter()
    section = convert(
        DataConfig(**text), seed=_SEED, folder=prepared, final=prepared, report=lambda _: None
    )
    size = sum(file.stat().st_size for file in prepared.rglob("*.parquet"))
    text_size = (folder / "clicks.tsv").stat().st_size
    print(
        f"hybridjob prepare on one core: {text_size / 1e6:,.0f} MB of text to {size / 1e6:,.0f} MB "
        f"in {time.perf_counter() - begun:.1f} s"
    )
    as_parquet = {**text, **columns, "format": "parquet", "path": str(folder / "clicks.parquet")}
    return {
        "text, hashed": text,
        "text, vocabularies": with_vocabularies,
        "parquet of texts": as_parquet,
        "prepared": section,
    }


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Keep to one core what this thread does, and the threads and processes that it starts."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(everywhere)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


def read_epoch(config: DataConfig, folder: Path) -> float:
    """Read an epoch as one trainer does; give rows/s."""
    reader = open_reader(
        config, split="train", seed=_SEED, trainer=0, num_trainers=1, batch_size=_BATCH_SIZE,
        folder=folder,
    )  # fmt: skip
    with on_one_core():
        begun = time.perf_counter()
        rows = sum(batch.size for batch in reader.batches(0))
        return rows / (time.perf_counter() - begun)


def measure_all(
    configs: dict[str, dict[str, Any]], folder: Path, steps: int
) -> Iterator[tuple[str, float | None]]:
    """Measure each contender once: its name and rows/s, None if it cannot run here."""
    for name, given in configs.items():
        yield f"reading, {name}", read_epoch(DataConfig(**given), folder)
    made_once = write_job(folder / "made-once.toml", configs["prepared"], steps)
    with on_one_core():
        limit = run_reference("limit", made_once)
    yield _TRAININGS[0], limit
    yield _TRAININGS[1], run_product(made_once, folder / "run", ())
    for name in ("text, hashed", "prepared"):
        job_file = write_job(folder / "read.toml", configs[name], steps)
        yield f"together, {name}", run_product(job_file, folder / "run", _TRULY_READ)


def write_job(path: Path, data: dict[str, Any], steps: int) -> Path:
    """Write a job file whose batches are made once, unless it is overridden by _TRULY_READ."""
    path.write_text(_JOB % steps + tomlkit.dumps({"data": data}))
    return path


def show(rates: dict[str, list[float]]) -> None:
    """Print medians, their spread, and how many times as fast as training they are."""
    medians = {name: statistics.median(own) for name, own in rates.items()}
    print(f"  {'':<36}{'rows/s':>10}{'lowest':>10}{'highest':>10}{'/ core':>9}{'/ job':>9}")
    for name, median in medians.items():
        ratios = "".join(f"{median / medians[one]:>9.2f}" for one in _TRAININGS)
        spread = f"{min(rates[name]):>10,.0f}{max(rates[name]):>10,.0f}"
        print(f"  {name:<36}{median:>10,.0f}{spread}{ratios}", flush=True)


def main() -> None:
    """Make the data, measure round by round, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("reading-benchmark.json"))
    given = parser.parse_args()
    pa.set_cpu_count(1)
    torch.set_num_threads(1)
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(given.rows, folder)
        with on_one_core():
            configs = configs_in(folder)
        for _ in range(given.rounds):
            for title, rate in measure_all(configs, folder, given.steps):
                if rate is not None:
                    rates.setdefault(title, []).append(rate)
    show(rates)
    given.out.write_text(json.dumps({"rows": given.rows, "rows_per_s": rates}, indent=1) + "\n")


if __name__ == "__main__":
    main()
