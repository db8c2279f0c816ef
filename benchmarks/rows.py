"""Does a step's cost depend on the rows of the table? `python benchmarks/rows.py [--rounds 3]`.

Trains the same synthetic data shape on tables of several sizes, in turn within each round, by the
local executor with 1 server and 1 trainer, and prints the median samples/s and their ratio to the
smallest table's. The first report of a run is left out: it holds the start.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOB = """
name = "rows"
[model.options]
embedding_dim = 16
[data]
format = "synthetic"
num_samples = 400_000
num_dense = 13
[[data.features]]
name = "ids"
cardinality = {rows}
ids_per_sample = 26
[training]
batch_size = 2048
max_steps = 120
log_every_steps = 20
evaluate = "never"
[training.table_optimizer]
name = "rowwise_adagrad"
"""


def measure(rows: int) -> float:
    """Run one job; give the median samples/s of its reports."""
    with tempfile.TemporaryDirectory() as folder:
        job_file = Path(folder) / "job.toml"
        job_file.write_text(JOB.format(rows=rows))
        command = [sys.executable, str(ROOT / "submit.py"), str(job_file), "--executor", "local"]
        subprocess.run(
            [*command, f"run_folder={folder}/run"], check=True, capture_output=True, timeout=600
        )
        (metrics,) = Path(folder).glob("run/*/metrics.jsonl")
        reports = [json.loads(line) for line in metrics.open()]
    return statistics.median(report["samples_per_s"] for report in reports[1:])


def main() -> None:
    """Run all sizes in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    given = parser.parse_args()
    speeds: dict[int, list[float]] = {rows: [] for rows in given.rows}
    for _ in range(given.rounds):
        for rows in given.rows:
            speeds[rows].append(measure(rows))
    first = statistics.median(speeds[given.rows[0]])
    print(f"{'rows':>12} {'samples/s':>12} {'ratio':>7}")
    for rows, measured in speeds.items():
        median = statistics.median(measured)
        print(f"{rows:>12,} {median:>12,.0f} {median / first:>7.2f}")


if __name__ == "__main__":
    main()
