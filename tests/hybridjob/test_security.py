"""What docs/security.md promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

LISTENING = "0A"
LOOPBACK = "0100007F"


def sockets_of(run_folder):
    """Give the inodes of the sockets of all living processes of a run."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if str(run_folder).encode() not in (entry / "environ").read_bytes():
                continue
            links = [os.readlink(one) for one in (entry / "fd").iterdir()]  # noqa: PTH115
        except OSError:  # it has just ended
            continue
        found |= {link[8:-1] for link in links if link.startswith("socket:[")}
    return found


def listening_addresses(inodes):
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    return {cells[1].partition(":")[0] for cells in lines
            if cells[3] == LISTENING and cells[9] in inodes}  # fmt: skip


@pytest.mark.processes
def test_a_local_run_listens_on_loopback_alone_and_its_folder_is_private(tmp_path, eventually):
    run_folder = tmp_path / "run"
    process = subprocess.Popen(
        [
            *(sys.executable, "submit.py", "examples/synthetic.toml", "--executor", "local"),
            *(f"run_folder={run_folder}", "training.epochs=100", "training.log_every_steps=1"),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        metrics = eventually(
            lambda: [one for one in run_folder.glob("*/metrics.jsonl") if one.stat().st_size], 120
        )
        assert listening_addresses(sockets_of(run_folder)) == {LOOPBACK}
    finally:
        process.terminate()
        process.wait(60)
    assert metrics[0].parent.stat().st_mode & 0o777 == 0o700
