"""Converted data gives the same batches, in the same order, as what it was read from."""

import gzip

import pyarrow as pa
import pytest
from pyarrow import parquet

from hybridjob.data import converted_files
from hybridjob.data.config import DataConfig
from hybridjob.data.conversion import convert
from hybridjob.data.reader import open_reader
from hybridjob.data.schema_of import schema_of, vocabulary_sizes
from hybridjob.errors import DataError

SEED = 5
COLUMNS = {
    "label": "y",
    "numeric": [
        {"column": "x", "transform": "log1p", "missing": -1},
        {"column": "age", "missing": 0.1},
    ],
    "categorical": [
        {"column": "u", "encode": "identity", "num_embeddings": 100},
        {"column": "h", "name": "x", "num_embeddings": 1 << 40},
        {"column": "h", "name": "empty", "num_embeddings": 70, "missing": "empty"},
        {"column": "g", "name": "bag", "encode": "vocabulary", "separator": " ", "min_count": 2},
        {"column": "g", "name": "w", "separator": " ", "num_embeddings": 9, "weights_column": "w"},
        {"column": "u", "name": "one", "num_embeddings": 9, "weights_column": "x"},
        {"column": "job", "encode": "vocabulary"},
        {"column": "likes", "separator": ",", "num_embeddings": 1000},
    ],
}


def line(i):
    g = " ".join(f"g{i * j % 7}" for j in range(i % 4))
    w = " ".join(f"{i + j}.5" for j in range(i % 4))
    return f"{i % 2}\t{i / 8}\t{i % 90}\t{'' if i % 5 == 0 else f'h{i % 33}'}\t{g}\t{w}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    head = "y\tx\tu\th\tg\tw"
    lines = [line(i) for i in range(2000)]
    lines[17] += "\tone cell too many"
    lines[1000:1002] = ["2\t1\t1\t\t\t", "1\tinf\t99999999999\t\ta b\t1 2"]
    (folder / "a.tsv").write_text("\n".join([head, *lines[:800]]))
    (folder / "b.tsv").write_text(head + "\n")
    (folder / "c.tsv").write_text("\n".join([head, *lines[800:1900]]))
    (folder / "d.tsv.gz").write_bytes(gzip.compress("\n".join([head, *lines[1900:]]).encode()))
    (folder / "long.tsv").write_text("\n".join([head, *["1\t1\t1\t" + "long" * 2000 + "\t\t"] * 9]))
    users = ["u\tage\tjob\tlikes", *(f"{i}\t{i}\tj{i % 5}\t{i},b,{i}" for i in range(80))]
    (folder / "users.tsv").write_text("\n".join(users))
    table = pa.table(
        {
            "y": [i % 2 for i in range(3000)],
            "x": [None if i % 9 == 0 else i / 3 for i in range(3000)],
            "ids": [list(range(i % 4)) for i in range(3000)],
            "amounts": [[0.1 * j for j in range(i % 4)] for i in range(3000)],
            "code": pa.array([f"c{i % 50}" for i in range(3000)]).dictionary_encode(),
        }
    )
    parquet.write_table(table, folder / "lists.parquet", row_group_size=170)
    return folder


@pytest.fixture(scope="module")
def configs(folder):
    join = {"path": str(folder / "users.tsv"), "key": "u"}
    skip = {"on_bad_row": "skip", "join": [join], **COLUMNS}
    lists = [
        {"column": "ids", "num_embeddings": 50, "weights_column": "amounts"},
        {"column": "code", "encode": "vocabulary"},
    ]
    shape = {"label": "y", "numeric": [{"column": "x"}], "categorical": lists}
    return {
        "text": {"path": str(folder / "[abcdl]*.tsv*"), "test_fraction": 0.2, **skip},
        "test files": {
            "path": str(folder / "c.tsv"),
            "test_path": [str(folder / "b.tsv"), str(folder / "a.tsv")],
            "label_type": "float",
            **skip,
        },
        "parquet": {
            "format": "parquet",
            "path": str(folder / "lists.parquet"),
            "label_type": "class",
            "num_classes": 2,
            "test_fraction": 0.1,
            **shape,
        },
    }


def converted(config, folder, **keys):
    folder.mkdir(exist_ok=True)
    given = {"seed": SEED, "folder": folder, "final": folder, "report": lambda _: None, **keys}
    return DataConfig(**convert(config, **given))


def batches(config, folder, epoch=0, **keys):
    """Everything that the batches of one trainer hold, as plain values, and the bad rows."""
    keys = {"split": "train", "seed": SEED, "trainer": 0, "num_trainers": 1, **keys}
    reader = open_reader(config, batch_size=64, folder=folder, **keys)
    found = [
        (
            str(batch.dense.tolist()),
            batch.labels.tolist(),
            batch.labels.dtype,
            [
                (name, bag.values.tolist(), bag.offsets.tolist(), str(bag.weights))
                for name, bag in batch.features.items()
            ],
            batch.position,
        )
        for batch in reader.batches(epoch)
    ]
    return found, reader.skipped_rows


@pytest.mark.parametrize("kind", ["text", "test files", "parquet"])
def test_the_batches_are_the_same_whatever_is_asked(configs, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(converted_files, "_BLOCKS_PER_FILE", 3)
    config = DataConfig(**configs[kind], shuffle_rows=300)
    copy = converted(config, tmp_path)
    assert len(list((tmp_path / "train").iterdir())) > 2
    words = tmp_path / "vocabularies"
    sizes = vocabulary_sizes(config, words)
    assert schema_of(copy) == schema_of(config, sizes)
    for split, seed, epoch in [("train", SEED, 0), ("train", 6, 1), ("test", 6, 0)]:
        for trainer in range(2):
            keys = {"split": split, "seed": seed, "trainer": trainer, "num_trainers": 2}
            expected = batches(config, words, epoch, **keys)
            assert len(expected[0]) > 1
            assert batches(copy, tmp_path, epoch, **keys) == expected
    assert batches(config, words)[1] == {"text": 3, "test files": 1, "parquet": 0}[kind]


def test_converted_data_can_be_converted_again(configs, tmp_path, monkeypatch):
    monkeypatch.setattr(converted_files, "_BLOCKS_PER_FILE", 3)
    first = converted(DataConfig(**configs["text"]), tmp_path / "first")
    second = converted(first, tmp_path / "second")
    assert batches(second, tmp_path) == batches(first, tmp_path)
    assert batches(second, tmp_path, split="test") == batches(first, tmp_path, split="test")


def test_vocabularies_say_afterwards_what_the_ids_mean(configs, folder, tmp_path):
    (tmp_path / "own.txt").write_text("j4\nj1\n")
    keys = configs["text"]
    categorical = [
        {"column": "job", "encode": "vocabulary", "vocabulary": str(tmp_path / "own.txt")},
        {"column": "h", "encode": "vocabulary"},
    ]
    copy = converted(DataConfig(**{**keys, "categorical": categorical}), tmp_path / "copy")
    words = tmp_path / "copy" / "vocabularies"
    assert (words / "job.txt").read_text() == "j4\nj1\n"
    assert (words / "h.txt").read_text().startswith("h0\nh1\nh10\n")
    assert [column.num_embeddings for column in copy.categorical] == [3, 35]


def test_a_bad_row_stops_the_conversion_with_its_place(configs, tmp_path):
    config = DataConfig(**{**configs["text"], "on_bad_row": "stop"})
    with pytest.raises(DataError, match=r"a\.tsv, line 19, the line has 7 columns, expected 6"):
        converted(config, tmp_path)


def test_data_without_rows_is_refused(configs, folder, tmp_path):
    config = DataConfig(**{**configs["text"], "path": str(folder / "b.tsv")})
    with pytest.raises(DataError, match=r"b\.tsv: there are no rows to convert"):
        converted(config, tmp_path)


def test_progress_counts_blocks_and_rows(configs, tmp_path):
    seen = []
    converted(DataConfig(**configs["parquet"]), tmp_path, report=seen.append)
    assert [one.blocks for one in seen] == list(range(1, 19))
    assert {one.of_blocks for one in seen} == {18}
    assert seen[0].written == (170, 0)
    assert seen[-1].written == (3000, 0)
