"""A new job from another one's newest checkpoint, without training: files and refusals."""

import os
from dataclasses import replace

import pytest

from hybridjob.checkpoint.entries import describe
from hybridjob.checkpoint.manifest import Manifest, begin_draft, draft_of, publish, verify
from hybridjob.errors import CheckpointError, ConfigError, RunError
from hybridjob.runs import resuming
from hybridjob.runs.facts import read_brief
from hybridjob.runs.outside import look_at
from hybridjob.runs.resuming import plan_resumption, stage


def save(made, step, base=None):
    """Write a checkpoint of one file, and perhaps one that needs it."""
    draft = begin_draft(draft_of(made.folder.checkpoints, step, "t"))
    (draft / "table.safetensors").write_text(f"rows of {step}")
    entry = describe(draft / "table.safetensors")
    manifest = Manifest(
        step=step, epoch=0, samples=step, servers=1, trainers=1, tables={}, positions=[],
        files=[entry],
    )  # fmt: skip
    if base is not None:
        manifest = replace(manifest, base=base.name, base_files=verify(base).files, deltas=1)
    return publish(draft, manifest)


@pytest.fixture
def ended(make_run):
    made = make_run().life().summary(state="failed")
    made.folder.job_file.write_text(
        made.folder.job_file.read_text().replace(
            "[ps]", f'run_folder = "{made.folder.path.parent}"\n[ps]', 1
        )
    )
    return made


def plan(made, run, *overrides):
    brief = read_brief(made.run)
    return plan_resumption(made.run, look_at([brief], run=run)["67"], overrides)


def test_the_newest_checkpoint_is_linked_with_the_base_that_it_needs(ended, slurm_says):
    old = save(ended, 10)
    base = save(ended, 20)
    newest = save(ended, 30, base)
    chosen = plan(ended, slurm_says(""), "ps.nodes=3")
    assert (chosen.checkpoint, chosen.step, chosen.job.ps.nodes) == (newest, 30, 3)
    staged = stage(chosen)
    names = [one.name for one in (old, base, newest)]  # the old one in case the newest is damaged
    assert sorted(one.name for one in staged.iterdir()) == names
    verify(staged / "step-00000030")
    linked = (staged / "step-00000020" / "table.safetensors").stat()
    assert linked.st_ino == (base / "table.safetensors").stat().st_ino
    assert staged.stat().st_mode & 0o777 == 0o700
    assert old.exists()


def test_without_links_the_files_are_copied(ended, slurm_says, monkeypatch):
    def no_link(source, target):
        raise OSError(18, "Invalid cross-device link")

    save(ended, 20)
    newest = save(ended, 30)
    monkeypatch.setattr(os, "link", no_link)
    staged = stage(plan(ended, slurm_says("")))
    assert [one.name for one in staged.iterdir()] == [newest.name]
    copied = staged / newest.name / "table.safetensors"
    verify(copied.parent)
    assert copied.stat().st_ino != (newest / "table.safetensors").stat().st_ino


def test_a_damaged_checkpoint_is_passed_over_and_said_so(ended, slurm_says):
    good = save(ended, 10)
    (save(ended, 20) / "table.safetensors").write_text("something")
    chosen = plan(ended, slurm_says(""))
    assert chosen.checkpoint == good
    assert "table.safetensors" in chosen.damage[0]


@pytest.mark.parametrize("word", ["PENDING", "RUNNING", "COMPLETING"])
def test_a_job_that_goes_on_is_refused(ended, slurm_says, word):
    save(ended, 10)
    run = slurm_says(f"67+0|{word}|N/A|1:00|0:10|cpu|n0|None\n")
    with pytest.raises(RunError, match="end it first by hybridjob cancel 67"):
        plan(ended, run)


def test_a_job_that_may_go_on_is_refused(make_run, slurm_says):
    made = make_run().life()
    with pytest.raises(RunError, match="may still run: Slurm does not answer"):
        plan(made, slurm_says(None))


def test_a_complete_run_is_resumed_only_to_do_more(ended, slurm_says):
    save(ended, 10)
    ended.summary()
    with pytest.raises(RunError, match="is complete: say what it is to do more"):
        plan(ended, slurm_says(""))
    assert plan(ended, slurm_says(""), "training.epochs=2").job.training.epochs == 2


def test_without_a_checkpoint_there_is_nothing_to_resume(ended, slurm_says):
    with pytest.raises(RunError, match="has no checkpoint: submit the job file itself"):
        plan(ended, slurm_says(""))


def test_another_sharding_is_refused_with_what_to_set(ended, slurm_says):
    save(ended, 20)
    with pytest.raises(CheckpointError, match=r"set training.sharding = 'range'"):
        plan(ended, slurm_says(""), "training.sharding=hash")


def test_a_wrong_key_is_told_as_in_submit(ended, slurm_says):
    save(ended, 10)
    with pytest.raises(ConfigError, match=r"ps\.node: no such key .* Did you mean ps\.nodes"):
        plan(ended, slurm_says(""), "ps.node=3")


def test_what_cannot_be_brought_leaves_nothing_behind(ended, slurm_says, monkeypatch):
    def broken(source, target):
        raise OSError(28, "No space left on device")

    save(ended, 10)
    chosen = plan(ended, slurm_says(""))
    monkeypatch.setattr(resuming, "_bring", broken)
    with pytest.raises(Exception, match="No space left on device"):
        stage(chosen)
    assert not list(ended.folder.path.parent.glob(".resumed-*"))
