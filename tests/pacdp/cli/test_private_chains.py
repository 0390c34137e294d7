"""Clipped chains are private runs: secret noise, counted before it is drawn, and what may leave."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from cli_tools import QUICK, read, succeed, verdicts
from report_pages import write
from secret_runs import KINDS, counted_in, secret, stretches
from tiny_runs import RUNTIME, begin, chain_folders, counted_run, leave, left_behind, tiny_private

from pacdp import load_checkpoint, load_trained
from pacdp.chains import SecretKeys
from pacdp.cli import run as running
from pacdp.cli.config import CLIPPED, RECIPES, recipe
from pacdp.cli.exporting import leaving
from pacdp.cli.folder import Folder
from pacdp.cli.report import write_report
from pacdp.cli.run import train, train_together
from pacdp.cli.serial import to_dict
from pacdp.cli.sweep.kinds import sampler_job
from pacdp.data import load
from pacdp.random import cipher
from pacdp.step.paid import Paid
from pacdp.store.canonical import digest
from pacdp.store.checkpoint import save_checkpoint
from pacdp.store.ledger import Ledger, Overdrawn, SharedNoise
from pacdp.store.ledger_entries import Limit
from pacdp.verify.report import check_path
from tests.marks import near, parametrize, refusal


def key_of(folder):
    return load_checkpoint(folder).header["noise_key"]


pytestmark = pytest.mark.usefixtures("few_passes")
SEEDED = replace(secret(), reproducible=True)
NOISE = {"std_errors": 20.0, "std_n": 20.0}


# which runs are secret


def test_recipes_that_promise_privacy_draw_from_the_system_and_studies_from_their_seeds():
    for name in RECIPES:
        one = recipe(name, scale="smoke")
        private = any(name.startswith(clipped) for clipped in CLIPPED)
        assert (one.promising, one.reproducible) == (private, not private)
        assert sampler_job(one).config.reproducible
        assert ("reproducible" in to_dict(one)) == private  # so that the keys of others stay what they were


def test_secret_runs_do_not_repeat_and_certificates_say_whose_noise_it_is(counted, tmp_path):
    places = {"seeded": SEEDED, "secret": secret()}
    for name, run in places.items():
        train(run, tmp_path / name, RUNTIME)
    seeded, other = (left_behind(tmp_path / name) for name in places)
    first = left_behind(counted / "SGLD")
    assert {"noise_key", "ledger"}.isdisjoint(seeded["header"])
    assert first["tensors"] != other["tensors"]
    assert first["header"]["noise_key"] != other["header"]["noise_key"]
    for name, words in (("seeded", "seed"), ("secret", "key of the operating system")):
        assert ("private" in read(tmp_path / name / "result.json")) == (name == "secret")
        made = load_trained(tmp_path / name).assess(settings=SEEDED.certify)
        (said,) = {h.by for c in made.certificates for h in c.hypotheses if h.name == "noise secret or independent"}
        assert words in said


# counted before it is drawn


def watched(run, ledger, monkeypatch):
    """Whether the step of each noise was counted when it was drawn, filled while the run trains."""
    draw, seen = SecretKeys.noised, []

    def noised(self, *arguments, tick, **more):
        step = tick // (run.sampler.gradients_per_step if more["stream"] == 0 else 1) + 1
        seen.append(any(first <= step <= last for first, last in stretches(ledger)))
        return draw(self, *arguments, tick=tick, **more)

    monkeypatch.setattr(SecretKeys, "noised", noised)
    return seen


every_kind = parametrize("name", KINDS)


@pytest.mark.cases(2)
@every_kind
def test_noise_is_counted_before_it_is_drawn(name, tmp_path, monkeypatch):
    seen = watched(KINDS[name], tmp_path / "ledger", monkeypatch)
    counted_run(KINDS[name], tmp_path)
    assert all(seen)
    assert len(seen) >= KINDS[name].steps(1437)


def test_a_reservation_after_drawing_would_be_seen(tmp_path, monkeypatch):
    reserve, owed = running.Batch._reserve, []

    def late(self, first, last):
        owed.append((first, last))
        for one in owed[:-1]:
            reserve(self, *one)
        del owed[:-1]

    monkeypatch.setattr(running.Batch, "_reserve", late)
    seen = watched(secret(), tmp_path / "ledger", monkeypatch)
    counted_run(secret(), tmp_path)
    assert not all(seen)


# what is paid, and how often


def test_chains_pay_each_and_force_pays_anew(tmp_path):
    ledger, runs = tmp_path / "ledger", [replace(secret(), chain=chain) for chain in range(2)]
    outs = [tmp_path / f"chain-{chain}" for chain in range(2)]
    assert all(isinstance(one, dict) for one in train_together(runs, outs, replace(RUNTIME, ledger=ledger)))
    assert sorted(stretches(ledger)) == sorted(2 * [(1, 45), (46, 90)])
    assert all(one.stretch.tells_size for one in Ledger.load(ledger).entries)
    paid = counted_in(ledger)
    assert not any(one.stream.seeded for one in paid)
    assert len({one.run for one in paid}) == len({*map(key_of, outs)}) == 2
    key = key_of(outs[0])
    assert key_of(counted_run(runs[0], tmp_path, "chain-0", force=True)) != key
    assert len(stretches(ledger)) == 6


@parametrize("run", [secret(), SEEDED], ids=["secret", "seeded"])
def test_a_key_or_seed_that_drew_for_other_settings_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cipher, "new_key", lambda: bytes(32))
    counted_run(run, tmp_path, "a")
    if run.reproducible:
        counted_run(run, tmp_path, "again")  # the same release
    assert len(stretches(tmp_path / "ledger")) == 2
    with refusal("would draw the random numbers", SharedNoise):
        counted_run(replace(run, sampler=replace(run.sampler, tau=400.0)), tmp_path, "b")
    monkeypatch.setattr("pacdp.cli.run.arithmetic", lambda _: ["other kernels"])
    with refusal("settings of torch", SharedNoise):
        counted_run(run, tmp_path, "c")


def test_a_chain_that_a_limit_refuses_leaves_and_the_others_go_on(tmp_path):
    run, about = secret(records=1), {"delta": 1e-5, "adjacency": "replace-one"}
    train(run, tmp_path / "one", replace(RUNTIME, ledger=tmp_path / "first"))
    cost = Ledger.load(tmp_path / "first").total(**about).epsilon
    Ledger.open(tmp_path / "ledger").set_limit(Limit(epsilon=1.2 * cost, **about))
    outs = [tmp_path / "a", tmp_path / "b"]
    first, second = train_together([run, replace(run, chain=1)], outs, replace(RUNTIME, ledger=tmp_path / "ledger"))
    assert (type(first), type(second)) == (dict, Overdrawn)
    assert stretches(tmp_path / "ledger") == [(1, 90)]
    assert not Folder(outs[1]).finished


def test_a_chain_that_a_limit_refuses_leaves_no_folder_that_was_not_there(tmp_path):
    run, how = secret(records=1), replace(RUNTIME, ledger=tmp_path / "ledger")
    Ledger.open(how.ledger).set_limit(Limit(epsilon=1e-3, delta=1e-5, adjacency="replace-one"))
    mine = tmp_path / "mine" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    for out in (tmp_path / "new", mine.parent):
        with refusal("nothing was drawn", Overdrawn):
            train(run, out, how)
    assert not (tmp_path / "new").exists()
    assert {path.name for path in mine.parent.iterdir()} == {"notes.txt", ".lock", ".pacdp"}


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in (".lock", ".pacdp")}


@parametrize("run", [secret(records=1), tiny_private("dp-sgd-mnist")], ids=["chain", "private"])
def test_a_successor_that_a_limit_refuses_leaves_the_run_as_it_was(run, tmp_path, monkeypatch):
    folder = counted_run(run, tmp_path)
    write_report(folder)
    (folder / "notes.txt").write_text("mine")
    old, more = files_of(folder), {"ledger": tmp_path / "small", "force": True}
    Ledger.open(more["ledger"]).set_limit(Limit(epsilon=1e-4, delta=1e-5, adjacency="replace-one"))

    def refuse(**how):
        with refusal("nothing was drawn", Overdrawn):
            begin(run)(run, folder, replace(RUNTIME, **{**more, **how}))
        assert files_of(folder) == old

    refuse()
    for how in ({}, {"resume": True, "force": False}):  # a successor that was killed before its first step
        with monkeypatch.context() as patch:
            patch.setattr(Paid, "before", killed)
            patch.setattr("pacdp.cli.folder.put_back", lambda *_, **__: None)
            with pytest.raises(KeyboardInterrupt):
                begin(run)(run, folder, replace(RUNTIME, **more))
        assert not Folder(folder).finished
        refuse(**how)
    begin(run)(run, folder, replace(RUNTIME, force=True, ledger=tmp_path / "ledger"))
    assert {"notes.txt", ".replaced"} & {path.name for path in folder.iterdir()} == {"notes.txt"}


def killed(*arguments):
    raise KeyboardInterrupt


def test_chains_that_are_refused_put_back_what_each_was_to_replace(tmp_path):
    run, about = secret(records=1), {"delta": 1e-5, "adjacency": "replace-one"}
    runs, outs = [run, replace(run, chain=1)], [tmp_path / "a", tmp_path / "b"]
    train(run, tmp_path / "a", replace(RUNTIME, ledger=tmp_path / "first"))
    cost, ledger = Ledger.load(tmp_path / "first").total(**about).epsilon, tmp_path / "ledger"
    Ledger.open(ledger).set_limit(Limit(epsilon=1.2 * cost, **about))
    train(runs[1], tmp_path / "b", replace(RUNTIME, ledger=tmp_path / "first"))
    old = [files_of(out) for out in outs]
    _, second = train_together(runs, outs, replace(RUNTIME, ledger=ledger, force=True))
    assert type(second) is Overdrawn
    assert [files_of(out) == was for out, was in zip(outs, old, strict=True)] == [False, True]


@every_kind
def test_one_record_does_not_decide_whether_a_private_chain_ends(name, tmp_path, monkeypatch):
    def with_a_far_record(*given, **named):
        kept, test = load(*given, **named)
        inputs = kept.inputs.copy()
        inputs[700] = 3e38  # outputs overflow, so that its gradient counts as zero
        return replace(kept, inputs=inputs), test

    monkeypatch.setattr("pacdp.cli.run.load", with_a_far_record)
    assert train(KINDS[name], tmp_path / "run", RUNTIME)["final"]["step"] > 0


@pytest.mark.slow
def test_chains_in_other_processes_pay_too(tmp_path):
    given = ("train", "entropy-sgld-clipped-digits2", *QUICK, "--out", tmp_path / "run", "--chains", 2, "--workers", 2)
    succeed(*given)
    paid = {one.run for one in counted_in(tmp_path / "ledger")}
    assert paid == {load_checkpoint(one).header["ledger"]["run"] for one in chain_folders(tmp_path / "run")}
    assert len(paid) == 2


@pytest.mark.parametrize("first", [("--no-ledger",), ("--ledger", "own")])
def test_finished_chains_are_not_said_to_be_counted_where_they_are_not(first, tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    again = ("train", "entropy-sgld-clipped-digits2", *QUICK, "--out", "run", "--chains")
    succeed(*again, 2, *first)
    why = "counted in a ledger" if "own" in first else "started without a ledger"
    for chains in (2, 3):
        assert why in refused(*again, chains, "--resume")
    other = "--ledger" if "own" not in first else "--no-ledger"
    assert why in refused(*again, 2, "--resume", other, *(["own"] * (other == "--ledger")))
    assert len(chain_folders(tmp_path / "run")) == 2
    succeed(*again, 3, "--resume", *first)


# what may leave


def test_one_of_several_chains_finds_the_ledger_that_counted_them(tmp_path, refused, monkeypatch):
    run, noise = tmp_path / "runs" / "a", ("--std-errors", 20, "--std-n", 20)
    succeed("train", "entropy-sgld-clipped-digits2", *QUICK, "--out", run, "--chains", 2)
    before = stretches(tmp_path / "runs" / "ledger")
    succeed("export", run / "chain-00", tmp_path / "out", *noise)
    assert stretches(tmp_path / "runs" / "ledger") == before
    assert stretches(tmp_path / "runs" / "ledger", "release")
    monkeypatch.chdir(run / "chain-01")
    Ledger.open(run / "ledger")  # another one, which counts nothing of theirs
    succeed("export", ".", tmp_path / "too", *noise)
    (tmp_path / "runs" / "ledger").rename(tmp_path / "elsewhere")
    assert "--ledger" in refused("export", run / "chain-00", tmp_path / "four", *noise)


@pytest.mark.cases(1)
@every_kind
def test_a_secret_chain_leaves_without_its_key_and_with_the_event_of_its_settings(name, counted, tmp_path):
    run = Path(copytree(counted / name, tmp_path / "run"))
    (run / "released.json").unlink(missing_ok=True)
    reports = [leave(run, tmp_path / out, ledger=counted / "ledger", **NOISE) for out in ("out", "again")]
    assert reports[0]["details"]["counts"] == reports[1]["details"]["counts"]
    assert verdicts(tmp_path / "out") == {"follows"}
    one, (made,) = leaving(run, RUNTIME), reports[0]["certificates"]
    assert made["of"] == "weights"
    assert 0 < abs(reports[0]["n"] - one.bound.n)
    assert load_checkpoint(tmp_path / "out" / "weights.safetensors").state == {}
    header, content = (one.checkpoint.header, b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir()))
    for private in (header["noise_key"], header["ledger"]["run"], header["ledger"]["receipt"]["hash"],
                    header["data"]["train"], header["content_hash"], Ledger.load(counted / "ledger").id):  # fmt: skip
        assert private.encode() not in content
    assert bytes.fromhex(header["noise_key"]) not in content
    settings = read(tmp_path / "out" / "settings.json")
    settings["run"]["sampler"]["tau"] *= 4.0  # half the noise
    settings["config_hash"] = digest(settings["run"])
    write(tmp_path / "out" / "settings.json", settings)
    assert [one.claim for one in check_path(tmp_path / "out") if one.verdict == "does not follow"] == ["settings"]


def test_a_listed_run_leaves_at_what_is_left_of_its_failure_probability(tmp_path):
    run = counted_run(replace(secret(), stopping="listed"), tmp_path)
    report = leave(run, tmp_path / "out", **NOISE)
    assert report["certificates"][0]["budget"]["other stopping times"] == near(0.025)
    assert verdicts(tmp_path / "out") == {"follows"}


def test_two_copies_of_a_chain_that_no_ledger_counted_do_not_leave_as_two_runs(tmp_path):
    """One key drew the noise of both: rounded otherwise, as on another machine, they differ by no noise at all."""
    train(secret(), tmp_path / "a", RUNTIME)
    copytree(tmp_path / "a", tmp_path / "b")
    one = load_checkpoint(tmp_path / "b")
    moved = {name: weights.nextafter(weights.new_tensor(9.0)) for name, weights in one.model.items()}
    save_checkpoint(tmp_path / "b" / "checkpoint.safetensors", replace(one, model=moved))
    for out in ("out", "again"):  # the second costs nothing
        leave(tmp_path / "a", tmp_path / out, correct=True, **NOISE)
    with refusal("would draw the random numbers", SharedNoise):
        leave(tmp_path / "b", tmp_path / "other", correct=True, **NOISE)
    assert stretches(tmp_path / "ledger", "correction") == [(1, 1)]
    assert not (tmp_path / "other").exists()
