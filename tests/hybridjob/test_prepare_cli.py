"""`hybridjob prepare`: the same job on faster data, whole or not at all."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hybridjob.errors import ConfigError
from hybridjob.jobfile import load_job
from hybridjob.jobfolder import new_folder

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from hybridjob.cli import main; main()", "prepare"]
JOB = """
name = "clicks"
seed = 3
[model]
factory = "click"
[model.options]
embedding_dim = 4
[training]
batch_size = 64
epochs = 2
[data]
path = "{folder}/clicks.tsv"
label = "y"
test_fraction = 0.2
on_bad_row = "skip"
shuffle_rows = 500
[[data.numeric]]
column = "x"
transform = "log1p"
[[data.categorical]]
column = "u"
num_embeddings = 90
[[data.categorical]]
column = "words"
encode = "vocabulary"
separator = " "
"""


@pytest.fixture
def job_file(tmp_path):
    lines = [f"{i % 2}\t{i % 30}\tu{i % 70}\ta{i % 7} b{i % 11}" for i in range(1500)]
    lines[40] = "a bad row"
    (tmp_path / "clicks.tsv").write_text("\n".join(["y\tx\tu\twords", *lines]))
    (tmp_path / "clicks.toml").write_text(JOB.format(folder=tmp_path))
    return tmp_path / "clicks.toml"


def prepare(*words, **more):
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **more,
    )


def test_the_folder_holds_the_same_job_on_the_prepared_data(job_file, tmp_path):
    done = prepare("clicks.toml", "fast", "training.epochs=5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1,500 rows, 1 of them bad, ")
    assert done.stdout.endswith("train on it: hybridjob submit fast/job.toml\n")
    old, new = load_job(job_file, ["training.epochs=5"]), load_job(tmp_path / "fast" / "job.toml")
    assert new.model_copy(update={"data": old.data}) == old
    assert new.data.path == (f"{tmp_path}/fast/train/*.parquet",)
    assert [column.num_embeddings for column in new.data.categorical] == [90, 19]
    assert sorted(path.name for path in (tmp_path / "fast").iterdir()) == [
        "job.toml",
        "train",
        "vocabularies",
    ]
    assert len((tmp_path / "fast" / "vocabularies" / "words.txt").read_text().split()) == 18


@pytest.mark.processes
def test_prepared_data_trains_to_the_same_digest(job_file, tmp_path, run_job):
    done = prepare(job_file, tmp_path / "fast")
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in (job_file, tmp_path / "fast" / "job.toml")]
    runs = [run_job(text, "trainer.tasks_per_node=2") for text in texts]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    first, second = (run.summary for run in runs)
    for key in ("state_digest", "final_step", "final_loss", "test"):
        assert second[key] == first[key]


def test_no_torch_is_imported(job_file, tmp_path):
    code = (
        "import sys; from pathlib import Path; from hybridjob.prepare_cli import prepare; "
        f"prepare(Path({str(job_file)!r}), Path({str(tmp_path / 'fast')!r})); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


@pytest.mark.parametrize(
    ("override", "code", "message"),
    [
        ("data={format='tutorial'}", 2, 'nothing to prepare: data of format = "tutorial"'),
        ("data.path=nix.tsv", 1, "data.path: file nix.tsv does not exist"),
        ("data.label=yes", 1, "there is no column 'yes'"),
        ("data.on_bad_row=stop", 1, "clicks.tsv, line 42, the line has 1 columns, expected 4"),
    ],
)
def test_a_mistake_is_one_message_and_leaves_nothing(job_file, tmp_path, override, code, message):
    before = sorted(tmp_path.iterdir())
    done = prepare(job_file, tmp_path / "fast", override)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_with_something_in_it_is_refused(job_file, tmp_path):
    done = prepare(job_file, tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} is there and not empty" in done.stderr
    with pytest.raises(ConfigError, match="is there and not empty"), new_folder(job_file):
        pass


def test_what_cannot_be_written_is_one_message_and_leaves_nothing(job_file, tmp_path):
    def allow_small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    before = sorted(tmp_path.iterdir())
    full = prepare(job_file, tmp_path / "fast", preexec_fn=allow_small_files_only)
    in_file = prepare(job_file, job_file / "fast")
    assert [full.returncode, in_file.returncode] == [1, 1]
    assert f"hybridjob: cannot write {tmp_path}/fast: " in full.stderr
    assert f"hybridjob: cannot write {job_file}/fast: Not a directory" in in_file.stderr
    assert "Traceback" not in full.stderr + in_file.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_new_folder_appears_when_it_is_whole(tmp_path):
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as part:
        (part / "file").write_text("x")
        assert not any((tmp_path / "new").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new" / "file").read_text() == "x"


def test_a_signal_leaves_nothing(job_file, tmp_path, eventually):
    with (tmp_path / "clicks.tsv").open("a") as file:
        file.write("\n" + "1\t2\tu3\ta4 b5\n" * 2_000_000)
    before = sorted(tmp_path.iterdir())
    command = [*COMMAND, str(job_file), str(tmp_path / "fast")]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        eventually(lambda: any(tmp_path.glob(".fast.*")), 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert sorted(tmp_path.iterdir()) == before
