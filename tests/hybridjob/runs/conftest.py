"""Folders of runs as training would leave them, made without training."""

import json
import os
from dataclasses import asdict

import pytest

from hybridjob.failures import Failure
from hybridjob.jobfolder import JobFolder
from hybridjob.origin import Origin
from hybridjob.ranks import RankRecord, write_rank
from hybridjob.runs.find import find_run
from slurm.command import CommandResult
from slurm.errors import CommandError

NOW = 1_800_000_000.0
JOB_FILE = """\
name = "{name}"
[ps]
tasks_per_node = 2
[trainer]
tasks_per_node = 2
[data]
format = "synthetic"
num_samples = 9
num_dense = 1
"""
SUMMARY = {
    "state": "completed",
    "name": "clicks",
    "final_step": 900,
    "final_loss": 0.25,
    "test": {"auc": 0.75},
}


class RunFolder:
    """One job's folder, filled bit by bit."""

    def __init__(self, root, job_id, name):
        self.folder = JobFolder(root / name / job_id)
        self.folder.create()
        self.folder.path.chmod(0o700)
        self.folder.job_file.write_text(JOB_FILE.format(name=name))
        (self.folder.path / f"{job_id}_submitted.pkl").touch()
        self.job_id, self.name = job_id, name

    @property
    def run(self):
        return find_run(str(self.folder.path), self.folder.path)

    def origin(self, **values):
        note = Origin(executor="slurm", **values)
        self.folder.origin.write_text(json.dumps(asdict(note)))
        os.utime(self.folder.origin, (note.submitted, note.submitted))
        return self

    def life(self, life=0, attempt=0, *, step=0, time=NOW - 600, host="n0"):
        line = {"life": life, "attempt": attempt, "host": host, "step": step, "time": time}
        with self.folder.lives.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return self

    def leave(self, signal, life=0, time=NOW - 300):
        line = {"life": life, "attempt": 0, "signal": signal, "time": time}
        with self.folder.leaves.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return self

    def metrics(self, *lines):
        with self.folder.metrics.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return self

    def summary(self, **changes):
        self.folder.summary.write_text(json.dumps({**SUMMARY, "name": self.name, **changes}))
        return self

    def failure(self, generation="0.0.0", **values):
        values = {"rank": 2, "role": "ps1", "host": "n0", "message": "no memory", **values}
        path = self.folder.failure(generation)
        path.write_text(json.dumps(asdict(Failure(**values))))
        return self

    def rank(self, rank, name, **values):
        record = {"host": "n0", "component": 0, "pid": 4000 + rank, "generation": "0.0.0"}
        record = {**record, "started": NOW - 500, **values}
        write_rank(self.folder, RankRecord(rank=rank, name=name, **record))
        return self

    def log(self, rank, name, text, generation="0.0.0"):
        self.folder.log(rank, name, generation).write_text(text)
        return self


@pytest.fixture
def make_run(tmp_path):
    """Make a job's folder: make_run("67", "clicks")."""

    def make(job_id="67", name="clicks"):
        return RunFolder(tmp_path / "runs", job_id, name)

    return make


@pytest.fixture
def slurm_says():
    """Make what runs commands: squeue's lines, or an error; sacct's lines."""

    def make(squeue="", sacct=None):
        asked = []

        def run(argv, *, timeout_s, env=None):
            asked.append(list(argv))
            answer = {"squeue": squeue, "sacct": sacct, "scontrol": ""}.get(argv[0])
            if answer is None:
                raise CommandError(f"{argv[0]} is not on the PATH")
            if isinstance(answer, Exception):
                raise answer
            if argv[-1] == "%i|%T":  # what healing asks for
                answer = "".join("|".join(one.split("|")[:2]) + "\n" for one in answer.split("\n"))
            return CommandResult(stdout=answer, stderr="")

        run.asked = asked
        return run

    return make
