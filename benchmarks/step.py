"""How many samples a second: `make bench`, or `python benchmarks/step.py [--rounds 3] [...]`.

Trains by whole jobs on the local executor with 2 trainers, and the references beside them, in turn
within each round; prints medians over the rounds and ratios, and writes them to a file.

A  one table 1M x 64, 26 ids a sample, sum, 4096 samples a trainer, against the references
B  26 tables 100k x 16, one id each, 13 dense columns, DLRM-like, 2048 samples a trainer, likewise
C  as A with 16 columns and 100k to 50M rows, against that of 1M rows
D  as A on one to four servers of one thread each, against one server
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from shapes import job_text  # noqa: E402

_TIMEOUT_S = 900
PRODUCT = {
    "hybridjob": (),
    "hybridjob, torch kernels": ("training.kernels=torch",),
    "hybridjob, staleness 1": ("training.mode=async", "training.staleness=1"),
    "hybridjob, bfloat16": ("model.table_data_type=bfloat16", "training.wire_data_type=bfloat16"),
}
REFERENCES = ("tutorial", "plain", "torchrec", "limit")
ROWS = {"100k rows": 100_000, "1M rows": 1_000_000, "10M rows": 10_000_000, "50M rows": 50_000_000}


@dataclass(frozen=True)
class Contender:
    """A job to be trained: by the product with overrides, or by the reference of that name."""

    name: str
    job_text: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What runs in turn, and which of them the others are divided by."""

    title: str
    contenders: list[Contender]
    against: tuple[str, ...]


def comparisons(given: argparse.Namespace) -> Iterator[Comparison]:
    """Give what was asked for on the command line."""
    for shape in given.shapes:
        for optimizer in given.optimizers:
            if shape in "AB":
                for zipf in given.zipf:
                    yield _with_references(shape, optimizer, zipf, given.steps)
            elif shape == "C":
                texts = {
                    name: job_text("A", optimizer=optimizer, steps=given.steps, rows=rows, dim=16)
                    for name, rows in ROWS.items()
                }
                yield _of_one_another(f"C, {optimizer}", texts, "1M rows")
            else:
                texts = {
                    f"{count} server" + "s" * (count > 1): job_text(
                        "A", optimizer=optimizer, steps=given.steps, servers=count, server_threads=1
                    )
                    for count in range(1, 5)
                }
                yield _of_one_another(f"D, {optimizer}", texts, "1 server")


def _with_references(shape: str, optimizer: str, zipf: float, steps: int) -> Comparison:
    text = job_text(shape, optimizer=optimizer, zipf=zipf, steps=steps)
    names = f"Zipf {zipf}" if zipf else "uniform"
    contenders = [Contender(name, text, overrides) for name, overrides in PRODUCT.items()]
    contenders += [Contender(name, text) for name in REFERENCES]
    return Comparison(f"{shape}, {optimizer}, {names} ids", contenders, REFERENCES)


def _of_one_another(title: str, texts: dict[str, str], against: str) -> Comparison:
    return Comparison(title, [Contender(name, text) for name, text in texts.items()], (against,))


def measure(one: Contender) -> float | None:
    """Give samples/s; None if a reference cannot run here."""
    with tempfile.TemporaryDirectory() as folder:
        job_file = Path(folder) / "job.toml"
        job_file.write_text(one.job_text)
        if one.name in REFERENCES:
            return run_reference(one.name, job_file)
        return run_product(job_file, Path(folder) / "run", one.overrides)


def run_product(job_file: Path, folder: Path, overrides: tuple[str, ...]) -> float:
    """Run a job; give the median samples/s of its reports, the first two left out."""
    command = [sys.executable, str(ROOT / "submit.py"), str(job_file), "--executor", "local"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}
    subprocess.run(
        [*command, f"run_folder={folder}", "checkpoint.every_minutes=0", *overrides],
        check=True, capture_output=True, timeout=_TIMEOUT_S, env=environment,
    )  # fmt: skip
    (metrics,) = folder.glob("*/metrics.jsonl")
    reports = [json.loads(line) for line in metrics.open()]
    shutil.rmtree(folder)
    return statistics.median(report["samples_per_s"] for report in reports[2:])


def run_reference(kind: str, job_file: Path) -> float | None:
    """Run a reference in processes of its own; None if it cannot run here."""
    command = [sys.executable, str(ROOT / "benchmarks" / "references.py"), kind, str(job_file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        print(f"  {kind} cannot be measured: {last}")
        return None
    return float(json.loads(done.stdout.splitlines()[-1])["samples_per_s"])


def measure_all(comparison: Comparison, rounds: int) -> dict[str, list[float]]:
    """Measure round by round: name -> samples/s of each round."""
    rates: dict[str, list[float]] = {}
    contenders = comparison.contenders
    for _ in range(rounds):
        for one in contenders:
            rate = measure(one)
            if rate is None:
                contenders = [other for other in contenders if other is not one]
            else:
                rates.setdefault(one.name, []).append(rate)
    return rates


def show(comparison: Comparison, rates: dict[str, list[float]]) -> None:
    """Print medians, their spread, and ratios."""
    print(comparison.title)
    medians = {name: statistics.median(own) for name, own in rates.items()}
    against = [name for name in comparison.against if name in medians]
    heads = "".join(f"{'/ ' + name:>12}" for name in against)
    print(f"  {'':<26}{'samples/s':>10}{'lowest':>10}{'highest':>10}{heads}")
    for name, median in medians.items():
        ratios = "".join(f"{median / medians[one]:>12.2f}" for one in against)
        spread = f"{min(rates[name]):>10,.0f}{max(rates[name]):>10,.0f}"
        print(f"  {name:<26}{median:>10,.0f}{spread}{ratios}", flush=True)


def main() -> None:
    """Measure all that is asked, print tables, write JSON after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--shapes", nargs="+", choices=list("ABCD"), default=list("ABCD"))
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "rowwise_adagrad"])
    parser.add_argument("--zipf", nargs="+", type=float, default=[0.0, 1.05])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="Only these contenders.")
    parser.add_argument("--out", type=Path, default=Path("step-benchmark.json"))
    given = parser.parse_args()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    machine = {"cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1)}
    results = []
    for comparison in comparisons(given):
        own = [one for one in comparison.contenders if not given.only or one.name in given.only]
        chosen = Comparison(comparison.title, own, comparison.against)
        rates = measure_all(chosen, given.rounds)
        show(chosen, rates)
        results.append({"title": chosen.title, "samples_per_s": rates})
        given.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
