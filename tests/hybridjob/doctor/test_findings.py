"""What the doctor finds without a cluster."""

import copy
import subprocess
import sys

import pytest
from conftest import ROOT

from hybridjob.doctor import cluster, folders
from hybridjob.doctor.finding import Level, bad, ok
from hybridjob.doctor.judge import judge_nodes
from hybridjob.doctor.tables import check_memory, checkpoint_bytes, estimate_tables
from hybridjob.jobfile import parse_job
from slurm.command import CommandResult
from slurm.component import Component
from slurm.errors import CommandError
from slurm.site import SiteNode

FEATURES = [{"name": "user", "cardinality": 1_000_000}, {"name": "item", "cardinality": 500_000}]
OWN = {"python": "3.11.7", "torch": "2.13.0", "hybridjob": "0.1.0"}


def job(**changes):
    data = {"format": "synthetic", "num_samples": 10, "features": FEATURES}
    return parse_job({"name": "x", "data": data, **changes}, source="test")


def levels(findings):
    return {finding.what: finding.level.value for finding in findings}


def test_a_finding_is_one_line():
    assert str(ok("nodes", "3 wanted\n and there")) == "ok    nodes: 3 wanted and there"
    assert str(bad("x", "is off", "turn it on")) == "bad   x: is off -> turn it on"


@pytest.mark.parametrize(
    ("optimizer", "numbers"), [("sgd", 16), ("adagrad", 32), ("rowwise_adagrad", 17), ("adam", 48)]
)
def test_table_bytes_are_known_before_any_table_is(optimizer, numbers):
    estimate = estimate_tables(job(training={"table_optimizer": {"name": optimizer}}))
    assert (estimate.rows, estimate.sure) == (1_500_000, True)
    assert estimate.state_bytes == 1_500_000 * numbers * 4


@pytest.mark.parametrize("data_type", ["bfloat16", "float16"])
def test_rows_of_16_bits_take_half_and_the_optimizers_state_does_not(data_type):
    asked = job(
        model={"table_data_type": data_type}, training={"table_optimizer": {"name": "adagrad"}}
    )
    assert estimate_tables(asked).state_bytes == 1_500_000 * 16 * (2 + 4)


def test_an_own_models_tables_are_a_guess():
    estimate = estimate_tables(job(model={"factory": "mine:factory"}))
    assert not estimate.sure
    assert estimate.dimension == 64


@pytest.mark.parametrize(("mem", "level"), [("512M", "bad"), ("800M", "ok"), (None, "warn")])
def test_memory_for_the_tables_of_a_node(mem, level):
    asked = job(ps={} if mem is None else {"mem": mem})
    finding = check_memory(asked, estimate_tables(asked), None)
    assert finding.level.value == level, str(finding)
    assert "ps.mem" in str(finding)


def test_checkpoints_are_counted_with_the_one_being_written():
    asked = job(checkpoint={"keep_last": 3})
    estimate = estimate_tables(asked)
    assert checkpoint_bytes(asked, estimate) == 4 * estimate.state_bytes


def test_the_file_system_of_a_folder_is_the_deepest_mount(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"a / ext4 rw 0 0\nb {tmp_path} nfs4 rw 0 0\nc /proc proc rw 0 0\n")
    assert folders.file_system_of(tmp_path / "x", mounts) == ("nfs4", str(tmp_path))


def test_a_folder_that_is_not_shared_data_that_is_not_there(tmp_path):
    asked = job(
        run_folder=str(tmp_path / "run"),
        data={"format": "tsv", "path": str(tmp_path / "no-*"), "label": "y",
              "numeric": [{"column": "x"}]},
    )  # fmt: skip
    (missing,) = folders.check_data(asked)
    assert missing.level is Level.BAD
    assert "no-*' names no file" in missing.found
    _, space = folders.check_run_folder(asked, shared=True, checkpoint_bytes=10**18)
    assert (space.what, space.level) == ("space", Level.BAD)


def test_an_own_model_is_looked_for_without_importing_it(tmp_path):
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')\n")
    assert folders.check_model(job(model={"factory": "mine:f"}), [tmp_path]).level is Level.OK
    assert folders.check_model(job(model={"factory": "other:f"}), [tmp_path]).level is Level.BAD


def test_a_site_that_cannot_start_het_jobs():
    builtin = cluster.judge_config(job(), {"SchedulerType": "sched/builtin"})
    forbidden = cluster.judge_config(job(), {"SchedulerParameters": "x=1,disable_hetjob_steps"})
    allowed = cluster.judge_config(job(checkpoint={"every_steps": 5}), {"SelectType": "s"})
    assert levels(builtin)["het jobs"] == levels(forbidden)["het jobs"] == "bad"
    assert levels(allowed) == {"het jobs": "ok"}


def site_node(partition, name, **changes):
    values = {"cpus": 8, "memory_mb": 4000, "gpus": 0, "time_limit_s": 3600, "state": "idle"}
    values |= {"partition_up": True, "is_default": partition == "cpu", **changes}
    return SiteNode(partition=partition, name=name, **values)


def test_a_job_that_would_wait_for_ever_is_told():
    nodes = [site_node("cpu", "n0"), site_node("gpu", "n0")]
    parts = [Component(name="ps"), Component(name="trainer", partition="gpu")]
    findings = cluster.check_partitions(parts, nodes)
    assert levels(findings)["nodes"] == "bad"
    assert "would wait for ever" in str(findings[-1])
    more = [*nodes, site_node("gpu", "n1")]
    assert set(levels(cluster.check_partitions(parts, more)).values()) == {"ok"}


def test_a_time_limit_beyond_the_partitions_and_one_that_is_not_there():
    parts = [Component(name="ps", time="2:00:00", partition="fast")]
    found = cluster.check_partitions(parts, [site_node("cpu", "n0")])
    assert "fast is not there; there are cpu -> name one of these" in str(found[0])
    parts = [Component(name="ps", time="2:00:00")]
    found = cluster.check_partitions(parts, [site_node("cpu", "n0")])
    assert levels(found)["time limit"] == "bad"
    assert "1:00:00" in str(found[1])


def test_a_controller_that_does_not_answer_is_asked_once():
    asked = []

    def silent(argv, *, timeout_s, env=None):
        asked.append(argv[0])
        raise CommandError(f"{argv[0]} did not answer within 10 s: is the controller up?")

    parts = [Component(name="ps"), Component(name="trainer")]
    assert cluster.check_config(job(), silent)[0].level is Level.BAD
    findings = cluster.check_test_only(parts, lambda group: "#!/bin/bash\n", silent)
    assert [finding.level for finding in findings] == [Level.BAD]
    assert asked == ["scontrol", "sbatch"]


def test_sbatch_tests_each_component_and_the_whole_job():
    scripts = []

    def run(argv, *, timeout_s, env=None):
        assert argv[:2] == ["sbatch", "--test-only"]
        scripts.append(open(argv[2]).read())  # noqa: PTH123, SIM115
        if len(scripts) == 2:
            raise CommandError("sbatch --test-only f ended with code 1: allocation failure: no")
        return CommandResult(stdout="", stderr="sbatch: Job 5 to start at 12:00\n")

    parts = [Component(name="ps"), Component(name="trainer")]
    found = cluster.check_test_only(parts, lambda group: "+".join(one.name for one in group), run)
    assert scripts == ["ps", "trainer", "ps+trainer"]
    assert [str(one) for one in found] == [
        "ok    sbatch, ps: Job 5 to start at 12:00",
        "bad   sbatch, trainer: allocation failure: no -> correct what it names in the job file",
        "ok    sbatch, whole job: Job 5 to start at 12:00",
    ]


def reports():
    """Two nodes that see each other, one task on each."""
    return [
        {
            **OWN, "rank": rank, "host": f"n{rank}", "leads": True, "token": "t", "missed": [],
            "memlock": -1, "nofile": 4096,
            "links": [{"to": 1 - rank, "host": f"n{1 - rank}", "resolved": f"10.0.0.{1 - rank}",
                       "by": f"10.0.0.{1 - rank}", "skew_s": 0.01, "round_trip_s": 0.001}],
        }
        for rank in (0, 1)
    ]  # fmt: skip


def judged(given, *, rdma=False):
    found = judge_nodes(given, num_tasks=2, token="t", own=OWN, rdma=rdma)
    return {one.what: one for one in found}


def test_nodes_that_are_well():
    assert {one.level for one in judged(reports(), rdma=True).values()} == {Level.OK}


@pytest.mark.parametrize(
    ("key", "value", "what", "level"),
    [
        ("token", "cannot be read: No such file", "shared folder", "bad"),
        ("missed", [0], "shared folder", "bad"),
        ("torch", "2.4.0", "torch", "bad"),
        ("torch", "missing", "torch", "bad"),
        ("nofile", 256, "open files", "warn"),
        ("memlock", 65536, "memlock", "warn"),
    ],
)
def test_one_node_that_is_not_like_the_other(key, value, what, level):
    given = reports()
    given[1][key] = value
    found = judged(given, rdma=True)
    assert found[what].level.value == level
    assert "n1" in found[what].found


@pytest.mark.parametrize(
    ("link", "what", "level"),
    [
        ({"by": None}, "connections", "bad"),
        ({"resolved": "127.0.1.1"}, "names", "warn"),
        ({"resolved": None}, "names", "warn"),
        ({"skew_s": -75.0}, "clocks", "warn"),
    ],
)
def test_a_connection_that_is_not_as_it_should_be(link, what, level):
    given = copy.deepcopy(reports())
    given[0]["links"][0].update(link)
    assert judged(given)[what].level.value == level


def test_a_rank_that_says_nothing_is_named():
    found = judged(reports()[:1])
    assert found["ranks"].level is Level.BAD
    assert "1 of 2 said nothing: 1" in found["ranks"].found


def doctor(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-c", "from hybridjob.cli import main; main()", "doctor", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, env={**env} or None,
    )  # fmt: skip


def test_without_slurm_that_is_a_finding(tmp_path):
    run_folder = f"run_folder={tmp_path}"
    done = doctor("examples/synthetic.toml", "--executor", "slurm", run_folder, PATH="/nonexistent")
    assert done.returncode == 1
    assert "bad   Slurm: not on the PATH: sbatch, srun" in done.stdout
    assert done.stdout.endswith("1 bad\n")
    assert "Traceback" not in done.stderr


@pytest.mark.processes
def test_the_local_executors_tasks_are_tried(tmp_path):
    run_folder = f"run_folder={tmp_path / 'run'}"
    done = doctor("examples/synthetic.toml", "--executor", "local", run_folder, "--on-nodes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ran 5 tasks" in done.stdout
    assert "ok    shared folder: every rank reads and writes it" in done.stdout
    assert done.stdout.endswith("0 bad\n")
