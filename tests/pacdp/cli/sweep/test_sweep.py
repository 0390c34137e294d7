"""Jobs in batches, over processes and over Dask: the numbers are those of each run alone, bit for bit."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_jobs import job, outs
from sweeps import ended, values
from tiny_runs import RUNTIME, alone, left_behind, tiny, tiny_private, variants

from pacdp.cli.folder import Folder
from pacdp.cli.run import kind
from pacdp.cli.sweep import batches as sweep
from pacdp.cli.sweep.batches import batches, carry_out
from pacdp.cli.sweep.jobs import single
from pacdp.cli.sweep.kinds import sampler_job
from pacdp.cli.sweep.workers import Died, Workers
from tests.marks import made_once, parametrize, slow


@made_once
def mixed():
    """Runs of three kinds: more of one than a worker's share."""
    runs = [*variants(tiny("sgld"))[:4], tiny("sgd"), replace(tiny("entropy-sgld"), chain=1)]
    return [sampler_job(run) for run in runs]


@made_once
def expected(mixed, tmp_path_factory):
    return alone([one.config for one in mixed], tmp_path_factory.mktemp("alone"))


def _carried_out(jobs, root, workers=None):
    assert ended(jobs, root, workers) == dict.fromkeys(range(len(jobs)))
    return [left_behind(out) for out in outs(jobs, root)]


_RUNS = [tiny(name, epochs=epochs) for name in ("sgd", "sgld", "entropy-sgd", "entropy-sgld") for epochs in (1.0, 2.0)]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(_RUNS), st.integers(0, 5)), max_size=25), st.integers(1, 9))
def test_batches_partition_the_runs_by_kind_into_shares(drawn, workers):
    runs = [replace(run, chain=chain) for run, chain in drawn]
    found = batches([sampler_job(run) for run in runs], workers=workers)
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


@parametrize("which", [slow("processes"), "threads", slow("cluster")])
def test_two_workers_leave_what_each_run_leaves_alone(which, mixed, expected, tmp_path, request):
    how = {}
    if which != "processes":
        how = {"dask": request.getfixturevalue(which).scheduler_address}
    assert _carried_out(mixed, tmp_path, Workers(workers=2, **how)) == expected


@parametrize("address", ["tcp://127.0.0.1:9", "no-such-host.invalid:8786"])
def test_no_scheduler_is_one_sentence_within_dask_s_own_timeout(address, tmp_path, refused):
    pytest.importorskip("distributed")
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": 0.5}):
        said = refused("train", "sgd-digits2", "--out", tmp_path, "--chains", 2, "--dask", address)
    assert f"no Dask scheduler answers at {address}" in said
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_is_not_run_again_and_an_unfinished_one_is_taken_up(mixed, expected, tmp_path):
    own = outs(mixed, tmp_path)
    assert _carried_out(mixed, tmp_path) == expected
    before = {path: path.stat().st_mtime_ns for out in own for path in out.iterdir() if path.name != ".lock"}
    Folder(own[2]).result.unlink()
    assert _carried_out(mixed, tmp_path) == expected
    assert {path.parent for path in before if path.stat().st_mtime_ns != before[path]} == {own[2]}


def test_a_finished_run_of_another_configuration_is_reported_not_passed_over(mixed, tmp_path):
    own = outs(mixed[:2], tmp_path)
    _carried_out(mixed[:2], tmp_path)
    changed = [replace(mixed[0], config=replace(mixed[0].config, seed=9)), mixed[1]]
    found = dict(carry_out(changed, own, RUNTIME, workers=Workers()))
    assert found[1] is None
    assert "holds a finished run of another configuration" in found[0]
    for force in (True, False):
        how = replace(RUNTIME, force=force)
        assert dict(carry_out(changed, own, how, workers=Workers())) == {0: None, 1: None}


def test_a_job_of_a_run_s_configuration_leaves_what_any_job_leaves(tmp_path):
    config, out = tiny_private("dp-sgd-mnist"), tmp_path / "job"
    one = single(lambda *_: {"value": 1}).carry_out
    one(config, out, RUNTIME)
    assert (Folder(out).finished, Folder(out).started) == (True, True)
    one(config, out, replace(RUNTIME, force=True))
    with pytest.raises(KeyError):  # which takes the place of the first, and has nothing to put back
        single(lambda *_: {}["value"]).carry_out(config, out, replace(RUNTIME, force=True))
    assert (Folder(out).finished, Folder(out).started) == (False, True)


@parametrize("together", [False, True])
def test_a_job_that_raises_whatever_it_is_costs_the_others_nothing(together, tmp_path):
    jobs = [job(1, together=together), job(2, "raises", together=together), job(3, together=together)]
    assert ended(jobs, tmp_path) == {0: None, 1: "KeyError: 'no such thing'", 2: None}
    assert values(jobs[::2], tmp_path) == [1, 9]


class _Scripted:
    """A pool whose workers die when the script says so; what does not die is carried out here."""

    def __init__(self, kills, log):
        self.kills, self.log, self.open = dict(kills), log, 0

    def run(self, function, members, *rest):
        self.open += 1
        self.log.append((tuple(members), self.open))
        try:
            killer = next((i for i in members if self.kills.get(i, 0) > 0), None)
            if killer is not None:
                self.kills[killer] -= 1
                raise Died
            return [(i, None) for i in members]
        finally:
            self.open -= 1

    def close(self):
        assert self.open == 0, "nothing is stopped"


@given(st.dictionaries(st.integers(0, 7), st.integers(0, 9)), st.integers(0, 3), st.integers(1, 3))
def test_every_job_ends_once_and_only_what_kills_its_worker_beyond_the_retries_is_given_up(kills, retries, workers):
    log = []
    jobs = [job(k, together=k < 5) for k in range(8)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "here", False)
        patch.setattr(Workers, "pool", lambda self: _Scripted(kills, log))
        patch.setattr(sweep.Folder, "finished", False)
        found = list(carry_out(jobs, [Folder("none").path] * 8, RUNTIME,
                               workers=Workers(workers=workers, retries=retries)))  # fmt: skip
    assert sorted(i for i, _ in found) == list(range(8))
    most, last = 2 * (retries + 1), dict(found)
    for i, said in last.items():
        if not kills.get(i):
            assert said is None
        elif kills[i] >= most:
            assert f"{retries + 1} of them with nothing beside it" in said
    assert all(last[i] is None for i in (5, 6, 7) if kills.get(i, 0) < most)
    assert max(width for _, width in log) <= workers
    suspects = [[width for members, width in log if members == (i,)][retries + 1 :] for i in (5, 6, 7)]
    assert {width for widths in suspects for width in widths} <= {1}, "what killed is tried with nothing beside it"
    tried = {i: sum(members == (i,) for members, _ in log) for i in range(8)}
    assert all(tried[i] == min(kills.get(i, 0) + 1, most) for i in (5, 6, 7))
