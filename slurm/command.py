"""The one place where this package runs a program and reads what it says."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What a program that ended with code 0 printed."""

    stdout: str
    stderr: str


def run_command(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a program without a shell and wait for it.

    Raises CommandError, with the program's own message, where it is missing, ends with another
    code than 0, or is still running after `timeout_s` (it is then killed).
    """
    shown = shlex.join(argv)
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            env=None if env is None else dict(env),
            timeout=timeout_s,
        )
    except FileNotFoundError as error:
        raise CommandError(
            f"{argv[0]} is not on the PATH: run this where Slurm's commands are installed"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(
            f"{shown} did not answer within {timeout_s:g} s: is the Slurm controller up?"
        ) from error
    except OSError as error:
        raise CommandError(f"{shown} could not be started: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()) or "it printed nothing"
        raise CommandError(f"{shown} ended with code {done.returncode}: {said}")
    return CommandResult(stdout=done.stdout, stderr=done.stderr)
