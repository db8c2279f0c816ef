import pytest

from slurm.command import CommandResult
from slurm.errors import CommandError
from slurm.steps import clear_steps, list_steps, parse_steps


def answer(text):
    return CommandResult(stdout=text, stderr="")


def test_only_the_steps_of_srun_are_listed():
    assert parse_steps("67.batch\n67.0\n68.12\n67+1.3\n68.extern\n68.interactive\n") == [
        "67.0",
        "68.12",
        "67+1.3",
    ]


def test_every_component_is_asked_for_and_one_that_is_gone_has_no_steps():
    def run(argv, *, timeout_s, env):
        if "--jobs=68" in argv:
            return answer("68.0\n")
        raise CommandError("squeue ... ended with code 1: slurm_load_jobs error: Invalid job id")

    assert list_steps(["67", "68"], run=run) == ["68.0"]


def test_a_controller_that_is_away_is_an_error():
    def run(argv, *, timeout_s, env):
        raise CommandError("Unable to contact slurm controller")

    with pytest.raises(CommandError, match="Unable to contact"):
        list_steps(["67"], run=run)


def test_steps_are_cancelled_once_and_waited_for():
    listings = [["68.0", "68.1"], ["68.0"], []]
    cancelled = []

    def run(argv, *, timeout_s, env):
        cancelled.append(argv)
        raise CommandError("scancel: error: Kill job error on job id 68.0: Invalid job id")

    found, left = clear_steps(lambda: listings.pop(0), deadline_s=20, run=run, sleep=lambda _: None)
    assert (found, left) == (["68.0", "68.1"], [])
    assert cancelled == [["scancel", "68.0"], ["scancel", "68.1"]]


def test_steps_that_stay_are_told():
    found, left = clear_steps(
        lambda: ["68.0"],
        deadline_s=0.05,
        run=lambda *_, **__: answer(""),
        sleep=lambda _: None,
    )
    assert (found, left) == (["68.0"], ["68.0"])
