"""Reading the job file, its overrides, and what a person is told of mistakes."""

from pathlib import Path

import pytest
import tomlkit

from hybridjob.errors import ConfigError
from hybridjob.jobfile import dump_job, load_job, parse_job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINIMAL = """
name = "run"
[data]
format = "synthetic"
num_samples = 1000
[[data.features]]
name = "user"
cardinality = 50
"""


def write(tmp_path, text=MINIMAL):
    path = tmp_path / "job.toml"
    path.write_text(text)
    return path


def mistakes(tmp_path, *overrides, text=MINIMAL):
    with pytest.raises(ConfigError) as caught:
        load_job(write(tmp_path, text), overrides)
    return str(caught.value)


def test_defaults_are_filled_in(tmp_path):
    job = load_job(write(tmp_path))
    assert job.run_folder == "runs/run"
    assert job.checkpoint.every_steps == 0
    assert job.layout.num_tasks == 3


def test_overrides_take_toml_values_and_bare_words(tmp_path):
    job = load_job(
        write(tmp_path),
        [
            "trainer.nodes=2",
            "trainer.partition=gpu",
            "ps.mem=4000",
            "slurm.setup=['module load x', 'y']",
            "data.features.0.cardinality=70",
            "training.table_optimizer.lr = 0.5",
            "seed=7",
            "slurm.time=1-12:00:00",
            "run_folder=/tmp/somewhere",
        ],
    )
    assert job.trainer.nodes == 2
    assert job.trainer.partition == "gpu"
    assert job.ps.mem == "4000"
    assert job.slurm.setup == ["module load x", "y"]
    assert job.data.features[0].cardinality == 70
    assert job.training.table_optimizer.lr == 0.5
    assert job.seed == 7
    assert job.slurm.time == "1-12:00:00"
    assert job.run_folder == "/tmp/somewhere"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("trainr.nodes=2", "trainr: no such key (given: {'nodes': 2}). Did you mean trainer?"),
        ("trainer.node=2", "trainer.node: no such key (given: 2). Did you mean trainer.nodes?"),
        ("trainer.nodes=two", "trainer.nodes: input should be a valid integer"),
        ("trainer.nodes=two", "(given: 'two')"),
        ("trainer.nodes=0", "trainer.nodes: input should be greater than 0 (given: 0)"),
        ("training.table_optimizer.name=adamm", "training.table_optimizer.name: input should be"),
        ("model.factory=my_model", "model.factory: is none of tutorial, click, nor of the form"),
        ("name='a b'", "name: must be of letters"),
        ("training.batch_size=1", "batch_size is 1, but trainer.nodes x"),
        ("master.nodes=2", "the master is one task, but nodes x tasks_per_node is 2"),
        ("data.features.0.cardinalty=4", "Did you mean data.features[0].cardinality?"),
        ("training.table_optimizer.lr=nan", "training.table_optimizer.lr: "),
    ],
)
def test_a_mistake_names_the_key_what_was_given_and_what_to_do(tmp_path, override, expected):
    overrides = [override]
    if override.startswith("training.batch_size"):
        overrides.append("trainer.tasks_per_node=2")
    assert expected in mistakes(tmp_path, *overrides)


def test_all_mistakes_are_told_at_once(tmp_path):
    text = mistakes(tmp_path, "trainer.node=2", "seed=-1", "ps.tasks_per_node=0")
    assert "3 mistakes" in text
    assert all(key in text for key in ("trainer.node", "seed", "ps.tasks_per_node"))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seed", "write it as key.path=value"),
        ("=3", "write it as key.path=value"),
        ("name.first=3", "name is a value, it has no keys below it"),
        ("data.features.9.cardinality=3", "must be an index below 1"),
    ],
)
def test_an_override_that_makes_no_sense_is_named(tmp_path, override, expected):
    assert expected in mistakes(tmp_path, override)


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the job file .*nowhere.toml: No such file"):
        load_job(tmp_path / "nowhere.toml")
    assert "is no TOML" in mistakes(tmp_path, text="name = ")


def test_memory_is_given_once(tmp_path):
    assert "exclude each other" in mistakes(tmp_path, "ps.mem=4G", "ps.mem_per_cpu=1G")


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_each_example_once_resolved_reads_back_the_same(example):
    job = load_job(example, ["data.path=/there"] if example.stem == "criteo" else [])
    assert parse_job(tomlkit.parse(dump_job(job)).unwrap(), source="again") == job
    # What a worker is given: see hybridjob.task.
    assert parse_job(job.model_dump(mode="json", exclude_defaults=True), source="again") == job


def test_the_resolved_job_file_reads_back_the_same(tmp_path):
    job = load_job(
        write(tmp_path), ["trainer.partition=gpu", "data.features.0.ids_per_sample=[0, 3]"]
    )
    assert parse_job(tomlkit.parse(dump_job(job)).unwrap(), source="again") == job
