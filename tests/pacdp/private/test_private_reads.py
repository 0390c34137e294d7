"""How often a private step asks for numbers: a GPU is waited for once in so many steps."""

import pytest
from private_toys import mechanism, trained

from pacdp import loop
from pacdp.algorithms.dp_sgd import DPSGD
from pacdp.errors import Diverged
from pacdp.step.mechanism import MODES
from tests.marks import parametrize
from tests.pacdp.same import identical

STEPS = 7


def run(mode=None, *, rate=0.5, clip_norm=1.0, **options):
    numbers = mechanism(clip_norm=clip_norm, noise_multiplier=1.0, steps=STEPS, grad_sample_mode=mode)
    return trained(DPSGD(learning_rate=rate), mechanism=numbers, **options)


@pytest.fixture
def later(monkeypatch):
    """As on a GPU: numbers of several steps are read together."""
    monkeypatch.setitem(loop._UNREAD, "cpu", 16)


@parametrize("mode", MODES)
def test_numbers_that_are_read_together_are_those_that_are_read_one_by_one(mode, monkeypatch):
    seen, weights = [], []
    for most in (1, 3, 16):
        monkeypatch.setitem(loop._UNREAD, "cpu", most)
        told = []
        weights.append(run(mode, progress=told.append).weights)
        seen.append(told)
    assert seen[0] == seen[1] == seen[2]
    assert [one.step for one in seen[0]] == list(range(1, STEPS + 1))
    assert all(identical(other, weights[0]) for other in weights)


def test_a_step_before_its_checkpoint_is_told_before_it_is_written(later, tmp_path):
    order = []
    saved = loop.save_run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "save_run", lambda *a, **k: (order.append("saved"), saved(*a, **k))[1])
        run(progress=lambda one: order.append(one.step), checkpoint=tmp_path / "c", checkpoint_every=3)
    assert order == [1, 2, 3, "saved", 4, 5, 6, "saved", 7, "saved"]


def test_the_first_step_that_diverged_is_named_though_others_followed(later):
    with pytest.raises(Diverged) as found:
        run(rate=lambda t: 1e38 if t == 2 else 0.1, clip_norm=1e4)
    assert "step 3" in str(found.value)
