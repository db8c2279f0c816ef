"""Ranks find each other, or say within the deadline who is missing."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

MEMBER = """
import json, sys
from pathlib import Path
from hybridjob.config import Network
from hybridjob.errors import HybridjobError
from hybridjob.liveness import _alive
from hybridjob.meeting import Meeting
from hybridjob.remote import call_each
from hybridjob.rendezvous import leave, meet
from hybridjob.roles import Layout

rank, folder, settings = int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
meeting = Meeting(rank=rank, local_rank=rank, layout=Layout(num_servers=1, num_trainers=2),
                  host=f"host{rank}", master_host="host0", file=folder / "endpoint.json",
                  local_only=True)
try:
    world = meet(meeting, Network(**settings))
    call_each(world, range(4), _alive)
    print(world.describe(2), world.local)
    leave(world)
except HybridjobError as error:
    print(type(error).__name__, error)
except RuntimeError as error:
    print("lost the master", type(error).__name__)
"""


def meet_all(ranks, folder, **settings):
    members = [
        subprocess.Popen(
            [sys.executable, "-c", MEMBER, str(rank), str(folder), json.dumps(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in ranks
    ]
    return [member.communicate(timeout=90)[0].strip() for member in members]


def test_all_ranks_meet_and_can_call_each_other(tmp_path):
    said = meet_all(range(4), tmp_path, rendezvous_timeout_s=60)
    assert said == ["rank 2 (trainer0 on host2) True"] * 4


def test_a_rank_that_never_arrives_is_named(tmp_path):
    master, *others = meet_all((0, 1, 3), tmp_path, rendezvous_timeout_s=12)
    assert master.startswith("RendezvousError 1 of 4 ranks did not arrive in time: 2 (trainer0)")
    assert all("2 (trainer0)" in one or "lost the master" in one for one in others)


def test_a_master_that_never_arrives_is_named_with_its_host(tmp_path):
    said = meet_all((1, 2), tmp_path, rendezvous_timeout_s=3)
    assert all("waited for rank 0 (master on host0)" in one for one in said)


def test_an_interface_that_is_not_there_is_named_with_those_that_are(tmp_path):
    master, *others = meet_all(range(4), tmp_path, rendezvous_timeout_s=60, interface="eth99")
    assert "network.interface is 'eth99', but" in master
    assert "lo (127.0.0.1)" in master
    assert all("'eth99'" in one or "lost the master" in one for one in others)
