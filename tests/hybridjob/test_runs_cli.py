"""The commands for runs as a person types them: one message for every mistake, quick, no torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from hybridjob.cli import main; main()"
JOB = 'name = "{name}"\n[data]\nformat = "synthetic"\nnum_samples = 9\nnum_dense = 1\n'


@pytest.fixture
def login(tmp_path):
    """A login node: login(*words) runs hybridjob; login.slurm(name, script) makes a command."""
    commands = tmp_path / "bin"
    commands.mkdir()

    def hybridjob(*words, python=("-c", MAIN)):
        return subprocess.run(
            [sys.executable, *python, *words],
            cwd=tmp_path,
            env={"PATH": str(commands), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def slurm(name, script):
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)

    hybridjob.slurm = slurm
    return hybridjob


@pytest.fixture
def job_folder(tmp_path):
    """A job that has run and saved nothing."""
    folder = tmp_path / "runs" / "clicks" / "67"
    (folder / "logs").mkdir(parents=True)
    (folder / "job.toml").write_text(JOB.format(name="clicks"))
    life = {"life": 0, "attempt": 0, "host": "n0", "step": 0, "time": 1_800_000_000.0}
    (folder / "lives.jsonl").write_text(json.dumps(life) + "\n")
    line = "2026-12-01 09:00:0{rank}.000 {name}/{rank} INFO hello\n"
    for rank, name in enumerate(["master", "ps0", "trainer0"]):
        log = folder / "logs" / f"rank-00{rank}-{name}.gen-0.0.0.log"
        log.write_text(line.format(rank=rank, name=name))
    return folder


@pytest.mark.parametrize("words", [["ls"], ["status"], ["logs", "67"]])
def test_the_commands_import_neither_torch_nor_pyarrow_compute(login, job_folder, words):
    done = login(*words, python=("-X", "importtime", "-c", MAIN))
    assert done.returncode == 0, done.stderr
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "hybridjob.runs.find" in imported
    assert not imported & {"torch", "tensorboard", "pyarrow.compute"}


def test_without_slurm_the_run_folder_speaks(login, job_folder):
    done = login("status")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("clicks  job 67  UNKNOWN\n")
    assert "squeue is not on the PATH" in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout
    listed = login("ls")
    assert listed.stdout.splitlines()[1].split()[:3] == ["67", "clicks", "unknown"]
    assert "note: Slurm does not answer: squeue is not on the PATH" in listed.stderr


def test_a_controller_that_hangs_costs_a_few_seconds(login, job_folder):
    login.slurm("squeue", f"exec {sys.executable} -c 'import time; time.sleep(60)'")
    done = login("status", "--json")
    values = json.loads(done.stdout)
    assert values["state"] == "unknown"
    assert values["problem"].startswith("Slurm does not answer: squeue did not answer within 4 s")


def test_json_can_be_read_and_is_all_that_stdout_has(login, job_folder):
    login.slurm("squeue", "echo '67+0|RUNNING|N/A|1:00:00|0:10|cpu|n0|None'")
    values = json.loads(login("status", "67", "--json").stdout)
    assert (values["job_id"], values["name"], values["state"]) == ("67", "clicks", "running")
    assert values["folder"] == str(job_folder)
    (row,) = json.loads(login("ls", "--json").stdout)
    assert (row["job_id"], row["state"], row["requeues"]) == ("67", "running", 0)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["status", "click"], 2, "there is no run 'click' in runs. Did you mean clicks?"),
        (["logs", "clicks", "--role", "boss"], 2, "--role is 'boss', but must be master, ps"),
        (["logs", "clicks", "--rank", "9"], 2, "no log of that rank. It has: 0 master, 1 ps0"),
        (["cancel", "clicks"], 1, "job 67 is not cancelled: scancel is not on the PATH"),
        (["resume", "clicks"], 2, "may still run: Slurm does not answer"),
        (["ls", "--runs", "none"], 0, "no run in none: go to where you submitted"),
    ],
)
def test_a_mistake_is_one_message(login, job_folder, words, code, message):
    done = login(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_that_is_over_is_not_cancelled_again(login, job_folder):
    login.slurm("squeue", "echo '67+0|FAILED|N/A|1:00:00|0:10|cpu|n0|None'")
    done = login("cancel", "67")
    assert (done.returncode, done.stderr) == (
        2, "hybridjob: job 67 of clicks is over already: failed\n",
    )  # fmt: skip


def test_cancel_asks_for_the_leader_once_and_says_what_came(login, job_folder, tmp_path):
    login.slurm(
        "squeue",
        f"[ -e {tmp_path}/asked ] && s=CANCELLED || s=RUNNING\n"
        'echo "67+0|$s|N/A|1:00:00|0:10|cpu|n0|None"\necho "67+1|$s|N/A|1:00|0:10|gpu|n1|None"',
    )
    login.slurm("scancel", f'echo "$@" >> {tmp_path}/asked')
    done = login("cancel", "clicks")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text() == "67\n"
    assert done.stdout.splitlines()[-1] == "job 67 of clicks: cancelled, nothing was saved"
    login.slurm("squeue", "echo Invalid job id >&2; exit 1")
    assert login("status").stdout.startswith("clicks  job 67  CANCELLED  (Slurm has forgotten")


def test_a_name_of_two_jobs_that_go_on_is_not_cancelled(login, job_folder):
    other = job_folder.with_name("68")
    other.mkdir()
    (other / "job.toml").write_text(JOB.format(name="clicks"))
    row = "echo '{}+0|RUNNING|N/A|1:00:00|0:10|cpu|n0|None'"
    login.slurm("squeue", "\n".join([row.format(67), row.format(68)]))
    done = login("cancel", "clicks")
    assert done.returncode == 2
    assert "2 jobs of clicks are not over: say which by its id, " in done.stderr


def test_logs_are_merged_and_a_closed_pipe_is_no_error(login, job_folder):
    done = login("logs", "clicks")
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == [
        "master/0",
        "ps0/1",
        "trainer0/2",
    ]
    assert login("logs", "67", "--role", "ps", "--tail", "1").stdout.endswith("INFO hello\n")
    log = job_folder / "logs" / "rank-000-master.gen-0.0.0.log"
    log.write_text("2026-12-01 09:00:00.000 master/0 INFO hello\n" * 20_000)
    command = f"{sys.executable} -c '{MAIN}' logs 67 | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        cwd=job_folder.parents[2], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith("== life 0")
    assert (done.returncode, done.stderr) == (1, "")


def test_a_damaged_file_is_named_and_does_not_hide_other_runs(login, job_folder):
    other = job_folder.with_name("68")
    other.mkdir()
    (other / "job.toml").write_text(JOB.format(name="clicks"))
    (job_folder / "lives.jsonl").write_text("{half a li")
    listed = login("ls")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["id", "68"]
    assert f"a file in {job_folder} is damaged" in listed.stderr
    assert login("status", "67").returncode == 2


def test_watching_in_a_pipe_prints_blocks_until_the_end(login, job_folder, tmp_path):
    login.slurm(
        "squeue",
        f"[ -e {tmp_path}/once ] && s=FAILED || s=RUNNING\n: > {tmp_path}/once\n"
        'echo "67+0|$s|N/A|1:00:00|0:10|cpu|n0|None"',
    )
    done = login("status", "--watch", "--every", "0.2")
    heads = [line for line in done.stdout.splitlines() if line.startswith("clicks")]
    assert heads == ["clicks  job 67  RUNNING", "clicks  job 67  FAILED"]
    assert "\x1b" not in done.stdout


def test_a_sweep_is_shown_before_it_is_submitted(login, tmp_path):
    (tmp_path / "clicks.toml").write_text(JOB.format(name="clicks"))
    done = login("submit", "clicks.toml", "--dry-run", "--sweep", "seed=1,2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "job  name          seed",
        "1    clicks-seed1  1",
        "2    clicks-seed2  2",
    ]
    assert "#SBATCH --job-name=clicks-seed1" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_wrong_value_of_a_sweep_is_told_before_anything_is_submitted(login, tmp_path):
    (tmp_path / "clicks.toml").write_text(JOB.format(name="clicks"))
    done = login("submit", "clicks.toml", "--executor", "local", "--sweep", "training.epochs=1,x")
    assert done.returncode == 2
    assert "training.epochs" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_sweep_on_slurm_runs_in_lanes(login, tmp_path):
    (tmp_path / "clicks.toml").write_text(JOB.format(name="clicks"))
    login.slurm(
        "sbatch",
        f"n=$(( $(/bin/cat {tmp_path}/n 2>/dev/null || echo 70) + 2 ))\n"
        f"echo $n > {tmp_path}/n; echo $n",
    )
    done = login("submit", "clicks.toml", "--sweep", "seed=1,2,3", "--at-once", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "id  name          seed  after",
        "72  clicks-seed1  1     -",
        "74  clicks-seed2  2     -",
        "76  clicks-seed3  3     72",
        "compare them: hybridjob ls --sweep clicks",
    ]
    script = (tmp_path / "runs" / "clicks-seed3" / "76" / "76_submission.sh").read_text()
    assert script.count("#SBATCH --dependency=afterany:72") == 2
    kept = (tmp_path / "runs" / "clicks-seed3" / "76" / "job.toml").read_text()
    assert "dependency" not in kept
