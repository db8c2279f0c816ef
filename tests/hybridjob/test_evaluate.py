"""The metrics of the held-out rows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hybridjob.evaluate import area_under_roc, binary_metrics, class_metrics, value_metrics


def counted(scores, labels):
    """Count pairs of a positive and a negative, as the definition says."""
    pairs = [(p, n) for p, a in zip(scores, labels, strict=True) if a
             for n, b in zip(scores, labels, strict=True) if not b]  # fmt: skip
    return sum((p > n) + 0.5 * (p == n) for p, n in pairs) / len(pairs)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_the_area_equals_counting_all_pairs(pairs):
    scores, labels = zip(*pairs, strict=True)
    area = area_under_roc(np.array(scores, dtype=np.float64), np.array(labels))
    if all(labels) or not any(labels):
        assert math.isnan(area)
    else:
        assert area == pytest.approx(counted(scores, labels))


def test_binary_metrics_of_a_known_case():
    metrics = binary_metrics(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1.0, 0, 0, 1]))
    assert metrics["auc"] == 0.5
    assert metrics["accuracy"] == 0.5
    expected = np.mean(np.log1p(np.exp([-2.0, -1.0, 0.5, 3.0])))
    assert metrics["logloss"] == pytest.approx(expected, abs=1e-6)


def test_class_and_value_metrics_of_known_cases():
    logits = torch.tensor([[5.0, 0, 0], [0, 5.0, 0]])
    assert class_metrics(logits, torch.tensor([0, 2]))["accuracy"] == 0.5
    assert value_metrics(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0])) == {
        "mse": 2.5,
        "mae": 1.5,
    }
