"""How long a job takes to come back. `python benchmarks/recovery.py [--gb 0.5] [--rounds 3]`.

A job of 2 servers and 2 trainers on this machine is at work; then a trainer's worker is killed, and
later the job is warned, saves, leaves and begins another life. Seconds from the kill, or from the
new life's begin, to the first step, split by the time stamps of what the job itself writes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
_DEADLINE_S = 300
JOB = """
name = "recovery"
[ps]
tasks_per_node = 2
[trainer]
tasks_per_node = 2
[model.options]
embedding_dim = 64
[data]
format = "synthetic"
num_samples = 100_000_000
num_dense = 13
[[data.features]]
name = "ids"
cardinality = {rows}
[training]
batch_size = 512
log_every_steps = 1
evaluate = "never"
[checkpoint]
every_steps = 100
"""
EVENTS = ("all ranks are here", "tables ready", "training begins")


class Running:
    """A job at work."""

    def __init__(self, folder: Path, rows: int) -> None:
        (folder / "job.toml").write_text(JOB.format(rows=rows))
        command = [sys.executable, str(ROOT / "submit.py"), "job.toml", "--executor", "local"]
        self._process = subprocess.Popen(
            [*command, f"run_folder={folder / 'run'}"], cwd=folder, stdout=subprocess.DEVNULL
        )
        self._run = folder / "run"

    def stop(self) -> None:
        """Save and end."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=_DEADLINE_S)

    @property
    def folder(self) -> Path:
        """The job's."""
        return next(one for one in self._run.iterdir() if one.is_dir())

    def wait(self, what: Callable[[], Any]) -> Any:
        """Poll until there is something."""
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            try:
                if found := what():
                    return found
            except (FileNotFoundError, StopIteration, ValueError):
                pass
            time.sleep(0.02)
        raise TimeoutError(what)

    def record(self, rank: int) -> dict[str, Any]:
        """Where a rank's newest worker is."""
        return dict(json.loads((self.folder / "ranks" / f"{rank:03d}.json").read_text()))

    def first_step_after(self, moment: float) -> float | None:
        """When the first step after a moment was reported."""
        lines = (self.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
        times = [json.loads(line)["time"] for line in lines[-4000:] if line.endswith("\n")]
        return next((one for one in times if one > moment), None)

    def events_of(self, generation: str) -> dict[str, float]:
        """When the master wrote each of EVENTS."""
        (log,) = (self.folder / "logs").glob(f"rank-000-*.gen-{generation}.log")
        found = {}
        for line in log.read_text().splitlines():
            for event in EVENTS:
                if event in line:
                    found[event] = dt.datetime.fromisoformat(line[:23]).timestamp()
        return found

    def phases(self, begin: float, generation: str, more: dict[str, float]) -> dict[str, float]:
        """Split the time from a moment to the first step of a new generation."""
        self.wait(lambda: self.record(0)["generation"] == generation)
        events = self.wait(lambda: len(found := self.events_of(generation)) == 3 and found)
        marks = {
            **more,
            "worker started": self.record(0)["started"],
            "imports, all ranks meet": events["all ranks are here"],
            "tables read": events["tables ready"],
            "trainers told": events["training begins"],
        }
        marks["first step"] = self.wait(lambda: self.first_step_after(events["training begins"]))
        spent, before = {}, begin
        for name, moment in marks.items():
            spent[name], before = moment - before, moment
        return {**spent, "together": before - begin}


def measure(folder: Path, rows: int) -> dict[str, dict[str, float]]:
    """Kill, then warn."""
    run = Running(folder, rows)
    try:
        run.wait(lambda: list(run.folder.glob("checkpoints/step-*")))
        killed = time.time()
        os.kill(run.record(3)["pid"], signal.SIGKILL)
        failure = run.wait(lambda: list((run.folder / "failures").glob("gen-0.0.0.json")))[0]
        kill = run.phases(killed, "0.0.1", {"noticed": failure.stat().st_mtime})
        stat = Path(f"/proc/{run.record(3)['pid']}/stat").read_text()
        parent = int(stat.rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGUSR2)
        lives = run.folder / "lives.jsonl"
        run.wait(lambda: len(lives.read_text().splitlines()) == 2)
        begun = json.loads(lives.read_text().splitlines()[1])["time"]
        life = run.phases(begun, "1.0.0", {})
    finally:
        run.stop()
    return {"SIGKILL of a worker": kill, "a requeued life": life}


def main() -> None:
    """Measure and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=0.5, help="tables and their Adagrad sums")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("recovery-benchmark.json"))
    given = parser.parse_args()
    rows = int(given.gb * 1e9) // (2 * 64 * 4)
    found = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
            found.append(measure(Path(name), rows))
    result = {
        what: {
            phase: statistics.median(one[what][phase] for one in found) for phase in found[0][what]
        }
        for what in found[0]
    }
    given.out.write_text(json.dumps({"gb": given.gb, **result}, indent=1) + "\n")
    for what, spent in result.items():
        print(f"{what}, tables of {given.gb} GB:")
        for phase, seconds in spent.items():
            print(f"  {phase:<24} {seconds:6.2f} s")


if __name__ == "__main__":
    main()
