"""Does a long run stay as it began? `python benchmarks/steady.py [--steps 10000] [--shape A]`.

Trains one job on the local executor. Prints the resident memory of every process over the run, and
how the time of a step, from one forward pass of a trainer to the next, is spread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import shapes  # noqa: E402

if TYPE_CHECKING:
    from torch import nn

    from hybridjob import Table
    from hybridjob.schema import Schema

_SAMPLE_EVERY_S = 2.0
_WARM_UP = 0.2
"""Share of the run that is left out."""
_TIMES = "STEADY_TIMES"
_STEPS = "STEADY_STEPS"


def factory(schema: Schema, *, dim: int) -> tuple[nn.Module, list[Table]]:
    """Make the shape's model; it writes down when each of its forward passes begins."""
    module, tables = shapes.factory(schema, dim=dim)
    begun: list[float] = []

    def note(*_: Any) -> None:
        begun.append(time.perf_counter())
        if len(begun) == int(os.environ[_STEPS]):
            np.save(Path(os.environ[_TIMES]) / f"{os.getpid()}.npy", np.array(begun))

    module.register_forward_pre_hook(note)
    return module, tables


def resident_mb(pid: int) -> float:
    """Give the memory of a process that lies in RAM."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def train(text: str, folder: Path, steps: int) -> dict[str, list[float]]:
    """Run the job; give each rank's memory in MB, sampled from its first report to its end."""
    (folder / "job.toml").write_text(text.replace("shapes:factory", "steady:factory"))
    command = [sys.executable, str(ROOT / "submit.py"), "job.toml", "--executor", "local"]
    job = subprocess.Popen(
        [*command, "run_folder=run", "checkpoint.every_minutes=0", "training.log_every_steps=100"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "benchmarks"),
            _TIMES: str(folder),
            _STEPS: str(steps),
        },
    )
    memory: dict[str, list[float]] = {}
    while job.poll() is None:
        time.sleep(_SAMPLE_EVERY_S)
        for metrics in folder.glob("run/*/metrics.jsonl"):
            if metrics.stat().st_size == 0:
                continue
            for path in metrics.parent.glob("ranks/*.json"):
                record = json.loads(path.read_text())
                try:
                    memory.setdefault(record["name"], []).append(resident_mb(record["pid"]))
                except FileNotFoundError:  # it has ended meanwhile
                    continue
    if job.returncode != 0:
        raise SystemExit("the job failed")
    return memory


def main() -> None:
    """Run, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--shape", choices=["A", "B"], default="A")
    parser.add_argument("--optimizer", default="rowwise_adagrad")
    parser.add_argument("--out", type=Path, default=Path("steady-benchmark.json"))
    given = parser.parse_args()
    text = shapes.job_text(given.shape, optimizer=given.optimizer, steps=given.steps)
    with tempfile.TemporaryDirectory() as name:
        memory = train(text, Path(name), given.steps)
        times = [np.load(path) for path in sorted(Path(name).glob("*.npy"))]
    print(f"{given.shape}, {given.optimizer}, {given.steps:,} steps")
    print(f"  {'MB':<10}{'at 20%':>9}{'at 60%':>9}{'at 100%':>9}{'growth':>9}")
    for rank, samples in memory.items():
        parts = [samples[min(len(samples) - 1, int(share * len(samples)))] for share in (0.2, 0.6)]
        first, middle, last = *parts, samples[-1]
        growth = f"{100 * (last / first - 1):+.1f}%"
        print(f"  {rank:<10}{first:>9,.0f}{middle:>9,.0f}{last:>9,.0f}{growth:>9}")
    spread = []
    for one in times:
        steps = np.diff(one[int(_WARM_UP * len(one)) :]) * 1e3
        quantiles = np.quantile(steps, [0.5, 0.9, 0.99, 1.0])
        spread.append([round(float(value), 2) for value in quantiles])
        median, ninety, ninety_nine, most = spread[-1]
        print(
            f"  ms a step: median {median:.1f}, 90% {ninety:.1f}, 99% {ninety_nine:.1f} "
            f"({ninety_nine / median:.2f} of the median), longest {most:.1f}"
        )
    result = {"shape": given.shape, "steps": given.steps, "memory_mb": memory, "step_ms": spread}
    given.out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
