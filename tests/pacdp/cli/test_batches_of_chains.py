"""Runs in batches: the numbers are those of each run alone, bit for bit."""

from dataclasses import replace

import pytest
from tiny_runs import ALGORITHMS, RUNTIME, alone, left_behind, tiny, variants

from pacdp.cli.folder import Folder
from pacdp.cli.run import kind, train, train_together
from pacdp.errors import Diverged
from pacdp.models import Architecture
from tests.marks import at_most, refusal

BAD = {
    "sgd": {"step_size": 3e38}, "sgld": {"tau": 1e-30}, "entropy-sgd": {"tau": 1e-39}, "entropy-sgld": {"tau": 1e-20},
    "psgld": {"tau": 1e-30}, "sghmc": {"step_size": 3e38},
}  # fmt: skip


def _outs(root, runs):
    return [root / f"run-{k}" for k in range(len(runs))]


def _together(runs, root, runtime=RUNTIME):
    """What each of the runs leaves when they are trained in one batch."""
    outs = _outs(root, runs)
    train_together(runs, outs, runtime)
    return [*map(left_behind, outs)]


def test_what_shapes_a_batch_makes_another_kind():
    one = tiny("sgld")
    others = [*map(tiny, ("sgd", "clipped-sgld", "entropy-sgd", "entropy-sgld")), tiny("sgld", batch_size=16)]
    others += [replace(one, epochs=3.0), replace(one, records=1), replace(one, failure_prob=0.1)]
    others += [replace(one, track=replace(one.track, prior_draws=3))]
    changes = ({"train_size": 100}, {"train_size": 100, "split_seed": 1}, {"max_loss": 3.0})
    others += [replace(one, problem=replace(one.problem, **change)) for change in changes]
    assert len({kind(other) for other in (one, *others)}) == len(others) + 1


def test_runs_of_two_kinds_are_no_batch(tmp_path):
    with refusal("one kind"):
        _together([tiny("sgd"), tiny("sgld")], tmp_path)
    assert list(tmp_path.iterdir()) == []


@at_most(1, "algorithm", ALGORITHMS)
def test_runs_together_have_the_numbers_of_each_alone(algorithm, tmp_path):
    # 2,461 weights: chains side by side begin at every place of a cache line
    wide = replace(tiny(algorithm).problem, architecture=Architecture(hidden=(33, 9)))
    runs = variants(replace(tiny(algorithm), problem=wide))
    found = _together(runs, tmp_path)
    assert found == alone(runs, tmp_path)
    assert len({one["tensors"]["model.1.weight"] for one in found}) == len(runs)


@at_most(
    1, "how", [{"batching": "loop"}, {"bfloat16": True}, {"checkpoint_seconds": 0.0}], ids=lambda how: next(iter(how))
)
def test_however_it_is_carried_out(how, tmp_path):
    runs, runtime = variants(tiny("sgld"))[1::2], replace(RUNTIME, **how)
    assert _together(runs, tmp_path, runtime) == alone(runs, tmp_path, runtime)


@at_most(2, "algorithm", BAD)
def test_a_run_that_diverges_leaves_and_the_others_do_not_notice(algorithm, tmp_path):
    good = variants(tiny(algorithm))[:2]
    bad = replace(tiny(algorithm, **BAD[algorithm]), chain=4)
    runs = [good[0], bad, *good[1:]]
    outs = _outs(tmp_path, runs)
    outcomes = train_together(runs, outs, RUNTIME)
    assert [isinstance(outcome, Diverged) for outcome in outcomes] == [False, True, False]
    assert [left_behind(outs[k]) for k in (0, 2)] == alone(good, tmp_path)
    with pytest.raises(Diverged) as alone_too:
        train(bad, tmp_path / "bad", RUNTIME)
    assert str(alone_too.value) == str(outcomes[1])
    assert left_behind(outs[1]) == left_behind(tmp_path / "bad")
    assert not Folder(outs[1]).finished


def test_a_gibbs_classifier_that_is_not_finite_costs_the_others_nothing(tmp_path):
    """The weights stay finite, the draws from the prior around them do not."""
    bad, good = tiny("entropy-sgd", tau=1e-36, gamma=1e-5), replace(tiny("entropy-sgd"), chain=1)
    outs = _outs(tmp_path, "ab")
    error, _ = train_together([bad, good], outs, RUNTIME)
    assert isinstance(error, Diverged)
    assert "Gibbs classifier" in str(error)
    assert left_behind(outs[1]) == alone([good], tmp_path)[0]
