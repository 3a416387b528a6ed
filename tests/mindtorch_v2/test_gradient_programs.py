"""Gradient penalties, recurrences into slices, frozen layers, threads (gradient_programs.py): PyTorch's numbers."""
import json

import numpy as np
import pytest

import gradient_programs as programs
import mindtorch_v2

STORED = json.loads(programs.STORED.read_text())
NUMBERS = ("penalty_through_conv2d_and_tanh", "penalty_through_linear_and_gelu", "recurrence_into_slices")


def close(ours, theirs, rtol=1e-9, atol=1e-11):
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            close(ours[key], value, rtol, atol)
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            close(a, b, rtol, atol)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_pytorchs(name):
    close(getattr(programs, name)(mindtorch_v2), STORED[name])


@pytest.mark.parametrize("name", NUMBERS)
def test_the_stored_numbers_are_those_of_the_pytorch_that_is_installed(name):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    close(getattr(programs, name)(torch), STORED[name])


def test_a_frozen_backbone_keeps_nothing():
    ours, theirs = programs.frozen_backbone(mindtorch_v2), STORED["frozen_backbone"]
    for key in ("frozen loss", "trained loss", "frozen gradient", "trained gradient", "frozen others", "trained others"):
        close(ours[key], theirs[key], rtol=1e-4, atol=1e-7)
    assert ours["frozen others"] == 2
    assert ours["frozen peak"] <= theirs["frozen peak"] and ours["trained peak"] <= theirs["trained peak"], (ours, theirs)
    assert ours["frozen peak"] < ours["trained peak"] / 2


def test_gradients_of_four_threads_add_up():
    ours = programs.threads_over_shared_weights(mindtorch_v2, repetitions=100)
    close(ours["gradients"], STORED["threads_over_shared_weights"]["gradients"])
    for again in ours["repetitions"]:
        close(again, ours["gradients"])


def test_threads_find_the_sum_of_what_each_finds_alone():
    alone = [programs.threads_over_shared_weights(mindtorch_v2, [i])["gradients"] for i in range(4)]
    together = programs.threads_over_shared_weights(mindtorch_v2)["gradients"]
    for i, weight in enumerate(together):
        np.testing.assert_allclose(weight, sum(np.array(a[i]) for a in alone), rtol=1e-12, atol=1e-12)
