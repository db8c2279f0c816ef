"""Training jobs on a real Slurm, steered by the program as from a login node."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from training_run import JOB, ROOT, follow, submit

pytestmark = pytest.mark.timeout(500)

MAIN = "from hybridjob.cli import main; main()"
ENDLESS = (
    *("training.max_steps=10000000", "training.epochs=10000000"),
    *("checkpoint.every_steps=20", "recovery.max_restarts=0", "name=steered"),
)


@pytest.fixture
def hybridjob(cluster, tmp_path):
    """Run the program on the login node: hybridjob(*words)."""

    def run(*words, check=True):
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            cwd=tmp_path,
            env={**os.environ, **cluster.environment(), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def status(hybridjob):
    return lambda run: json.loads(hybridjob("status", run, "--json").stdout)


@pytest.fixture
def endless(cluster, tmp_path, eventually):
    """Give a job that has saved once and would never end by itself."""
    job_file = tmp_path / "tiny.toml"
    job_file.write_text(JOB)
    run = follow(submit(tmp_path / "runs" / "steered", job_file, *ENDLESS, cluster=cluster))
    try:
        eventually(lambda: list(run.folder.glob("checkpoints/step-*")), 180)
        yield run
    finally:
        cluster.run(["scancel", "--name=steered"], check=False)


def test_a_job_is_seen_requeued_cancelled_and_resumed(
    cluster, endless, hybridjob, status, eventually
):
    seen = status("steered")
    assert (seen["job_id"], seen["state"], seen["problem"]) == (endless.job_id, "running", None)
    parts = [(one["name"], one["state"], one["nodes"]) for one in seen["components"]]
    assert parts == [
        ("master+ps", "RUNNING", "zeta[0-1]"),
        ("trainer", "RUNNING", "alpha[0-1]"),
    ]
    ranks = [(one["name"], one["host"], one["state"]) for one in seen["ranks"]]
    assert ranks == [
        ("master", "zeta0", "running"),
        ("ps0", "zeta1", "running"),
        ("ps1", "zeta0", "running"),
        ("trainer0", "alpha0", "running"),
        ("trainer1", "alpha1", "running"),
    ]
    assert 0 < seen["seconds_to_limit"] < seen["limit_s"] == 3600

    cluster.run(["scontrol", "requeue", endless.job_id])
    waiting = eventually(lambda: _in(status("steered"), "requeued"), 90)
    assert waiting["requeued_because"] == "Slurm ended it (preemption, or scontrol requeue)"
    back = eventually(lambda: _in(status("steered"), "running"), 270)
    assert [one["life"] for one in back["requeues"]] == [1]
    assert hybridjob("ls").stdout.splitlines()[1].split()[-1] == "1"

    began = time.monotonic()
    done = hybridjob("cancel", "steered")
    assert time.monotonic() - began < 60
    assert f"job {endless.job_id} of steered: cancelled, saved at step " in done.stdout
    assert cluster.states(endless.job_id) == {"CANCELLED"}
    text = hybridjob("logs", endless.job_id, "--role", "ps").stdout
    assert [line.partition(":")[0] for line in text.splitlines() if line[:2] == "=="] == [
        "== life 0",
        "== life 1",
    ]

    saved = status("steered")["checkpoint"]["step"]
    more = ("ps.nodes=1", "ps.tasks_per_node=2", f"training.max_steps={saved + 10}", "--wait")
    hybridjob("resume", endless.job_id, *more)
    new = status("steered")
    assert (new["state"], new["step"], new["resumed_step"]) == ("completed", saved + 10, saved)


def test_the_first_cause_arrives_in_status_log_and_the_jobs_comment(
    cluster, endless, status, eventually
):
    (victim,) = (one for one in status("steered")["ranks"] if one["name"] == "trainer1")
    os.kill(victim["pid"], signal.SIGKILL)
    failed = eventually(lambda: _in(status("steered"), "failed"), 180)
    cause = "rank 4 (trainer1 on alpha1): its worker was killed by SIGKILL"
    assert failed["cause"]["text"].startswith(cause)
    assert (failed["cause"]["rank"], failed["cause"]["host"]) == (4, "alpha1")
    shown = cluster.run(["scontrol", "show", "job", endless.job_id]).stdout
    assert f"Comment=failed: {cause}" in shown
    last = endless.log("master", "0.0.0").splitlines()[-1]
    assert f" master/0 ERROR the run has failed: {cause}" in last


def test_a_sweep_holds_its_jobs_back(cluster, hybridjob, tmp_path, eventually):
    (tmp_path / "tiny.toml").write_text(JOB)
    words = ("tiny.toml", "name=swept", "training.max_steps=3", "--sweep", "seed=1,2")
    done = hybridjob("submit", *words, "--at-once", "1")
    first, second = (line.split() for line in done.stdout.splitlines()[1:3])
    assert second[-1] == first[0]

    def both():
        rows = json.loads(hybridjob("ls", "--sweep", "swept", "--json").stdout)
        return rows if {row["state"] for row in rows} == {"completed"} else None

    rows = eventually(both, 300)
    assert [row["sweep_values"] for row in rows] == [{"seed": 2}, {"seed": 1}]
    text = (tmp_path / "runs" / "swept-seed2" / second[0] / "lives.jsonl").read_text()
    ended = (tmp_path / "runs" / "swept-seed1" / first[0] / "summary.json").stat().st_mtime
    assert json.loads(text)["time"] > ended


def _in(values, state):
    return values if values["state"] == state else None
