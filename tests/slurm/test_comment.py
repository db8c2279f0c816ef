import pytest

from slurm.command import CommandResult
from slurm.comment import set_comment
from slurm.errors import CommandError


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ("rank 2: no memory", "rank 2: no memory"),
        ("two\n  lines", "two lines"),
        ("x" * 300, "x" * 197 + "..."),
    ],
)
def test_the_comment_is_one_short_line(text, comment):
    asked = []

    def run(argv, *, timeout_s, env=None):
        asked.append(argv)
        return CommandResult(stdout="", stderr="")

    assert set_comment("67", text, run=run) is None
    assert asked == [["scontrol", "update", "jobid=67", f"comment={comment}"]]


def test_a_comment_that_slurm_does_not_take_is_no_error():
    def run(argv, *, timeout_s, env=None):
        raise CommandError("scontrol is not on the PATH")

    assert set_comment("67", "x", run=run) == "scontrol is not on the PATH"
