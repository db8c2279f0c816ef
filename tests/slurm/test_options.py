import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.component import Component
from slurm.options import (
    check_memory,
    sbatch_option,
    sbatch_options,
    shortest_time,
    srun_option,
    srun_options,
)

LINES = st.text(st.characters(blacklist_categories=("Cc", "Cs")))


def read_as_sbatch(text: str) -> str:
    """Read one argument of a #SBATCH line by sbatch's rules."""
    value, quote, position = [], "", 0
    while position < len(text):
        letter = text[position]
        if letter == "\\":
            position += 1
            value.append(text[position])
        elif quote and letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        elif not quote and (letter.isspace() or letter == "#"):
            break
        else:
            value.append(letter)
        position += 1
    return "".join(value)


@given(LINES)
def test_sbatch_reads_back_any_value(value):
    assert read_as_sbatch(sbatch_option("comment", value)) == f"--comment={value}"


@given(LINES)
def test_bash_reads_back_any_value(value):
    assert shlex.split(srun_option("comment", value)) == [f"--comment={value}"]


@pytest.mark.parametrize("value", ["a\n#SBATCH --account=x", "a\rb", "a\0b"])
def test_a_value_cannot_start_another_line(value):
    with pytest.raises(ValueError, match="must be one line"):
        sbatch_option("job-name", value)


def test_the_shortest_limit_is_chosen_in_the_users_own_form():
    times = ["1-0", "90", "UNLIMITED", None]
    components = [Component(name="a", time=time) for time in times]
    assert shortest_time(components) == "90"


def test_without_a_limit_none_is_chosen():
    assert shortest_time([Component(name="a")]) is None
    assert shortest_time([Component(name="a", time="UNLIMITED")]) == "UNLIMITED"


def test_memory_that_another_component_would_inherit_is_refused():
    with pytest.raises(ValueError, match=r"'ps' asks for mem=9G.*'trainer', which has no mem"):
        check_memory([Component(name="ps", mem="9G"), Component(name="trainer")])
    with pytest.raises(ValueError, match="'trainer', which has no mem"):
        check_memory([Component(name="ps", mem="9G"), Component(name="trainer", mem_per_cpu="1G")])


def test_memory_that_no_other_inherits_is_fine():
    check_memory([Component(name="ps"), Component(name="trainer", mem="1G")])
    check_memory([Component(name="ps", mem_per_cpu="1G"), Component(name="trainer", mem="1G")])


def test_flags_that_are_false_are_left_out():
    component = Component(name="ps", flags={"exclusive": True, "spread-job": False, "nice": 3})
    options = sbatch_options(component, {"requeue": True, "time": None})
    assert options == [
        "--requeue",
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--exclusive",
        "--nice=3",
    ]


def test_tasks_that_do_not_divide_are_dealt_in_turn():
    options = srun_options(Component(name="ps", nodes=2, num_tasks=3), 0).split()
    assert "--distribution=cyclic" in options
    assert not any(option.startswith("--ntasks-per-node") for option in options)


def test_a_steps_own_gpu_option_replaces_the_nodes():
    component = Component(name="t", gpus_per_node=2, step_flags={"gpus-per-task": 1})
    options = srun_options(component, 1).split()
    assert "--gpus-per-task=1" in options
    assert "--gpus-per-node=2" not in options
