import sys

import pytest

from slurm.command import run_command
from slurm.errors import CommandError


def test_it_returns_what_the_program_prints():
    result = run_command([sys.executable, "-c", "print('a b')"], timeout_s=20)
    assert result.stdout == "a b\n"


def test_an_argument_is_not_read_by_a_shell():
    result = run_command(["echo", "$HOME; `id`"], timeout_s=20)
    assert result.stdout == "$HOME; `id`\n"


def test_a_failure_shows_the_programs_own_message():
    argv = [sys.executable, "-c", "import sys; sys.exit('no such partition')"]
    with pytest.raises(CommandError, match="ended with code 1: no such partition"):
        run_command(argv, timeout_s=20)


def test_a_missing_program_is_named():
    with pytest.raises(CommandError, match="no-such-program is not on the PATH"):
        run_command(["no-such-program"], timeout_s=20)


def test_a_program_that_does_not_answer_is_ended():
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(CommandError, match=r"did not answer within 0.2 s"):
        run_command(argv, timeout_s=0.2)


def test_the_environment_is_the_one_given():
    argv = [sys.executable, "-c", "import os; print(os.environ.get('ONLY'), len(os.environ) < 5)"]
    assert run_command(argv, timeout_s=20, env={"ONLY": "1"}).stdout == "1 True\n"
