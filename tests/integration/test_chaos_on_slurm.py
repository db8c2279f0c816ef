"""Random trouble on a real Slurm, drawn by a seed: the job completes as if there had been none.

HYBRIDJOB_CHAOS_SEED repeats a draw, HYBRIDJOB_CHAOS_EVENTS sets how much happens (make chaos).
"""

import os
import random
import signal

import pytest
from cluster_processes import processes_with
from disturbed_run import ONE_NODE_OF_SERVERS, ancestors, command_of, completes, starting, worker
from training_run import processes_of, submit, write_job

EVENTS = int(os.environ.get("HYBRIDJOB_CHAOS_EVENTS", "2"))
SEED = int(os.environ.get("HYBRIDJOB_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
STEPS_BETWEEN = 60
NODES = ("zeta0", "zeta1", "alpha0", "alpha1")

pytestmark = pytest.mark.timeout(600 + 200 * EVENTS)


class Trouble:
    """What may happen to a run; each method is one kind, and says what it did."""

    def __init__(self, cluster, run, draw, eventually):
        self.cluster, self.run, self.draw, self.eventually = cluster, run, draw, eventually

    def happen(self):
        kinds = [name for name in sorted(vars(Trouble)) if name.startswith("a_")]
        kind = self.draw.choice(kinds)
        try:
            return f"{kind} {getattr(self, kind)(self.draw.randrange(5)) or ''}".strip()
        except (ProcessLookupError, FileNotFoundError, ValueError):
            return f"{kind}: nobody there, between two generations"

    def a_requeue(self, _):
        self.cluster.run(["scontrol", "requeue", self.run.job_id], check=False)

    def a_warning(self, _):
        self.cluster.run(["scancel", "--signal=USR2", self.run.job_id], check=False)

    def a_killed_worker(self, rank):
        os.kill(worker(self.run, rank), signal.SIGKILL)
        return f"rank {rank}"

    def a_frozen_worker(self, rank):
        os.kill(worker(self.run, rank), signal.SIGSTOP)
        return f"rank {rank}"

    def a_killed_task(self, rank):
        os.kill(ancestors(worker(self.run, rank))[1], signal.SIGKILL)
        return f"rank {rank}"

    def a_killed_slurmstepd(self, rank):
        for pid in ancestors(worker(self.run, rank)):
            if command_of(pid).startswith("slurmstepd"):
                os.kill(pid, signal.SIGKILL)
        return f"rank {rank}"

    def a_crashed_node(self, _):
        node = self.draw.choice(NODES)
        self.cluster.crash_node(node)
        self._boot(node)
        return node

    def a_dead_slurmd(self, _):
        node = self.draw.choice(NODES)
        conf = str(self.cluster.site.conf)
        for pid in processes_with(SLURM_CONF=conf, TEST_CLUSTER_NODE=node):
            if command_of(pid).startswith("slurmd"):
                os.kill(pid, signal.SIGKILL)
        down = ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=chaos"]
        self.cluster.run(down)
        self._boot(node)
        self.cluster.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False)
        return node

    def a_preemption(self, _):
        node = self.draw.choice(NODES)
        argv = ["sbatch", "--parsable", "-p", "urgent", "-w", node, "--exclusive", "--wrap"]
        other = self.cluster.run([*argv, "sleep 1"]).stdout.strip()
        self.cluster.wait_for_state(other, {"COMPLETED"}, 240)
        return node

    def _boot(self, node):
        def state():
            return self.cluster.run(["sinfo", "-h", "-N", "-n", node, "-o", "%T"]).stdout

        self.eventually(lambda: "down" in state() or "*" in state(), 60)  # * : it does not answer
        self.cluster.boot_node(node)


def test_a_job_in_trouble_completes_in_the_same_state(faulty_cluster, tmp_path, eventually, capsys):
    draw = random.Random(SEED)
    with capsys.disabled():
        print(f"\nchaos on Slurm: HYBRIDJOB_CHAOS_SEED={SEED}, {EVENTS} events")
    size = (f"training.max_steps={STEPS_BETWEEN * (EVENTS + 1)}", "network.rpc_timeout_s=6")
    calm = tmp_path / "calm"
    calm.mkdir()
    more = ("training.epochs=100000", *ONE_NODE_OF_SERVERS, "--executor", "local")
    expected = submit(calm / "run", write_job(calm), *size, *more).summary["state_digest"]
    told = []
    with starting(faulty_cluster, tmp_path, eventually, *ONE_NODE_OF_SERVERS) as begin:
        run = begin(
            *size, "training.epochs=100000", "recovery.max_restarts=100",
            "recovery.leave_timeout_s=10", "network.rendezvous_timeout_s=30",
        )  # fmt: skip
        trouble = Trouble(faulty_cluster, run, draw, eventually)
        for event in range(EVENTS):
            at = STEPS_BETWEEN * event + draw.randrange(26, STEPS_BETWEEN)
            eventually(
                lambda at=at: run.summary_is_there or (run.step >= at and processes_of(run.folder)),
                300,
            )
            if run.summary_is_there:  # the trouble before has taken longer than the rest
                break
            told.append(f"step {run.step}: {trouble.happen()}")
            with capsys.disabled():
                print(f"  {told[-1]}")
        completes(faulty_cluster, run, expected, deadline_s=400)
