"""kill -9 at every stage of writing leaves a whole checkpoint: the one before, or the new one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

# Every stage ends in a call that makes something durable or visible; each is a place to die.
PROGRAM = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_checkpoint import newest_valid, remove_old, save, shards_of, train

root = Path(sys.argv[1])

def count_down(stages):
    left = [stages]
    def wrap(function):
        def dying(*args, **more):
            for after in (False, True):
                if after:
                    result = function(*args, **more)
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return result
        return dying
    for name in ("open", "fsync", "replace", "rename", "rmdir", "unlink"):
        setattr(os, name, wrap(getattr(os, name)))

def write(checkpoints, shards, base, stages):
    count_down(stages)
    save(checkpoints, 3, shards, base)
    remove_old(checkpoints, newest=3, keep_last=1)
    os._exit(0)

for delta in (True, False):
    stages, status = 0, 1
    while status:
        stages += 1
        checkpoints = root / f"{delta}-{stages}"
        checkpoints.mkdir()
        shards = shards_of(2)
        save(checkpoints, 1, shards)
        train(shards, [1, 8, 20], 1)
        base = save(checkpoints, 2, shards)
        train(shards, [2, 9, 21], 2)
        child = os.fork()
        if not child:
            write(checkpoints, shards, base if delta else None, stages)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL), status
        found, damage = newest_valid(checkpoints)
        print(delta, stages, found.name, len(damage), flush=True)
"""


def test_a_kill_at_any_stage_leaves_a_whole_checkpoint(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    for delta in ("True", "False"):
        found = [(name, damage) for one, _, name, damage in lines if one == delta]
        assert len(found) > 15
        # First the old one, from one stage on the new one, and never a damaged one.
        assert found == sorted(found)
        assert set(found) == {("step-00000002", "0"), ("step-00000003", "0")}
