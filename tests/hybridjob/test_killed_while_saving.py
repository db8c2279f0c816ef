"""A run whose ranks are killed at one stage of a checkpoint's writing after the other."""

import pytest
from test_recovery import Running

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

# Event of the interpreter's audit hook, and what its arguments must match: each kills once.
STAGES = [
    ("open", r"draft/(table|delta)-.*\.0-\d+\.safetensors"),
    ("open", r"draft/dense\.safetensors"),
    ("open", r"draft/trainer-001\.safetensors"),
    ("open", r"draft/\S*manifest\S*tmp"),
    ("os.rename", r"draft/\S*manifest\S* \S*draft/manifest\.json"),
    ("os.rename", r"draft \S*/step-\d+ "),
    ("open", r"/checkpoints None"),
    ("os.rename", r"/step-\d+ \S*removed "),
    ("os.rmdir", r"removed "),
]
HOOK = """
import os, re, signal, sys
folder, stages = os.path.dirname(__file__), {stages!r}

def die_at_a_stage(event, arguments):
    if event not in ("open", "os.rename", "os.rmdir"):
        return
    text = " ".join(map(str, arguments))
    for number, (one, pattern) in enumerate(stages):
        if event == one and re.search(pattern, text):
            if not os.path.exists(f"{{folder}}/killed-{{number}}"):
                os.mkdir(f"{{folder}}/killed-{{number}}")
                os.kill(os.getpid(), signal.SIGKILL)

if "hybridjob.worker" in sys.orig_argv:
    sys.addaudithook(die_at_a_stage)
"""


def test_a_kill_at_every_stage_of_saving_costs_no_number(tmp_path):
    calm, hook = tmp_path / "calm", tmp_path / "hook"
    calm.mkdir()
    hook.mkdir()
    expected = Running(calm, "checkpoint.every_steps=0").end()
    (hook / "sitecustomize.py").write_text(HOOK.format(stages=STAGES))
    running = Running(
        tmp_path, "recovery.max_restarts=20", "checkpoint.every_steps=10", PYTHONPATH=str(hook)
    )
    summary = running.end(timeout_s=500)
    assert running.process.returncode == 0, running.stderr
    killed = sorted(one.name for one in hook.glob("killed-*"))
    assert killed == [f"killed-{number}" for number in range(len(STAGES))]
    assert summary["generations"] > len(STAGES) / 2  # one generation may die at two stages
    assert summary["state_digest"] == expected["state_digest"]
