"""Random trouble, drawn by a seed: the run ends in the state of one that nothing happened to.

HYBRIDJOB_CHAOS_SEED repeats a draw, HYBRIDJOB_CHAOS_EVENTS sets how much happens (make chaos).
"""

import os
import random
import signal
import time

import pytest
from test_recovery import Running

EVENTS = int(os.environ.get("HYBRIDJOB_CHAOS_EVENTS", "3"))
SEED = int(os.environ.get("HYBRIDJOB_CHAOS_SEED", random.SystemRandom().randrange(10**6)))

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400 + 150 * EVENTS)]

WORKER, TASK = b"hybridjob.worker", b"submitit"
TROUBLE = [
    (signal.SIGKILL, WORKER),
    (signal.SIGSTOP, WORKER),
    (signal.SIGKILL, TASK),
    (signal.SIGUSR2, TASK),
    (signal.SIGTERM, TASK),
]


def test_a_run_in_trouble_ends_in_the_same_state(tmp_path, capsys):
    draw = random.Random(SEED)
    with capsys.disabled():
        print(f"\nchaos: HYBRIDJOB_CHAOS_SEED={SEED}, {EVENTS} events")
    steps = 60 * (EVENTS + 1)
    more = [f"training.max_steps={steps}", "training.epochs=1000"]
    calm = tmp_path / "calm"
    calm.mkdir()
    expected = Running(calm, *more, "checkpoint.every_steps=0").end()
    running = Running(
        tmp_path, *more, "network.rpc_timeout_s=5", "recovery.max_restarts=100"
    )  # fmt: skip
    told = []
    for event in range(EVENTS):
        number, module = draw.choice(TROUBLE)
        rank = draw.randrange(5)
        running.wait_for_step(60 * event + draw.randrange(5, 55))
        time.sleep(draw.random() / 5)
        try:
            running.send(number, rank, module)
            told.append(f"{number.name} to {module.decode()} of rank {rank}")
        except (AssertionError, ProcessLookupError, FileNotFoundError):
            told.append("nobody there: between two generations")
    summary = running.end(timeout_s=200 + 100 * EVENTS)
    assert running.process.returncode == 0, (told, running.stdout[-3000:], running.stderr)
    assert summary["final_step"] == steps
    assert summary["state_digest"] == expected["state_digest"], told
