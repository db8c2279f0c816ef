"""The command line: the dry run, and one clear message for every mistake."""

import os
import stat
import subprocess
import sys

import pytest
from conftest import ROOT, submit

EXAMPLE = "examples/movielens.toml"
NO_SLURM = {"PATH": "/nonexistent"}


def test_the_dry_run_needs_no_slurm_and_shows_both_components():
    done = submit(EXAMPLE, "--dry-run", "trainer.partition=gpu", env=NO_SLURM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!/bin/bash\n")
    assert done.stdout.count("#SBATCH hetjob") == 1
    assert "#SBATCH --partition=gpu" in done.stdout
    assert "--het-group=1" in done.stdout


def test_the_readmes_commands_for_a_cluster_are_accepted(tmp_path):
    readme = (ROOT / "README.md").read_text()
    shown = readme.replace("\\\n", " ").splitlines()
    (command,) = (line for line in shown if "ps.partition=bigmem" in line)
    words = [word for word in command.split() if "=" in word]
    done = submit(EXAMPLE, "--dry-run", *words)
    assert done.returncode == 0, done.stderr
    block = readme.split("```toml\n")[1].split("```")[0]
    job_file = tmp_path / "job.toml"
    data = '[data]\nformat = "synthetic"\nnum_samples = 9\nnum_dense = 1\n'
    job_file.write_text('name = "x"\n' + block + data)
    done = submit(job_file, "--dry-run")
    assert done.returncode == 0, done.stderr


def test_setup_environment_and_container_reach_the_script():
    done = submit(
        EXAMPLE, "--dry-run",
        "slurm.setup=['module load x', 'source env/bin/activate']",
        "slurm.environment={OMP_NUM_THREADS='2', NOTE='a b'}",
        "slurm.srun_flags={container-image='/img/t.sqsh', container-mounts='/data'}",
        "trainer.srun_flags={container-image='/img/gpu.sqsh'}",
        "slurm.task_python=/usr/bin/python3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\nmodule load x\nsource env/bin/activate\n" in done.stdout
    assert "export NOTE='a b'\n" in done.stdout
    steps = [line for line in done.stdout.splitlines() if "--het-group=" in line]
    assert "--container-image=/img/t.sqsh --container-mounts=/data" in steps[0]
    assert "--container-image=/img/gpu.sqsh --container-mounts=/data" in steps[1]
    assert "    /usr/bin/python3 -u -m submitit" in done.stdout


def test_the_dry_run_is_the_same_each_time():
    first, second = (submit(EXAMPLE, "--dry-run").stdout for _ in range(2))
    assert first == second


def test_the_dry_run_imports_neither_torch_nor_the_readers():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "submit.py", EXAMPLE, "--dry-run"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "submitit" in imported
    assert not imported & {"torch", "pyarrow", "numpy.linalg", "tensorboard"}


def test_a_dry_run_leaves_nothing(tmp_path):
    submit(EXAMPLE, "--dry-run", f"run_folder={tmp_path / 'run'}")
    assert not list(tmp_path.iterdir())


def test_without_slurm_the_local_executor_is_offered():
    done = submit(EXAMPLE, env=NO_SLURM)
    assert done.returncode == 1
    assert "sbatch is not on the PATH" in done.stderr
    assert "--executor local" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["trainer.node=2"], "trainer.node: no such key (given: 2). Did you mean trainer.nodes?"),
        (["--executor", "slrum"], "--executor is 'slrum', but must be slurm or local"),
        (["ps.time=1:2:3:4"], "ps.time"),
        (["ps.flags={nodes=3}"], "nodes"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(arguments, expected):
    done = submit(EXAMPLE, "--dry-run", *arguments)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_job_file_is_one_message():
    done = submit("nowhere.toml", "--dry-run")
    assert done.returncode == 2
    assert "cannot read the job file nowhere.toml: No such file or directory" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_folder_without_permission_is_one_message(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = submit(EXAMPLE, "--executor", "local", f"run_folder={tmp_path / 'run'}")
    assert done.returncode == 1
    assert "cannot write the run folder" in done.stderr


def test_a_run_folder_that_cannot_be_made_is_one_message():
    done = submit(EXAMPLE, "--executor", "local", "run_folder=/proc/hybridjob")
    assert done.returncode == 1
    assert "cannot write the run folder /proc/hybridjob" in done.stderr
    assert "run_folder=PATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_fits_a_terminal_of_80_columns():
    done = subprocess.run(
        [sys.executable, "submit.py", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
    )  # fmt: skip
    assert "--dry-run" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
