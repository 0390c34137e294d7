"""Clipped chains are private runs: secret noise, counted before it is drawn, and what may leave."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_tools import QUICK, one_sentence, pacdp, read
from secret_runs import KINDS, secret, stretches
from tiny_runs import RUNTIME, chain_folders, left_behind, tiny

from pacdp import load_checkpoint, load_trained
from pacdp.canonical import digest
from pacdp.chains import SecretKeys
from pacdp.cli import batch
from pacdp.cli.config import Run
from pacdp.cli.exporting import SEEDED, export_run
from pacdp.cli.folder import Folder
from pacdp.cli.leaving import leaving
from pacdp.cli.recipes import CLIPPED, RECIPES, recipe
from pacdp.cli.run import train, train_together
from pacdp.cli.serial import from_dict, to_dict
from pacdp.cli.sweep.kinds import sampler_job
from pacdp.data import load
from pacdp.ledger import Ledger, Overdrawn, SharedNoise
from pacdp.ledger_entries import Limit
from pacdp.step import cipher
from pacdp.verify.report import check_path


def key_of(folder: Path) -> str:
    return load_checkpoint(folder).header["noise_key"]


def verdicts(folder: Path) -> set[str]:
    return {one.verdict for one in check_path(folder)}


# which runs are secret


def test_recipes_that_promise_privacy_draw_from_the_system_and_studies_from_their_seeds():
    for name in RECIPES:
        one = recipe(name, scale="smoke")
        private = any(name.startswith(clipped) for clipped in CLIPPED)
        assert (one.promising, one.reproducible) == (private, not private)
        assert sampler_job(one).config.reproducible
        assert from_dict(Run, json.loads(json.dumps(to_dict(one)))) == one
        assert ("reproducible" in to_dict(one)) == private  # so that the keys of others stay what they were
    with pytest.raises(ValueError, match="reproducible=False keeps the noise secret"):
        replace(tiny("sgld"), reproducible=False)


def test_seeded_runs_repeat_and_secret_ones_do_not(tmp_path):
    seeded, first = [], []
    for k in range(2):
        train(replace(secret(), reproducible=True), tmp_path / f"seeded-{k}", RUNTIME)
        train(secret(), tmp_path / f"secret-{k}", RUNTIME)
        seeded.append(left_behind(tmp_path / f"seeded-{k}"))
        first.append(left_behind(tmp_path / f"secret-{k}"))
    assert seeded[0] == seeded[1]
    assert {"noise_key", "ledger"}.isdisjoint(seeded[0]["header"])
    assert first[0]["tensors"] != first[1]["tensors"]
    assert len({one["header"]["noise_key"] for one in first}) == 2
    assert "PRIVATE" not in read(tmp_path / "seeded-0" / "result.json")
    assert "Private" in read(tmp_path / "secret-0" / "result.json")["private"]


def test_certificates_say_where_the_noise_came_from(tmp_path):
    for name, run in (("seeded", replace(secret(), reproducible=True)), ("secret", secret())):
        train(run, tmp_path / name, RUNTIME)
        made = load_trained(tmp_path / name).assess(settings=run.certify)
        said = {h.by for c in made.certificates for h in c.hypotheses if h.name == "noise secret or independent"}
        (one,) = said
        assert ("key of the operating system" in one, "seed" in one) == (
            (True, False) if name == "secret" else (False, True)
        )


# counted before it is drawn


def watched(ledger: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Note of every noise whether its step was counted when it was drawn."""
    draw = SecretKeys.noised

    def noised(self: SecretKeys, *arguments: Any, tick: int, **more: Any) -> Any:
        inner = SETTINGS[0].gradients_per_step if more["stream"] == 0 else 1
        step = tick // inner + 1
        counted = any(first <= step <= last for first, last in stretches(ledger))
        with out.open("a") as file:
            file.write(f"{int(counted)}\n")
        return draw(self, *arguments, tick=tick, **more)

    monkeypatch.setattr(SecretKeys, "noised", noised)


SETTINGS: list[Any] = []


@pytest.mark.parametrize("name", KINDS)
def test_noise_is_counted_before_it_is_drawn(name, tmp_path, monkeypatch):
    SETTINGS[:] = [KINDS[name].sampler]
    watched(tmp_path / "ledger", tmp_path / "drawn", monkeypatch)
    train(KINDS[name], tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")
    drawn = (tmp_path / "drawn").read_text().split()
    assert set(drawn) == {"1"}
    assert len(drawn) >= KINDS[name].steps(1437)


def test_a_reservation_after_drawing_would_be_seen(tmp_path, monkeypatch):
    SETTINGS[:] = [secret().sampler]
    reserve, owed = batch.Batch._reserve, []

    def late(self: batch.Batch, first: int, last: int) -> None:
        owed.append((first, last))
        for one in owed[:-1]:
            reserve(self, *one)
        del owed[:-1]

    monkeypatch.setattr(batch.Batch, "_reserve", late)
    watched(tmp_path / "ledger", tmp_path / "drawn", monkeypatch)
    train(secret(), tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")
    assert "0" in (tmp_path / "drawn").read_text().split()


# what is paid, and how often


def test_chains_pay_each_and_force_pays_anew_while_a_copy_is_the_same_release(tmp_path):
    ledger, runs = tmp_path / "ledger", [replace(secret(), chain=chain) for chain in range(3)]
    outs = [tmp_path / f"chain-{chain}" for chain in range(3)]
    assert all(isinstance(one, dict) for one in train_together(runs, outs, RUNTIME, ledger=ledger))
    block = [(1, 45), (46, 90)]
    assert sorted(stretches(ledger)) == sorted(3 * block)
    assert len({entry.stretch.run for entry in Ledger.load(ledger).entries}) == 3
    assert len({key_of(out) for out in outs}) == 3
    shutil.copytree(outs[0], tmp_path / "copy")
    keys = key_of(outs[0])
    train(runs[0], outs[0], RUNTIME, force=True, ledger=ledger)
    assert key_of(outs[0]) != keys
    assert len(stretches(ledger)) == 8
    (tmp_path / "copy" / "result.json").unlink()
    train(runs[0], tmp_path / "copy", RUNTIME, resume=True, ledger=ledger)  # nothing was left to draw
    assert len(stretches(ledger)) == 8
    noises = {entry.stretch.stream.seeded for entry in Ledger.load(ledger).entries}
    assert noises == {False}


def test_a_chain_alone_gives_the_numbers_that_its_key_gives_beside_others(tmp_path, monkeypatch):
    monkeypatch.setattr(cipher, "new_key", lambda: bytes(range(32)))
    runs = [replace(secret(), chain=chain) for chain in range(2)]
    train_together(runs, [tmp_path / "a", tmp_path / "b"], RUNTIME)
    train(runs[1], tmp_path / "c", RUNTIME)
    assert left_behind(tmp_path / "b") == left_behind(tmp_path / "c")
    assert left_behind(tmp_path / "a")["tensors"] != left_behind(tmp_path / "b")["tensors"]


def test_a_key_that_drew_for_other_settings_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cipher, "new_key", lambda: bytes(32))
    train(secret(), tmp_path / "a", RUNTIME, ledger=tmp_path / "ledger")
    with pytest.raises(SharedNoise, match="would draw the random numbers"):
        train(secret(tau=400.0), tmp_path / "b", RUNTIME, ledger=tmp_path / "ledger")
    seeded = replace(secret(), reproducible=True)
    train(seeded, tmp_path / "c", RUNTIME, ledger=tmp_path / "ledger")
    train(seeded, tmp_path / "d", RUNTIME, ledger=tmp_path / "ledger")  # the same release
    assert len(stretches(tmp_path / "ledger")) == 4
    with pytest.raises(SharedNoise):
        train(replace(seeded, sampler=replace(seeded.sampler, tau=400.0)), tmp_path / "e", RUNTIME,
              ledger=tmp_path / "ledger")  # fmt: skip


def test_a_chain_that_a_limit_refuses_leaves_and_the_others_go_on(tmp_path):
    train(secret(records=1), tmp_path / "one", RUNTIME, ledger=tmp_path / "first")
    about = {"delta": 1e-5, "adjacency": "add-remove"}
    cost = Ledger.load(tmp_path / "first").total(**about).epsilon
    book = Ledger.open(tmp_path / "ledger")
    book.set_limit(Limit(epsilon=1.2 * cost, **about))
    runs, outs = [replace(secret(records=1), chain=k) for k in range(2)], [tmp_path / "a", tmp_path / "b"]
    first, second = train_together(runs, outs, RUNTIME, ledger=tmp_path / "ledger")
    assert isinstance(first, dict)
    assert isinstance(second, Overdrawn)
    assert stretches(tmp_path / "ledger") == [(1, 90)]
    assert not Folder(outs[1]).finished


def test_a_chain_that_diverges_costs_the_others_nothing_more(tmp_path):
    runs, outs = [secret(), replace(secret(step_size=3e38), chain=1)], [tmp_path / "a", tmp_path / "b"]
    first, second = train_together(runs, outs, RUNTIME, ledger=tmp_path / "ledger")
    assert (type(first), type(second).__name__) == (dict, "Diverged")
    own = load_checkpoint(outs[0]).header["ledger"]["run"]
    paid = [one.stretch for one in Ledger.load(tmp_path / "ledger").entries if one.stretch.run == own]
    assert [(one.first, one.last) for one in paid] == [(1, 45), (46, 90)]


@pytest.mark.parametrize("name", KINDS)
def test_one_record_does_not_decide_whether_a_private_chain_ends(name, tmp_path, monkeypatch):
    def with_a_far_record(*given, **named):
        kept, test = load(*given, **named)
        inputs = kept.inputs.copy()
        inputs[700] = 3e38  # outputs overflow, so that its gradient counts as zero
        return replace(kept, inputs=inputs), test

    monkeypatch.setattr("pacdp.cli.run.load", with_a_far_record)
    assert train(KINDS[name], tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")["final"]["step"] > 0


def test_chains_without_a_clip_norm_enter_no_ledger_and_say_nothing(tmp_path, capsys):
    given = ("train", "sgld-digits2", *QUICK, "--out", tmp_path / "run")
    assert pacdp(*given) == 0
    said = capsys.readouterr()
    assert "ledger" not in said.err + said.out
    assert not (tmp_path / "ledger").exists()
    assert "ledger" not in load_checkpoint(tmp_path / "run").header
    assert pacdp(*given, "--force", "--no-ledger") == 1
    assert "has no clip norm" in one_sentence(capsys.readouterr().err)


def test_the_command_counts_beside_the_run_unless_it_is_told_otherwise(tmp_path, capsys):
    given = ("train", "entropy-sgld-clipped-digits2", *QUICK)
    assert pacdp(*given, "--out", tmp_path / "a") == 0
    assert f"counted in {tmp_path / 'ledger'}" in capsys.readouterr().err
    before = stretches(tmp_path / "ledger")
    assert before
    assert pacdp(*given, "--out", tmp_path / "b", "--no-ledger") == 0
    assert "counted in no ledger" in capsys.readouterr().err
    assert stretches(tmp_path / "ledger") == before
    assert pacdp(*given, "--out", tmp_path / "c", "--ledger", tmp_path / "a", "--no-ledger") == 1
    assert "contradict" in one_sentence(capsys.readouterr().err)
    (tmp_path / "a" / "result.json").unlink()
    assert pacdp("train", "--resume", "--out", tmp_path / "a", "--no-ledger") == 1
    assert "name that ledger" in one_sentence(capsys.readouterr().err)
    (tmp_path / "b" / "result.json").unlink()
    assert pacdp("train", "--resume", "--out", tmp_path / "b") == 1
    assert "go on with --no-ledger" in one_sentence(capsys.readouterr().err)
    assert pacdp("train", "--resume", "--out", tmp_path / "b", "--no-ledger") == 0


def test_chains_in_other_processes_pay_too(tmp_path):
    given = ("train", "entropy-sgld-clipped-digits2", *QUICK, "--out", tmp_path / "run", "--chains", 2, "--workers", 2)
    assert pacdp(*given) == 0
    entries = Ledger.load(tmp_path / "ledger").entries
    runs = {load_checkpoint(one).header["ledger"]["run"] for one in chain_folders(tmp_path / "run")}
    assert {entry.stretch.run for entry in entries} == runs
    assert len(runs) == 2


# what may leave


def test_one_of_several_chains_finds_the_ledger_that_counted_them(tmp_path, capsys, monkeypatch):
    run, noise = tmp_path / "runs" / "a", ("--std-errors", 20, "--std-n", 20)
    given = ("train", "entropy-sgld-clipped-digits2", *QUICK, "--out", run, "--chains", 2)
    assert pacdp(*given) == 0
    before = stretches(tmp_path / "runs" / "ledger")
    assert pacdp("export", run / "chain-00", tmp_path / "out", *noise) == 0
    assert verdicts(tmp_path / "out") == {"follows"}
    assert stretches(tmp_path / "runs" / "ledger") == before
    assert stretches(tmp_path / "runs" / "ledger", "release")
    monkeypatch.chdir(run / "chain-01")
    assert pacdp("export", ".", tmp_path / "too", *noise) == 0
    Ledger.open(run / "ledger")  # another one, which counts nothing of theirs
    assert pacdp("export", run / "chain-01", tmp_path / "three", *noise) == 0
    (run / "chain-01" / "result.json").unlink()
    (run / "ledger" / "ledger.jsonl").unlink()
    assert pacdp("train", "--resume", "--out", run / "chain-01") == 0
    assert stretches(tmp_path / "runs" / "ledger") == before
    (tmp_path / "runs" / "ledger").rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert pacdp("export", run / "chain-00", tmp_path / "four", *noise) == 1
    assert "--ledger" in one_sentence(capsys.readouterr().err)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("chains")
    for name, run in KINDS.items():
        train(run, root / name, RUNTIME, ledger=root / "ledger")
    return root


@pytest.mark.parametrize("name", KINDS)
def test_a_secret_chain_leaves_without_its_key_and_follows(name, trained, tmp_path):
    said: list[str] = []
    report = export_run(trained / name, tmp_path / "out", RUNTIME, ledger=trained / "ledger", tell=said.append,
                        std_errors=20.0, std_n=20.0)  # fmt: skip
    assert verdicts(tmp_path / "out") == {"follows"}
    assert {one.name for one in (tmp_path / "out").iterdir()} == {
        "certificates.json",
        "settings.json",
        "weights.safetensors",
    }
    one, (made,) = leaving(trained / name, RUNTIME), report["certificates"]
    assert made["of"] == "weights"
    assert report["n"] != one.bound.n
    assert abs(report["details"]["counts"]["n"] - one.bound.n) < 200
    header, content = one.checkpoint.header, b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert load_checkpoint(tmp_path / "out" / "weights.safetensors").state == {}
    for private in (header["noise_key"], header["ledger"]["run"], header["ledger"]["receipt"]["hash"],
                    header["data"]["train"], header["content_hash"], Ledger.load(trained / "ledger").id):  # fmt: skip
        assert private.encode() not in content
    assert bytes.fromhex(header["noise_key"]) not in content
    again = export_run(
        trained / name, tmp_path / "again", RUNTIME, ledger=trained / "ledger", std_errors=20.0, std_n=20.0
    )
    assert again["details"]["counts"] == report["details"]["counts"]
    assert "counted in" in said[0]


def test_the_checker_refuses_an_event_that_is_not_the_settings_own(trained, tmp_path):
    export_run(trained / "SGLD", tmp_path / "out", RUNTIME, ledger=trained / "ledger", std_errors=20.0, std_n=20.0)
    settings = read(tmp_path / "out" / "settings.json")
    settings["run"]["sampler"]["tau"] *= 4.0  # half the noise
    settings["config_hash"] = digest(settings["run"])
    (tmp_path / "out" / "settings.json").write_text(json.dumps(settings))
    assert [one.claim for one in check_path(tmp_path / "out") if one.verdict != "follows"] == ["settings"]


def test_what_may_not_leave_is_refused_in_a_sentence(tmp_path, capsys):
    train(replace(secret(), reproducible=True), tmp_path / "seeded", RUNTIME, ledger=tmp_path / "ledger")
    train(tiny("sgld"), tmp_path / "unclipped", RUNTIME)
    train(secret(), tmp_path / "uncounted", RUNTIME)

    def refused(name: str) -> str:
        assert pacdp("export", tmp_path / name, tmp_path / "out", "--std-n", "20") == 1
        return one_sentence(capsys.readouterr().err)

    assert "can subtract it" in refused("seeded")
    assert "holds no private run" in refused("unclipped")
    assert "--correct" in refused("uncounted")
    given = ("--std-n", "20", "--threads", "1")
    assert pacdp("export", tmp_path / "uncounted", tmp_path / "out", "--correct", *given) == 0
    assert [one.stretch.kind for one in Ledger.load(tmp_path / "ledger").entries][-2:] == ["correction", "release"]
    assert pacdp("export", tmp_path / "seeded", tmp_path / "tests", "--seeded-for-tests", *given) == 0
    assert SEEDED in read(tmp_path / "tests" / "settings.json")["remarks"]
    assert verdicts(tmp_path / "tests") == {"follows"}


def test_a_listed_run_leaves_at_what_is_left_of_its_failure_probability(tmp_path):
    train(replace(secret(), stopping="listed"), tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")
    report = export_run(tmp_path / "run", tmp_path / "out", RUNTIME, std_errors=20.0, std_n=20.0)
    assert report["certificates"][0]["budget"]["other stopping times"] == pytest.approx(0.025)
    assert verdicts(tmp_path / "out") == {"follows"}
