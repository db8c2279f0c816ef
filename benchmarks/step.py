"""How many samples a second: `make bench`, or `python benchmarks/step.py [--rounds 3] [...]`.

Trains shapes A (one table 1M x 64, 26 ids a sample, 4096 samples a trainer) and B (26 tables
100k x 16, one id each, 13 dense columns, DLRM-like, 2048 samples a trainer) with 2 trainers, by
whole jobs on the local executor, and the references beside them, in turn within each round. Prints
medians over the rounds and ratios, and writes them to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from shapes import job_text  # noqa: E402

_ZIPF = {"A": 0.0, "B": 1.05}
PRODUCT = {
    "hybridjob": (),
    "hybridjob, torch kernels": ("training.kernels=torch",),
    "hybridjob, staleness 1": ("training.mode=async", "training.staleness=1"),
}
REFERENCES = ("tutorial", "plain", "torchrec", "limit")


def run_product(job_file: Path, folder: Path, overrides: tuple[str, ...]) -> float:
    """Run a job; give the median samples/s of its reports, the first two left out."""
    command = [sys.executable, str(ROOT / "submit.py"), str(job_file), "--executor", "local"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}
    subprocess.run(
        [*command, f"run_folder={folder}", *overrides],
        check=True, capture_output=True, timeout=300, env=environment,
    )  # fmt: skip
    (metrics,) = folder.glob("*/metrics.jsonl")
    reports = [json.loads(line) for line in metrics.open()]
    subprocess.run(["rm", "-r", str(folder)], check=True)
    return statistics.median(report["samples_per_s"] for report in reports[2:])


def run_reference(kind: str, job_file: Path) -> float | None:
    """Run a reference in processes of its own; None if it cannot run here."""
    command = [sys.executable, str(ROOT / "benchmarks" / "references.py"), kind, str(job_file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        print(f"  {kind} cannot be measured: {last}")
        return None
    return float(json.loads(done.stdout.splitlines()[-1])["samples_per_s"])


def measure(name: str, job_file: Path, folder: Path) -> float | None:
    """Measure one contender."""
    if name in PRODUCT:
        return run_product(job_file, folder / "run", PRODUCT[name])
    return run_reference(name, job_file)


def main() -> None:
    """Measure all in turn, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--shapes", nargs="+", choices=["A", "B"], default=["A", "B"])
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "rowwise_adagrad"])
    parser.add_argument("--only", nargs="+", choices=[*PRODUCT, *REFERENCES])
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--zipf", type=float, help="exponent of the ids; A 0, B 1.05 if not given")
    parser.add_argument("--out", type=Path, default=Path("step-benchmark.json"))
    given = parser.parse_args()
    contenders = given.only or [*PRODUCT, *REFERENCES]
    results = []
    for shape in given.shapes:
        for optimizer in given.optimizers:
            zipf = _ZIPF[shape] if given.zipf is None else given.zipf
            text = job_text(
                shape, optimizer=optimizer, zipf=zipf, steps=given.steps, servers=given.servers
            )
            case = {"shape": shape, "optimizer": optimizer, "zipf": zipf, "servers": given.servers}
            rates = measure_case(text, contenders, given.rounds)
            results.append({**case, "samples_per_s": rates})
            show(results[-1])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    machine = {"cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1)}
    given.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


def measure_case(text: str, contenders: list[str], rounds: int) -> dict[str, list[float]]:
    """Measure all contenders on one job file, round by round."""
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        job_file = Path(name) / "job.toml"
        job_file.write_text(text)
        for _ in range(rounds):
            for contender in contenders:
                rate = measure(contender, job_file, Path(name))
                if rate is None:
                    contenders = [one for one in contenders if one != contender]
                else:
                    rates.setdefault(contender, []).append(rate)
    return rates


def show(result: dict[str, Any]) -> None:
    """Print one case: medians, and ratios to each reference."""
    print("{shape}, {optimizer}, zipf {zipf}, {servers} server(s)".format(**result))
    medians = {name: statistics.median(rates) for name, rates in result["samples_per_s"].items()}
    references = [name for name in REFERENCES if name in medians]
    print(f"  {'':<26}{'samples/s':>10}" + "".join(f"{'/ ' + one:>12}" for one in references))
    for name, median in medians.items():
        ratios = "".join(f"{median / medians[one]:>12.2f}" for one in references)
        print(f"  {name:<26}{median:>10,.0f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
