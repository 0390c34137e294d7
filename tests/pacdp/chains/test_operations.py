"""What a step of many chains costs a GPU, counted on `meta`, where nothing is computed and nothing can be read back.

Operations stand for kernels. Functions under `pacdp.random.devices.fused` are one program on a GPU and count as one.
"""

import functools
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from on_meta import META, Counted, as_one_program, objective_on_meta, one_program
from torch import equal
from torch._inductor.utils import run_and_get_code
from torch.testing import assert_close
from toys import keys_of

from pacdp.algorithms import PSGLD, SGHMC, SGLD, EntropySGD, build
from pacdp.chains import Keys, update
from pacdp.models import Architecture
from pacdp.objective import Objective
from pacdp.random import philox
from pacdp.random.philox import MULTIPLIERS
from pacdp.step import chain_sums
from pacdp.step.sampling import most_of_poisson
from tests.marks import at_most, parametrize, refusal, slow
from tests.pacdp.draws import randn

STEPS = [
    (SGLD(tau=245.0), 1), (SGHMC(tau=245.0), 1), (PSGLD(tau=245.0), 2), (EntropySGD(tau=245.0, inner_steps=3), 3),
    (SGLD(tau=245.0, batch_size=32, clip_norm=0.5), 1),
    (EntropySGD(tau=245.0, inner_steps=3, batch_size=32, clip_norm=0.5), 3),
]  # fmt: skip
FC = Architecture(hidden=(100,))
MOST = 100
"""Kernels of a gradient and its update beyond those of the network, fc(100)."""
BY_NETWORK = {
    "fc(100)": (FC, 100), "fc600x3": (Architecture(hidden=(600, 600, 600)), 130),
    "GroupNorm": (Architecture(hidden=(100,), norm="group"), 110), "conv": (Architecture(name="conv"), 150),
}  # fmt: skip
"""The same of a clipped step; that page and the test below name the same numbers."""
PAGE = Path(__file__).parents[3] / "docs/chains.md"
H100 = 84_900_000_000
"""Bytes of its memory."""


def counted(settings, chains, monkeypatch, *, fused=True, architecture=FC, most=None):
    objective = objective_on_meta(architecture, settings.clip_norm)
    if most is not None and objective._fixed is not None:
        objective._fixed.most = most
    if fused:
        as_one_program(monkeypatch)
    sampler, keys = build([settings] * chains, objective), Keys.derive(range(chains))
    state = sampler.init(torch.empty(chains, objective.dim, device=META))
    numbers = {
        name: torch.empty(value.shape, device=META) if isinstance(value, np.ndarray) else value
        for name, value in sampler.coefficients(0).items()
    }
    tick = torch.zeros((), dtype=torch.int64, device=META)
    sampler.transition(state, numbers, keys, tick)  # a warm-up: keys are copied there once
    with Counted() as seen:
        sampler.transition(state, numbers, keys, tick)
    assert not +seen.copied, seen.copied
    return seen.seen


@functools.cache
def as_written(settings, chains):
    """The same, of programs that are not fused."""
    return counted(settings, chains, None, fused=False)


def of_the_network(chains, architecture=FC):
    """Passes forward and backward alone."""
    objective = objective_on_meta(architecture)
    weights = torch.empty(chains, objective.dim, device=META)
    labels = torch.zeros(chains, 32, dtype=torch.int64, device=META)
    into = torch.empty_like(weights)
    with Counted() as seen:
        objective.network.together(weights, one_program(chains, 32, 1, 28, 28), labels, objective.loss, into)
    return seen.seen


@at_most(2, ("settings", "gradients"), STEPS, ids=lambda one: type(one).__name__)
def test_a_step_of_many_chains_has_as_many_kernels_as_one_of_two(settings, gradients, monkeypatch):
    few, many = (as_written(settings, chains) for chains in (2, 8))
    assert sum(many.values()) == sum(few.values()), many - few
    own = gradients * sum(of_the_network(64).values())
    assert 10 * gradients < own
    assert sum(counted(settings, 64, monkeypatch).values()) - own < MOST * gradients


@at_most(2, "name", BY_NETWORK)
def test_a_step_has_no_more_kernels_than_the_page_says_on_60_000_examples(name, monkeypatch):
    architecture, most = BY_NETWORK[name]
    rows = most_of_poisson(60_000, 128 / 60_000)
    monkeypatch.setattr(chain_sums, "room_on", lambda device: H100 // 8)
    own = sum(of_the_network(64, architecture).values())
    for clip_norm, limit in ((None, 10), (0.5, most)):
        settings = SGLD(tau=245.0, batch_size=32, clip_norm=clip_norm)
        seen = counted(settings, 64, monkeypatch, architecture=architecture, most=rows)
        assert sum(seen.values()) - own <= limit
    assert sum(seen.values()) - own > 0.8 * most
    assert f"{name} {most}" in PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(chain_sums, "room_on", lambda device: H100 // 32)  # a smaller one takes some in parts
    again = counted(settings, 64, monkeypatch, architecture=architecture, most=rows)
    assert (sum(again.values()) > sum(seen.values())) == (name in ("GroupNorm", "conv"))


def test_nothing_on_the_device_path_asks_the_device_for_a_number():
    for settings, _ in STEPS[:3] + STEPS[-1:]:
        seen = as_written(settings, 2)
        assert not seen.keys() & {"item", "_local_scalar_dense", "nonzero", "normal_", "uniform_", "random_", "rand"}


def test_a_planted_synchronisation_is_noticed(monkeypatch):
    plain = Objective.draw
    monkeypatch.setattr(Objective, "draw", lambda self, keys, tick: plain(self, keys, int(tick)))
    with refusal("meta", RuntimeError):
        counted(SGLD(tau=9.0), 3, monkeypatch, fused=False)


@pytest.mark.compiles
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@parametrize("words_too", [False, slow(True)])
def test_compiled_programs_give_the_numbers_that_are_written(words_too):
    """Those of a whole step, and slowly the words that its noise is made of, by themselves."""
    keys = keys_of(1, 2, 3)
    halves, tick = keys.noise_on(torch.device("cpu")), torch.tensor(2**33 + 5)
    if words_too:
        written = philox.uniform_words(halves, 257, 2, tick)
        assert equal(torch.compile(philox.uniform_words, dynamic=False)(halves, 257, 2, tick), written)
    x, gradient, centre = randn(3, 3, 1500)
    column = torch.tensor([[0.1], [0.5], [0.9]])
    rest = (column, gradient, column, centre, column, column, halves, 1, tick)
    means = [torch.zeros_like(x), torch.zeros_like(x)]
    compiled, code = run_and_get_code(torch.compile(update._plain, dynamic=False), x, *rest, means[1], column)
    found = update._plain(x, *rest, means[0], column), compiled
    assert not re.search(rf"{MULTIPLIERS[0]}L?\s*\*", code[0])  # of an index, which a GPU takes in 32 bits
    assert_close(*found, rtol=1e-5, atol=1e-5)
    assert_close(*means, rtol=1e-5, atol=1e-5)
