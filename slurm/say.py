"""How the batch script's own process speaks: one event, one line, with the time."""

import os
import time
from contextlib import suppress


def say(text: str) -> None:
    """Print one line. Not by `print`: a signal handler may come in the middle of another line."""
    line = " ".join(text.split())  # what Slurm says may be several
    with suppress(OSError):  # a full disk must not end the job
        os.write(1, f"{time.strftime('%H:%M:%S')} batch: {line}\n".encode())
