"""Every random generator goes on where it was."""

import random

import numpy as np
import torch

from hybridjob.random_state import capture, restore, seed_all

CPU = torch.device("cpu")


def draw():
    return [
        torch.rand(3).tolist(),
        random.random(),
        random.gauss(0, 1),
        np.random.randn(3).tolist(),
    ]


def test_what_is_drawn_after_a_restore_is_what_would_have_been_drawn():
    seed_all(3)
    draw()
    random.gauss(0, 1)  # leaves a second value in store
    np.random.randn()
    state = capture(CPU)
    expected = [draw(), draw()]
    seed_all(99)
    restore(state, CPU)
    assert [draw(), draw()] == expected


def test_a_seed_decides_everything():
    seed_all(7)
    first = draw()
    seed_all(7)
    assert draw() == first
