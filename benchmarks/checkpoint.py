"""What checkpoints cost. `python benchmarks/checkpoint.py [--gb 1] [--out FILE]`.

Three measurements, on one disk (`--folder`), one after the other:

- `dd` with fsync against our writing and reading of one file of the same size, hashed in the same
  pass. Before each read the file is dropped from the page cache. The median of `--rounds` turns.
- A job on this machine, 1 server and 1 trainer, with tables and Adagrad sums of that size: how
  long the trainer stands still at a checkpoint (phase `checkpoint` of metrics.jsonl), for bases
  and for deltas. The share of training time at one checkpoint a minute is that stall / 60 s; a
  full minute between two checkpoints is not waited for. The training rate while files are written
  behind is given beside the rate without.
- Bytes of a delta against the share of rows touched.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hybridjob.checkpoint.files import Wanted, read_rows, write_tensors  # noqa: E402
from hybridjob.checkpoint.shards import part_of, save_parts  # noqa: E402
from hybridjob.config import TableOptimizer  # noqa: E402
from hybridjob.schema import Table  # noqa: E402
from hybridjob.tables.memory import empty  # noqa: E402
from hybridjob.tables.shard import Shard  # noqa: E402

DIM = 64
_BATCH = 512
_STALL = "seconds/checkpoint"
JOB = """
name = "checkpoint"
[model.options]
embedding_dim = 64
[data]
format = "synthetic"
num_samples = 10_000_000
num_dense = 13
[[data.features]]
name = "ids"
cardinality = {rows}
[training]
batch_size = 512
max_steps = {steps}
log_every_steps = 1
evaluate = "never"
[checkpoint]
every_steps = {every}
full_every = 2
max_delta_fraction = 0.6
"""


def forget(path: Path) -> None:
    """Drop a file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def seconds(action: Any) -> float:
    """Time a call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def dd(*arguments: str) -> float:
    """Time dd."""
    return seconds(lambda: subprocess.run(["dd", *arguments], check=True, capture_output=True))


def disk_speed(folder: Path, num_bytes: int, rounds: int) -> dict[str, float]:
    """Give MB/s of dd and of ours, medians."""
    plain, ours = folder / "dd", folder / "one.safetensors"
    source = folder / "source"
    rows = torch.randn(num_bytes // 4 // DIM, DIM)
    # dd reads from the page cache: /dev/zero would flatter a disk that compresses.
    source.write_bytes(rows.numpy().data)
    megabytes = num_bytes / 1e6
    found: dict[str, list[float]] = {key: [] for key in ("dd write", "write", "dd read", "read")}
    entry = write_tensors(ours, {"rows": rows})

    def read() -> None:  # into new memory, as a server that starts
        read_rows(ours, [Wanted("rows", 0, empty(tuple(rows.shape)))], entry)

    actions = {
        "dd write": lambda: dd(f"if={source}", f"of={plain}", "bs=8M", "conv=fsync"),
        "write": lambda: seconds(lambda: write_tensors(ours, {"rows": rows})),
        "dd read": lambda: dd(f"if={plain}", "of=/dev/null", "bs=8M"),
        "read": lambda: seconds(read),
    }
    for number in range(rounds):
        for path in (plain, ours):
            path.unlink(missing_ok=True)
        # Who writes first has an emptier queue before it: they take turns.
        for kind in ("write", "read"):
            for key in (f"dd {kind}", kind)[:: 1 if number % 2 else -1]:
                if kind == "read":
                    forget(plain if key.startswith("dd") else ours)
                found[key].append(actions[key]())
    for path in (source, plain, ours):
        path.unlink()
    print({key: [round(megabytes / one) for one in times] for key, times in found.items()})
    speeds = {key: megabytes / statistics.median(times) for key, times in found.items()}
    for kind in ("write", "read"):  # of the two in the same turn: the disk is not ours alone
        pairs = zip(found[f"dd {kind}"], found[kind], strict=True)
        speeds[f"{kind} ratio"] = statistics.median(theirs / own for theirs, own in pairs)
    return speeds


def run_job(folder: Path, rows: int, steps: int, every: int) -> dict[str, Any]:
    """Run a job; give its reports and the log's lines of checkpoints."""
    job_file = folder / f"job-{every}.toml"
    job_file.write_text(JOB.format(rows=rows, steps=steps, every=every))
    command = [sys.executable, str(ROOT / "submit.py"), str(job_file), "--executor", "local"]
    run = folder / f"run-{every}"
    done = subprocess.run(
        [*command, f"run_folder={run}"], check=True, capture_output=True, text=True, timeout=900
    )
    (metrics,) = run.glob("*/metrics.jsonl")
    reports = [json.loads(line) for line in metrics.open()]
    saved = [
        dict(re.findall(r"(\w+)=(\S+)", line))
        for line in done.stdout.splitlines()
        if "checkpoint saved" in line
    ]
    subprocess.run(["rm", "-r", str(run)], check=True)
    return {"reports": reports, "saved": saved}


def stall(folder: Path, num_bytes: int, steps: int) -> dict[str, Any]:
    """Measure how long training stands still, and how fast it goes meanwhile."""
    rows = num_bytes // (2 * DIM * 4)  # rows and sums
    calm = run_job(folder, rows, steps, 0)["reports"][5:]
    busy = run_job(folder, rows, steps, steps // 4)
    # A step's report comes before its checkpoint: the stall is in the report after.
    stalls = {report["step"] - 1: report[_STALL] for report in busy["reports"] if _STALL in report}
    by_kind: dict[str, list[float]] = {"base": [], "delta": []}
    for one in busy["saved"]:
        if int(one["step"]) in stalls:
            by_kind[one["kind"]].append(stalls[int(one["step"])])

    def rate(reports: list[dict[str, Any]]) -> float:
        waited = sum(one.get(_STALL, 0.0) for one in reports)
        spent = sum(_BATCH / one["samples_per_s"] for one in reports)
        return float(_BATCH * len(reports) / (spent - waited))

    return {
        "rows": rows,
        "stall_s": by_kind,
        "share_at_one_a_minute": {
            kind: statistics.mean(times) / 60 for kind, times in by_kind.items() if times
        },
        "samples_per_s_without": rate(calm),
        "samples_per_s_while_writing": rate(busy["reports"][5:]),
        "saved": busy["saved"],
    }


def delta_bytes(folder: Path, rows: int = 200_000) -> dict[str, float]:
    """Give the bytes of a delta, as a share of the base's, by the share of rows touched."""
    table = Table(name="t", num_embeddings=rows, embedding_dim=DIM, feature_names=("f",))
    found = {}
    for share in (0.001, 0.01, 0.1, 0.3):
        shard = Shard(table, TableOptimizer(), seed=0, start=0, stop=rows)
        ids = torch.randperm(rows)[: int(rows * share)].sort().values
        shard.update([ids], [torch.ones(len(ids), DIM)], 1)
        sizes = [
            sum(one.size for one in save_parts(folder, [part_of(shard, delta=delta)]))
            for delta in (True, False)  # a whole one is a new base
        ]
        found[str(share)] = sizes[0] / sizes[1]
    return found


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    parser.add_argument("--out", type=Path, default=Path("checkpoint-benchmark.json"))
    given = parser.parse_args()
    num_bytes = int(given.gb * 1e9)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        speed = disk_speed(folder, num_bytes, given.rounds)
        deltas = delta_bytes(folder)
        standing = stall(folder, num_bytes, given.steps)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    machine = {"cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1)}
    result = {
        "gb": given.gb, "machine": machine, "mb_per_s": speed, "job": standing, "delta": deltas,
    }  # fmt: skip
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    show(result)


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    speed, job = result["mb_per_s"], result["job"]
    print(f"{result['machine']}, {result['gb']} GB")
    for kind in ("write", "read"):
        ratio = speed[f"{kind} ratio"]
        dd_speed = speed[f"dd {kind}"]
        print(f"{kind:>6}: dd {dd_speed:,.0f} MB/s, ours {speed[kind]:,.0f}, ratio {ratio:.2f}")
    for kind, times in job["stall_s"].items():
        if times:
            share = job["share_at_one_a_minute"][kind]
            told = ", ".join(f"{one:.3f}" for one in times)
            print(f"{kind:>6}: stalls of {told} s; {share:.2%} of the time at one a minute")
    without, writing = job["samples_per_s_without"], job["samples_per_s_while_writing"]
    print(f"  rate: {without:,.0f} samples/s without, {writing:,.0f} with checkpoints written")
    for share, size in result["delta"].items():
        print(f" delta: {float(share):.1%} of rows touched, {size:.2%} of a base's bytes")


if __name__ == "__main__":
    main()
