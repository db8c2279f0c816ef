"""Runs of whole jobs on this machine."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from hybridjob.checkpoint.files import read_tensors

ROOT = Path(__file__).resolve().parents[2]
_SHARD = re.compile(r"table-(?P<table>.+)\.(?P<start>\d+)-\d+\.safetensors")


@dataclass(frozen=True)
class Run:
    """What `python submit.py` did."""

    returncode: int
    stdout: str
    stderr: str
    run_folder: Path

    @property
    def folder(self):
        (folder,) = (one for one in self.run_folder.iterdir() if one.is_dir())
        return folder

    @property
    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def metrics(self):
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").open()]

    @property
    def checkpoint(self):
        return max((self.folder / "checkpoints").glob("step-*"))

    def tables(self):
        """Give table -> tensor name -> all rows, from the last checkpoint."""
        shards = {}
        for path in self.checkpoint.glob("table-*.safetensors"):
            match = _SHARD.fullmatch(path.name)
            part = (int(match["start"]), read_tensors(path))
            shards.setdefault(match["table"], []).append(part)
        return {
            table: {
                name: torch.cat([tensors[name] for _, tensors in sorted(parts, key=lambda p: p[0])])
                for name in parts[0][1]
            }
            for table, parts in shards.items()
        }

    def dense(self):
        """Give the dense parameters by name, from the last checkpoint."""
        tensors = read_tensors(self.checkpoint / "dense.safetensors")
        return {name[7:]: one for name, one in tensors.items() if name.startswith("module/")}


def submit(job_file, *arguments, cwd=ROOT, env=None, timeout_s=180):
    """Run submit.py to its end."""
    return subprocess.run(
        [sys.executable, str(ROOT / "submit.py"), str(job_file), *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.fixture
def run_job(tmp_path):
    """Run a job file's text on the local executor: run_job(text, *overrides) -> Run."""
    count = iter(range(100))

    def run(text, *overrides, **more):
        number = next(count)
        job_file = tmp_path / f"job-{number}.toml"
        job_file.write_text(text)
        run_folder = tmp_path / f"run-{number}"
        arguments = ("--executor", "local", f"run_folder={run_folder}", *overrides)
        done = submit(job_file, *arguments, **more)
        return Run(done.returncode, done.stdout, done.stderr, run_folder)

    return run
