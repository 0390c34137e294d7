"""Runs in batches, over processes and over Dask: the numbers are those of each run alone, bit for bit."""

import warnings
from dataclasses import replace

import pytest
from cli_tools import one_sentence, pacdp, rows
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import ALGORITHMS, RUNTIME, alone, left_behind, tiny, variants

from experiments.fleet import Workers, batches, carry_out
from experiments.folder import Folder
from experiments.run import kind, train, train_together
from pacdp import Architecture, Diverged

BAD = {
    "sgd": {"step_size": 3e38}, "sgld": {"tau": 1e-30}, "entropy-sgd": {"tau": 1e-39}, "entropy-sgld": {"tau": 1e-20},
    "psgld": {"tau": 1e-30}, "sghmc": {"step_size": 3e38},
}  # fmt: skip


@pytest.fixture(scope="module")
def mixed():
    """Runs of three kinds: more of one than a worker's share."""
    return [*variants(tiny("sgld"))[:4], tiny("sgd"), replace(tiny("entropy-sgld"), chain=1)]


@pytest.fixture(scope="module")
def expected(mixed, tmp_path_factory):
    return alone(mixed, tmp_path_factory.mktemp("alone"))


def _outs(root, runs):
    return [root / f"run-{k}" for k in range(len(runs))]


def _carried_out(runs, root, workers):
    ended = dict(carry_out(runs, _outs(root, runs), RUNTIME, workers=workers))
    assert ended == dict.fromkeys(range(len(runs)))
    return [left_behind(out) for out in _outs(root, runs)]


@given(st.lists(st.tuples(st.sampled_from(["sgd", "sgld", "entropy-sgd", "entropy-sgld"]), st.integers(1, 2),
                          st.integers(0, 5)), max_size=25), st.integers(1, 9))  # fmt: skip
def test_batches_partition_the_runs_by_kind_into_shares(drawn, workers):
    runs = [replace(tiny(name, epochs=float(epochs)), chain=chain) for name, epochs, chain in drawn]
    found = batches(runs, workers=workers)
    assert sorted(i for part in found for i in part) == list(range(len(runs)))
    assert all(part for part in found)
    assert all(len({kind(runs[i]) for i in part}) == 1 for part in found)
    assert [len(part) for part in found] == sorted(map(len, found), reverse=True)
    share = -(-len(runs) // workers)
    sizes = {}
    for part in found:
        assert len(part) <= share
        sizes.setdefault(kind(runs[part[0]]), []).append(len(part))
    for own in sizes.values():  # no more batches of a kind than its runs need
        assert len(own) == -(-sum(own) // share)


def test_a_kind_is_all_that_shapes_a_batch():
    for name in ALGORITHMS:
        one = tiny(name)
        assert {kind(other) for other in variants(one)} == {kind(one)}
    one = tiny("sgld")
    others = [
        tiny("sgd"), tiny("sgld", epochs=3.0), tiny("sgld", records=1), tiny("sgld", batch_size=16),
        tiny("clipped-sgld"), replace(one, failure_prob=0.1), replace(one, track=replace(one.track, prior_draws=3)),
        replace(one, problem=replace(one.problem, train_size=100)),
        replace(one, problem=replace(one.problem, train_size=100, split_seed=1)),
        replace(one, problem=replace(one.problem, max_loss=3.0)),
    ]  # fmt: skip
    assert len({kind(other) for other in (one, *others)}) == len(others) + 1
    assert kind(tiny("entropy-sgd")) != kind(tiny("entropy-sgld"))


def test_runs_of_two_kinds_are_no_batch(tmp_path):
    with pytest.raises(ValueError, match="one kind"):
        train_together([tiny("sgd"), tiny("sgld")], _outs(tmp_path, "ab"), RUNTIME)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_runs_together_have_the_numbers_of_each_alone(algorithm, tmp_path):
    # 2,461 weights: chains side by side begin at every place of a cache line
    wide = replace(tiny(algorithm).problem, architecture=Architecture(hidden=(33, 9)))
    runs = variants(replace(tiny(algorithm), problem=wide))
    train_together(runs, _outs(tmp_path, runs), RUNTIME)
    together = [left_behind(out) for out in _outs(tmp_path, runs)]
    assert together == alone(runs, tmp_path)
    assert len({found["tensors"]["model.1.weight"] for found in together}) == len(runs)


@pytest.mark.parametrize(
    "runtime",
    [replace(RUNTIME, batching="loop"), replace(RUNTIME, bfloat16=True), replace(RUNTIME, checkpoint_seconds=0.0)],
    ids=["loop", "bfloat16", "checkpoints without end"],
)
def test_however_it_is_carried_out(runtime, tmp_path):
    runs = variants(tiny("sgld"))
    train_together(runs, _outs(tmp_path, runs), runtime)
    assert [left_behind(out) for out in _outs(tmp_path, runs)] == alone(runs, tmp_path, runtime)


def test_windows_of_a_long_trace_do_not_depend_on_the_batch_or_on_interruptions(tmp_path):
    one = tiny("sgld", batch_size=1, epochs=53.0, records=2)
    runs = variants(replace(one, problem=replace(one.problem, train_size=41)))[:3]
    expected = alone(runs, tmp_path)
    outs, seen = _outs(tmp_path, runs), []

    def stop(step, steps, row):
        seen.append(step)
        if len(seen) % 3 == 0:
            raise KeyboardInterrupt

    for _ in range(20):
        if all(Folder(out).finished for out in outs):
            break
        try:
            train_together(runs, outs, replace(RUNTIME, checkpoint_seconds=0.0), resume=True, report=stop)
        except KeyboardInterrupt:
            continue
    assert [left_behind(out) for out in outs] == expected
    assert len(expected[0]["tensors"]["trace.energy"]) // 4 == 53 * 41 // 2, "two steps a window"


@pytest.mark.parametrize("algorithm", BAD)
def test_a_run_that_diverges_leaves_and_the_others_do_not_notice(algorithm, tmp_path):
    good = variants(tiny(algorithm))[:3]
    bad = replace(tiny(algorithm, **BAD[algorithm]), chain=4)
    runs = [good[0], bad, *good[1:]]
    outs = _outs(tmp_path, runs)
    _, error, *_ = outcomes = train_together(runs, outs, RUNTIME)
    assert isinstance(error, Diverged)
    assert [isinstance(outcome, Diverged) for outcome in outcomes] == [False, True, False, False]
    assert [left_behind(outs[k]) for k in (0, 2, 3)] == alone(good, tmp_path)
    with pytest.raises(Diverged) as alone_too:
        train(bad, tmp_path / "bad", RUNTIME)
    assert str(alone_too.value) == str(error)
    assert left_behind(outs[1]) == left_behind(tmp_path / "bad")
    assert not Folder(outs[1]).finished


def test_runs_may_diverge_one_after_the_other_until_none_is_left(tmp_path):
    slow = tiny("sgld", decay=-1.0, epochs=20.0, records=20)
    runs = [slow, replace(slow, sampler=replace(slow.sampler, tau=1e-30)), replace(slow, chain=1)]
    outs = _outs(tmp_path, runs)
    outcomes = train_together(runs, outs, RUNTIME)
    assert all(isinstance(outcome, Diverged) for outcome in outcomes)
    for k, one in enumerate(runs):
        with pytest.raises(Diverged):
            train(one, tmp_path / f"alone-{k}", RUNTIME)
        assert left_behind(outs[k]) == left_behind(tmp_path / f"alone-{k}")
    assert rows(outs[0])
    assert rows(outs[1]) == []


def test_a_gibbs_classifier_that_is_not_finite_costs_the_others_nothing(tmp_path):
    """The weights stay finite, the draws from the prior around them do not."""
    bad, good = tiny("entropy-sgd", tau=1e-36, gamma=1e-5), replace(tiny("entropy-sgd"), chain=1)
    outs = _outs(tmp_path, "ab")
    error, _ = train_together([bad, good], outs, RUNTIME)
    assert isinstance(error, Diverged)
    assert "Gibbs classifier" in str(error)
    assert left_behind(outs[1]) == alone([good], tmp_path)[0]


def test_one_worker_leaves_what_each_run_leaves_alone(mixed, expected, tmp_path):
    assert _carried_out(mixed, tmp_path, Workers()) == expected


def test_two_processes_leave_the_same(mixed, expected, tmp_path):
    assert _carried_out(mixed, tmp_path, Workers(workers=2)) == expected


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Dask says of itself
        local = distributed.LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None)
    yield local
    local.close()


def test_two_workers_of_a_dask_cluster_leave_the_same(mixed, expected, tmp_path, cluster):
    workers = Workers(workers=2, backend="dask", address=cluster.scheduler_address)
    assert _carried_out(mixed, tmp_path, workers) == expected


def test_an_error_on_a_dask_worker_is_its_sentence(mixed, tmp_path, cluster):
    bad = tiny("sgd", step_size=3e38)
    workers = Workers(workers=2, backend="dask", address=cluster.scheduler_address)
    ended = dict(carry_out([mixed[0], bad], _outs(tmp_path, "ab"), RUNTIME, workers=workers))
    assert ended[0] is None
    assert "NaN or infinite" in ended[1]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "127.0.0.1:9", "no-such-host.invalid:8786", "tcp://"])
def test_no_scheduler_is_one_sentence_within_the_timeout(address, tmp_path, capsys):
    pytest.importorskip("distributed")
    arguments = ("--chains", 2, "--backend", "dask", "--address", address, "--timeout", 0.5)
    assert pacdp("train", "sgd-digits2", "--out", tmp_path, *arguments) == 1
    assert f"no Dask scheduler answers at {address}" in one_sentence(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"workers": 0}, "workers >= 1"), ({"address": "tcp://x:1"}, "--backend dask"), ({"timeout": 0.0}, "timeout > 0")],
)
def test_workers_that_cannot_be(settings, words):
    with pytest.raises(ValueError, match=words):
        Workers(**settings)


def test_a_finished_run_is_not_run_again_and_an_unfinished_one_is_taken_up(mixed, expected, tmp_path):
    outs = _outs(tmp_path, mixed)
    _carried_out(mixed, tmp_path, Workers())
    before = {path: path.stat().st_mtime_ns for out in outs for path in out.iterdir() if path.name != ".lock"}
    Folder(outs[2]).result.unlink()
    _carried_out(mixed, tmp_path, Workers())
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path.parent.name for path in before if after[path] != before[path]} == {"run-2"}
    assert [left_behind(out) for out in outs] == expected


def test_a_finished_run_of_another_configuration_is_reported_not_passed_over(mixed, tmp_path):
    _carried_out(mixed[:2], tmp_path, Workers())
    outs = _outs(tmp_path, "ab")
    ended = dict(carry_out([replace(mixed[0], seed=9), mixed[1]], outs, RUNTIME, workers=Workers()))
    assert ended[1] is None
    assert "run-0 holds a finished run of another configuration" in ended[0]
    for force in (True, False):
        ended = dict(carry_out([replace(mixed[0], seed=9), mixed[1]], outs, RUNTIME, workers=Workers(), force=force))
        assert ended == {0: None, 1: None}
