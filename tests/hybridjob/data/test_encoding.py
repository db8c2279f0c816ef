import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridjob.data.config import DataConfig
from hybridjob.data.hashing import hash_strings
from hybridjob.data.key_index import KeyIndex
from hybridjob.data.schema_of import schema_of, vocabulary_sizes
from hybridjob.errors import DataError

MASK = (1 << 64) - 1


def plain_mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def plain_hash(text):
    data = text.encode()
    state = plain_mix(len(data))
    for i in range(0, len(data), 8):
        state = plain_mix(state ^ int.from_bytes(data[i : i + 8], "little"))
    return state


@given(st.lists(st.text(max_size=40) | st.none(), max_size=30), st.integers(0, 3))
def test_the_hash_is_what_its_description_says(texts, cut):
    array = pa.array(texts, type=pa.string()).slice(cut)
    expected = [plain_hash(text or "") for text in texts[cut:]]
    assert hash_strings(array).tolist() == expected


def test_the_hash_never_changes():
    hashes = hash_strings(pa.array(["", "a", "68fd1e64", "Toy Story (1995)"]))
    assert hashes.tolist() == [
        16294208416658607535,
        6774081908283191102,
        12669446482656369175,
        9109315534608759058,
    ]


@given(st.lists(st.text(max_size=9), unique=True, max_size=20), st.lists(st.text(max_size=2)))
def test_keys_are_found_exactly(keys, asked):
    index = KeyIndex(pa.array(keys, type=pa.string()))
    asked = [*asked, *keys]
    places = {key: i for i, key in enumerate(keys)}
    found = index.find(pa.array([*asked, None], type=pa.string())).tolist()
    assert found == [*(places.get(text, -1) for text in asked), -1]


def test_numbers_are_transformed(small_text, rows_of):
    numeric = [
        {"column": "a", "transform": "log1p"},
        {"column": "b", "transform": "standard", "mean": 10, "std": 2, "missing": -9},
        {"column": "c", "missing": 0.5},
    ]
    text = "y,a,b,c\n1,-3,14,nan\n0,,,\n1,7, 10 ,1e3\n"
    rows = rows_of(small_text(text, numeric=numeric, categorical=[]))
    log4, log8 = math.log(4), math.log(8)
    expected = [[-log4, 2, 0.5], [0, -9, 0.5], [log8, 0, 1000]]
    assert np.allclose(rows["dense"], expected)


@pytest.mark.parametrize(
    ("label", "label_type", "expected"),
    [
        ("r >= 4", "binary", [0, 1, 1]),
        ("r == 4", "binary", [0, 1, 0]),
        ("r", "float", [3, 4, 5]),
        ("r", "class", [3, 4, 5]),
        ("g != 'M'", "binary", [0, 1, 1]),
        ("g == 'F'", "class", [0, 1, 1]),
    ],
)
def test_labels_follow_their_rule(small_text, rows_of, label, label_type, expected):
    text = "r,g,x\n3,M,1\n4,F,2\n5,F,3\n"
    keys = {"label": label, "label_type": label_type, "categorical": []}
    rows = rows_of(small_text(text, **keys))
    assert rows["labels"] == expected
    assert isinstance(rows["labels"][0], int if label_type == "class" else float)


def test_a_class_out_of_range_is_a_bad_row(small_text, rows_of):
    config = small_text("y,x\n0,1\n8,1\n", categorical=[], label_type="class", num_classes=8)
    with pytest.raises(DataError, match=r"line 3, .*label is 8, .* below num_classes = 8"):
        rows_of(config)


def test_bags_are_cut_weighted_and_missing_values_follow_their_policy(small_text, rows_of):
    text = "y,x,g,w\n1,1,a  b,1 2 3\n0,2,,\n1,3,c,4\n"
    config = small_text(
        text,
        categorical=[
            {"column": "g", "separator": " ", "num_embeddings": 1 << 40, "weights_column": "w"},
            {"column": "g", "name": "h", "num_embeddings": 1 << 40},
            {"column": "g", "name": "e", "num_embeddings": 1 << 40, "missing": "empty"},
            {"column": "g", "name": "f", "num_embeddings": 9, "missing": "id", "separator": " "},
        ],
    )
    rows = rows_of(config)
    a, b, c, ab, nothing = (plain_hash(t) % (1 << 40) for t in ("a", "b", "c", "a  b", ""))
    assert rows["g"] == [[a, b], [], [c]]
    assert rows["g weights"] == [[1, 3], [], [4]]
    assert rows["h"] == [[ab], [nothing], [c]]
    assert rows["e"] == [[ab], [], [c]]
    assert rows["f"] == [[plain_hash(t) % 9 for t in ts] for ts in ("ab", [""], "c")]


@pytest.mark.parametrize("weights", ["1", "1 2 3", "1 x", ""])
def test_weights_that_do_not_fit_are_bad_rows(small_text, rows_of, weights):
    column = {"column": "g", "separator": " ", "num_embeddings": 9, "weights_column": "w"}
    config = small_text(f"y,x,g,w\n1,1,a b,1 2\n1,1,a b,{weights}\n", categorical=[column])
    with pytest.raises(DataError, match="line 3, column 'w'"):
        rows_of(config)
    rows = rows_of(config.model_copy(update={"on_bad_row": "skip"}))
    assert rows["g weights"] == [[1, 2]]


def test_a_missing_value_can_be_a_bad_row(small_text, rows_of):
    column = {"column": "u", "encode": "identity", "num_embeddings": 9, "missing": "bad"}
    config = small_text("y,x,u\n1,1,3\n1,1,\n", categorical=[column])
    with pytest.raises(DataError, match="line 3, column 'u': the cell is empty"):
        rows_of(config)


def test_a_vocabulary_is_built_once_from_training_rows(small_text, rows_of, tmp_path):
    column = {"column": "u", "encode": "vocabulary"}
    text = "y,x,u\n1,1,b\n0,1,a\n1,1,\n0,1,b\n"
    rows = rows_of(small_text(text, categorical=[column]))
    assert rows["u"] == [[2], [1], [0], [2]]
    built = tmp_path / "vocabularies" / "u.txt"
    assert built.read_text() == "a\nb\n"
    config = small_text(text.replace("a", "new"), categorical=[column])
    assert rows_of(config)["u"] == [[2], [0], [0], [2]]
    sizes = vocabulary_sizes(config, built.parent)
    assert schema_of(config, sizes).cardinalities == {"u": 3}


def test_rare_values_and_those_held_out_are_no_part_of_a_vocabulary(small_text, rows_of, tmp_path):
    column = {"column": "u", "encode": "vocabulary"}
    text = "y,x,u\n" + "".join(f"1,1,v{i:03}\n" for i in range(200))
    rows = rows_of(small_text(text, categorical=[column], test_fraction=0.5))
    values = (tmp_path / "vocabularies" / "u.txt").read_text().split()
    assert len(values) == len(rows["u"]) < 130
    rare = {**column, "name": "r", "min_count": 2}
    rows_of(small_text("y,x,u\n1,1,a\n1,1,a\n1,1,b\n", categorical=[rare]))
    assert (tmp_path / "vocabularies" / "r.txt").read_text() == "a\n"


def test_a_vocabulary_of_the_users_own_is_used_and_checked(small_text, rows_of, tmp_path):
    own = tmp_path / "own.txt"
    column = {"column": "u", "encode": "vocabulary", "vocabulary": str(own)}
    config = small_text("y,x,u\n1,1,b\n1,1,z\n", categorical=[column])
    with pytest.raises(DataError, match=r"cannot read .*own.txt"):
        rows_of(config)
    own.write_text("c\nb\n")
    assert rows_of(config)["u"] == [[2], [0]]
    own.write_text("b\nb\n")
    with pytest.raises(DataError, match="'b' is there twice"):
        rows_of(config)


def test_joined_columns_are_used_like_own_ones(small_text, rows_of, tmp_path):
    (tmp_path / "users.tsv").write_text("id\tage\tjob\tlikes\n7\t30\tcook\ta b\n8\t\tactor\t\n")
    config = small_text(
        "y,x,u\n1,1,8\n0,2,7\n1,3,99\n0,4,\n",
        numeric=[{"column": "age", "missing": -1}, {"column": "x"}],
        categorical=[
            {"column": "u", "encode": "identity", "num_embeddings": 100},
            {"column": "s.job", "name": "job", "encode": "vocabulary"},
            {"column": "likes", "encode": "vocabulary", "separator": " "},
        ],
        join=[
            {"path": str(tmp_path / "users.tsv"), "key": "u", "side_key": "id"},
            {"path": str(tmp_path / "users.tsv"), "key": "u", "side_key": "id", "prefix": "s."},
        ],
    )
    rows = rows_of(config)
    assert rows["dense"] == [[-1, 1], [30, 2], [-1, 3], [-1, 4]]
    assert rows["u"] == [[8], [7], [99], []]
    assert rows["job"] == [[1], [2], [0], [0]]
    assert rows["likes"] == [[], [1, 2], [], []]


def test_bad_joins_are_named(small_text, rows_of, tmp_path):
    side = tmp_path / "users.tsv"
    join = {"path": str(side), "key": "u"}
    numeric = [{"column": "age"}]
    config = small_text("y,x,u\n1,1,8\n", numeric=numeric, join=[join])
    side.write_text("u\tage\n8\t1\n8\t2\n")
    with pytest.raises(DataError, match=r"users.tsv, column 'u': '8' is there twice"):
        rows_of(config)
    side.write_text("u\tage\n7\t1\n8\told\n")
    with pytest.raises(DataError, match="the row of u 8, column 'age': 'old' is not a number"):
        rows_of(config)
    side.write_text("u\tage\n7\t1\n8\n")
    with pytest.raises(DataError, match=r"users.tsv, line 3, the line has 1 columns, expected 2"):
        rows_of(config)
    side.write_text("u\tages\n7\t1\n")
    with pytest.raises(DataError, match="no column 'age': did you mean 'ages'"):
        rows_of(config)
    side.write_text("u\tx\n7\t1\n")
    with pytest.raises(DataError, match=r"column 'x' is in .* and in .*: give .* a prefix"):
        rows_of(small_text("y,x,u\n1,1,8\n", join=[join]))
    side.write_text("u\tjob\n7\tcook\n")
    strict = {"column": "job", "num_embeddings": 9, "missing": "bad"}
    with pytest.raises(DataError, match="line 2, column 'u': 8 is not in the joined table"):
        rows_of(small_text("y,x,u\n1,1,8\n", categorical=[strict], join=[join]))


def test_criteo_rows_have_logs_hashes_and_missing_values(tmp_path, rows_of):
    numbers = ["1", "", "-2", *["0"] * 10]
    categories = ["68fd1e64", "", *[f"{i:08x}" for i in range(24)]]
    path = tmp_path / "day_0"
    path.write_text("\t".join(["1", *numbers, *categories]) + "\n")
    rows = rows_of(DataConfig(format="criteo", path=str(path), num_embeddings=10_000))
    assert rows["labels"] == [1]
    assert np.allclose(rows["dense"][0][:4], [math.log(2), 0, -math.log(3), 0])
    assert rows["C1"] == [[plain_hash("68fd1e64") % 10_000]]
    assert rows["C2"] == [[plain_hash("") % 10_000]]
    assert rows["C26"] == [[plain_hash("00000017") % 10_000]]


def test_separate_test_files_are_read_whole(small_text, rows_of, tmp_path):
    (tmp_path / "test.csv").write_text("y,x,u\n0,5,5\n0,6,6\n")
    config = small_text("y,x,u\n1,1,1\n", test_path=str(tmp_path / "test.csv"))
    assert rows_of(config)["u"] == [[1]]
    assert rows_of(config, split="test")["u"] == [[5], [6]]
