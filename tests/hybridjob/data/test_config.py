import subprocess
import sys

import pytest
from pydantic import ValidationError

from hybridjob.data.config import DataConfig
from hybridjob.data.label import LabelRule, parse_label
from hybridjob.data.schema_of import schema_of
from hybridjob.errors import DataError

FILES = {"path": "a.tsv", "label": "y", "numeric": [{"column": "x"}]}


def test_it_loads_no_heavy_package():
    code = (
        "import sys, hybridjob.data.config, hybridjob.data.fetch, hybridjob.data.schema_of;"
        "print([m for m in ('torch', 'numpy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("clicked", LabelRule("clicked")),
        ("rating >= 4", LabelRule("rating", ">=", 4.0)),
        ("rating>-0.5", LabelRule("rating", ">", -0.5)),
        ("the rating != 4e1", LabelRule("the rating", "!=", 40.0)),
        ("gender == 'M'", LabelRule("gender", "==", "M")),
    ],
)
def test_a_label_rule_is_taken_apart(text, rule):
    assert parse_label(text) == rule


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"label": "rating => 4"}, "expected a column, or a rule"),
        ({"label": "rating >= four"}, "'four', which is no number"),
        ({"label": "gender >= 'M'"}, "only == and != can"),
        ({"label": None}, "label is missing"),
        ({"path": []}, "path is missing"),
        ({"numeric": []}, "no column is used"),
        ({"numeric": [{"column": "x", "transform": "log"}]}, "'none', 'log1p' or 'standard'"),
        ({"numeric": [{"column": "x", "transform": "standard"}]}, "needs mean and std"),
        ({"numeric": [{"column": "x"}, {"column": "x"}]}, "'x' is named twice"),
        ({"categorical": [{"column": "u"}]}, "'u' is hashed: give it num_embeddings"),
        ({"categorical": [{"column": "u", "encode": "identity"}]}, "needs num_embeddings"),
        ({"header": False}, "needs column_names"),
        ({"test_fraction": 1.0}, "less than 1"),
        ({"test_fraction": 0.1, "test_path": "b"}, "keep one"),
        ({"num_samples": 3}, "num_samples: not for format"),
        ({"shufle": True}, "Extra inputs"),
        ({"format": "criteo"}, "num_embeddings"),
        ({"format": "synthetic"}, "label, numeric, path: not for format"),
        ({"format": "tutorial", "path": "x"}, "not for format"),
    ],
)
def test_wrong_keys_are_refused_with_a_reason(keys, message):
    with pytest.raises(ValidationError) as caught:
        DataConfig(**{**FILES, **keys})
    assert message in str(caught.value)


def test_it_survives_a_round_through_plain_values():
    config = DataConfig(**FILES, join=[{"path": "b.tsv", "key": "u"}])
    assert DataConfig(**config.model_dump(mode="json", exclude_defaults=True)) == config


def test_criteo_has_13_dense_columns_and_26_features_with_single_overrides():
    config = DataConfig(
        format="criteo",
        path="x",
        num_embeddings=1000,
        categorical=[{"column": "C3", "num_embeddings": 7}],
    )
    schema = schema_of(config)
    assert schema.num_dense == 13
    assert list(schema.cardinalities) == [f"C{i}" for i in range(1, 27)]
    assert schema.cardinalities["C3"] == 7
    assert schema.cardinalities["C4"] == 1000


def test_the_tutorial_has_one_feature_of_100_ids_and_class_labels():
    config = DataConfig(format="tutorial")
    assert schema_of(config).cardinalities == {"indices": 100}
    assert config.label_type == "class"
    assert config.num_classes == 8


def test_a_vocabulary_that_is_not_built_has_no_size():
    config = DataConfig(**FILES, categorical=[{"column": "u", "encode": "vocabulary"}])
    assert schema_of(config, {"u": 5}).cardinalities == {"u": 5}
    with pytest.raises(DataError, match="size of 'u' is not known"):
        schema_of(config)
