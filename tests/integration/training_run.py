"""Whole training jobs, started as a person starts them, and what they leave."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYOUT = ("master", "ps0", "ps1", "trainer0", "trainer1")
RANKS = [f"rank-{rank:03d}-{name}" for rank, name in enumerate(LAYOUT)]

JOB = """
name = "tiny"
seed = 5
[ps]
partition = "bigmem"
nodes = 2
[trainer]
partition = "gpu"
nodes = 2
[network]
rendezvous_timeout_s = 60
[model]
factory = "click"
[model.options]
embedding_dim = 4
bottom = [4]
top = [8]
[training]
batch_size = 32
max_steps = 30
epochs = 4
log_every_steps = 1
[checkpoint]
every_steps = 0
[data]
format = "synthetic"
num_samples = 400
num_dense = 3
[[data.features]]
name = "single"
cardinality = 50
[[data.features]]
name = "bag"
cardinality = 23
ids_per_sample = [0, 5]
"""


LONGER = ("training.max_steps=300", "training.epochs=1000", "checkpoint.every_steps=25")
"""What makes of it a job that can be disturbed; its digest is that of 2 servers and 2 trainers."""


def write_job(folder):
    """Write the job file, and a slow model beside it; give the file."""
    shutil.copy(Path(__file__).parent / "slow_model.py", folder)
    path = folder / "tiny.toml"
    path.write_text(JOB)
    return path


@dataclass(frozen=True)
class Training:
    """One job's folder, and what submit.py said."""

    folder: Path
    returncode: int = 0
    stdout: str = ""
    stderr: str = ""

    @property
    def said(self) -> str:
        """All that a person saw."""
        return self.stdout + self.stderr

    @property
    def job_id(self) -> str:
        """Slurm's, of the leader."""
        return self.folder.name

    @property
    def summary(self) -> dict:
        """The run's end."""
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def summary_is_there(self) -> bool:
        """Whether the run has said how it ended."""
        return (self.folder / "summary.json").exists()

    @property
    def metrics(self) -> list[dict]:
        """What has been measured so far."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def logs(self) -> list[str]:
        """The names of the ranks' logs, as in `rank-001-ps0.gen-0.0.0`."""
        return sorted(path.stem for path in (self.folder / "logs").iterdir())

    @property
    def ranks_with_logs(self) -> list[str]:
        """Who has a log, as in `rank-001-ps0`, once for each of the rank's generations."""
        return [name.partition(".gen-")[0] for name in self.logs]

    @property
    def step(self) -> int:
        """The last step that was reported."""
        return self.metrics[-1]["step"] if self.metrics else 0

    @property
    def lives(self) -> list[dict]:
        """What each life wrote when it began."""
        return [json.loads(line) for line in (self.folder / "lives.jsonl").open()]

    def log(self, name: str, generation: str = "*") -> str:
        """Give the text of the log of a rank's generation, the only one if none is named."""
        (path,) = (self.folder / "logs").glob(f"rank-*-{name}.gen-{generation}.log")
        return path.read_text()


def submit(run_folder, job_file, *arguments, cluster=None, timeout_s=200):
    """Run submit.py to its end, as a person on a login node."""
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "submit.py"), str(job_file)),
            *(f"run_folder={run_folder}", *arguments),
        ],
        cwd=job_file.parent,
        env={**os.environ, **(cluster.environment() if cluster else {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Training(_job_folder(run_folder), done.returncode, done.stdout, done.stderr)


def follow(run):
    """Give the job that submit.py left running."""
    assert run.returncode == 0, run.said
    job_id = run.stdout.split()[1].rstrip(":")
    return Training(run.folder if run.folder.name == job_id else run.folder / job_id)


def _job_folder(run_folder):
    folders = [one for one in run_folder.glob("*") if one.is_dir()]
    return folders[0] if folders else run_folder


def edited(template, changes):
    """Fill in a ready-made template: changes has, by component, what its CHANGE lines become.

    Lines that are marked CHANGE and not in `changes` lose nothing; a change that fits no such line
    is an error, so that a template which loses an option is noticed.
    """
    component, used, lines = 0, set(), []
    for line in (ROOT / "sbatch_templates" / template).read_text().splitlines():
        component += line == "#SBATCH hetjob"
        if "# CHANGE" in line:
            head = line.partition("#" if not line.startswith("#") else " # ")[0]
            key = head.partition("=")[0].removeprefix("#SBATCH --").strip()
            where = (component, key)
            if where in changes:
                used.add(where)
                line = f"{head.partition('=')[0]}={changes[where]}"  # noqa: PLW2901 - it is replaced
        lines.append(line)
    unused = set(changes) - used
    assert not unused, f"{template} has no CHANGE line for {unused}"
    return "\n".join(lines) + "\n"


def submit_by_hand(cluster, folder, text, job_file, *arguments, **variables):
    """Submit an edited template with plain sbatch; return the job's id."""
    script = folder / "by_hand.sbatch"
    script.write_text(text)
    argv = ["sbatch", "--parsable", f"--chdir={folder}", str(script), str(job_file), *arguments]
    return cluster.run(
        argv, PYTHON=sys.executable, PYTHONPATH=str(ROOT), **variables
    ).stdout.strip()


def processes_of(run_folder):
    """Find the living processes that were started for a run: id -> environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        if str(run_folder).encode() in environment + command:
            pairs = (part.partition("=") for part in environment.decode().split("\0"))
            found[int(entry.name)] = {
                **{name: value for name, _, value in pairs},
                "command": command.decode().replace("\0", " "),
            }
    return found
