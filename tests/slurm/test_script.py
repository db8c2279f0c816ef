import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slurm.component import Component
from slurm.script import render_script

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
COMMAND = "/opt/python -u -m submitit.core._submit /runs/click/%j"

JOBS = {
    "plain": [Component(name="all", nodes=2, num_tasks=4, time="30")],
    "servers_and_trainers": [
        Component(
            name="master+ps", nodes=2, num_tasks=3, partition="fat", mem="200G", time="1-00:00:00"
        ),
        Component(
            name="trainer",
            nodes=2,
            num_tasks=8,
            partition="gpu",
            account="ads",
            qos="high",
            constraint="a100|h100",
            mem="64G",
            time="12:00:00",
            cpus_per_task=6,
            gpus_per_node=4,
            flags={"exclusive": True, "reservation": "the week's"},
            step_flags={"gpus-per-task": 1},
        ),
    ],
    "three": [
        Component(name="master"),
        Component(name="ps", nodes=4, num_tasks=4, mem_per_cpu="4G"),
        Component(name="trainer", num_tasks=2, gpus_per_node="a100:2"),
    ],
}


def render(components, **changes):
    given = {
        "command": COMMAND,
        "job_name": "click",
        "output": "/runs/click/slurm-%j.log",
        "job_folder": "/runs/click/%j",
        "signal": "USR2@120",
        "python": "/opt/python",
        "max_attempts": 3,
        **changes,
    }
    return render_script(components, **given)


@pytest.mark.parametrize("name", JOBS)
def test_the_script_is_the_golden_one(name):
    setup = ["module load cuda"] if name == "servers_and_trainers" else []
    text = render(JOBS[name], setup=setup, environment={"SUBMITIT_EXECUTOR": "slurm"})
    golden = GOLDEN / f"{name}.sbatch"
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", JOBS)
def test_bash_can_parse_the_script(name):
    awkward = {"job_name": 'it\'s "x" $(id)', "job_folder": "/a b/it's/%j/%j"}
    text = render(JOBS[name], environment={"A": "it's\na $HOME"}, **awkward)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=20)


@pytest.mark.parametrize("name", JOBS)
def test_all_options_stand_before_the_first_command(name):
    lines = [line for line in render(JOBS[name]).splitlines() if line]
    first_command = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    options = [i for i, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert max(options) < first_command


@pytest.mark.parametrize("option", ["--requeue", "--time=720", "--job-name=click", "--export=ALL"])
def test_shared_options_stand_in_every_component(option):
    components = [Component(name="a", time="1-0"), Component(name="b", time="720")]
    groups = render(components).split("#SBATCH hetjob")
    assert [f"#SBATCH {option}\n" in group for group in groups] == [True, True]


def run_script(tmp_path, components, srun: str, **changes):
    """Run a rendered script with a program of our own as srun."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    commands = {"srun": srun, "squeue": "echo '7|RUNNING'", "scontrol": "", "scancel": ""}
    for name, script in commands.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    given = {"python": shlex.quote(sys.executable), "max_attempts": 1, **changes}
    text = render(components, job_folder=str(tmp_path / "it's a job" / "%j"), **given)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_MEM_PER_CPU": "1"}
    env["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        ["bash"], input=text, text=True, env=env, timeout=20, check=False, capture_output=True
    )


def test_the_scripts_code_is_that_of_srun(tmp_path):
    assert run_script(tmp_path, JOBS["three"], "exit 7").returncode == 7
    assert (tmp_path / "it's a job/7/7_exit_code").read_text() == "7\n"


def test_results_of_an_earlier_life_are_gone_before_srun_starts(tmp_path):
    folder = tmp_path / "it's a job" / "7"
    folder.mkdir(parents=True)
    for name in ("7_0_result.pkl", "7_1_result.pkl.save_tmp", "7_exit_code", "7_submitted.pkl"):
        (folder / name).touch()
    done = run_script(tmp_path, JOBS["plain"], 'ls "$HETJOB_FOLDER"')
    assert done.stdout == "7_submitted.pkl\n"


def test_the_environment_and_the_command_reach_srun_as_they_were_given(tmp_path):
    value = 'it\'s "x"\n$HOME `id`'
    srun = 'printf "%s|" "$A" "${SLURM_MEM_PER_CPU-unset}" "${@: -2}"'
    done = run_script(
        tmp_path, JOBS["plain"], srun, environment={"A": value}, command="'my python' '$x %j'"
    )
    assert done.stdout == f"{value}|unset|my python|$x %j|"


def test_a_task_appends_to_logs_named_by_its_rank(tmp_path):
    # An srun that starts the first component's command as rank 3.
    srun = 'while [[ $1 != bash ]]; do shift; done; SLURM_PROCID=3 "$@"'
    for _ in range(2):
        run_script(tmp_path, JOBS["plain"], srun, command="bash -c 'echo out; echo err >&2'")
    folder = tmp_path / "it's a job/7"
    assert (folder / "7_3_log.out").read_text() == "out\nout\n"
    assert (folder / "7_3_log.err").read_text() == "err\nerr\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"job_name": "a\n#SBATCH --account=x"}, "must be one line"),
        ({"job_folder": "/runs/%x"}, "only %j"),
        ({"output": "/runs/%t"}, "only %j"),
        ({"environment": {"A B": "1"}}, "is no name of an environment variable"),
        ({"command": "a\nb"}, "must be one line"),
    ],
)
def test_what_cannot_be_read_back_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        render([Component(name="a")], **changes)


def test_a_job_without_components_is_refused():
    with pytest.raises(ValueError, match="at least one component"):
        render([])
