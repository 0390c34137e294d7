"""Weights that pacdp did not train: certified by the command line, refused in a sentence, never run as code."""

import json
import pickle
from pathlib import Path

import foreign_net
import numpy as np
import pytest
import torch
from cli_tools import one_sentence, pacdp
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

import bounds
from pacdp import CheckpointError
from pacdp.choices import Choices
from pacdp.data import Rows
from pacdp.foreign import load_into, read_weights
from tests.schema import validate

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def module():
    return foreign_net.trained()


@pytest.fixture
def files(module, tmp_path, monkeypatch):
    """weights.safetensors, nearby, prior.safetensors, and the indices that the prior saw; in the user's folder."""
    monkeypatch.chdir(HERE)
    save_file(module.state_dict(), tmp_path / "prior.safetensors")
    moved = {k: v + 1e-4 if k == "1.weight" else v for k, v in module.state_dict().items()}
    save_file(moved, tmp_path / "weights.safetensors")
    np.save(tmp_path / "seen.npy", foreign_net.PRIOR)
    return tmp_path


def asked(files, *more, data="bound_set", weights="weights.safetensors"):
    return ("certify", files / weights, "--model", "foreign_net:factory", "--data", f"foreign_net:{data}",
            "--prior", files / "prior.safetensors", *more)  # fmt: skip


def certified(files, capsys, *more, data="bound_set"):
    """The report that the command prints."""
    assert pacdp(*asked(files, *more, data=data), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    validate(report)
    return report


def standing(report, name):
    """How this hypothesis stands on the certificates that need it."""
    return {h["standing"] for c in report["certificates"] for h in c["hypotheses"] if h["name"] == name}


def seen(files):
    return ("--prior-indices", files / "seen.npy")


def test_a_stranger_s_weights_get_rigorous_certificates(files, capsys):
    assert pacdp(*asked(files, *seen(files), "--test", "foreign_net:test_set", "--std", "0.005", "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((files / "certificates.json").read_text())
    validate(report)
    found = {c["name"]: c for c in report["certificates"]}
    assert {c["status"] for c in found.values()} == {"rigorous"}
    assert report["n"] == 600
    assert report["prior"]["source"] == "HeldOut"
    assert 0.0 < report["details"]["kl_nats"] < 2.0
    best = found["randomised_maurer"]
    (tested,) = [m for m in report["measured"] if (m["of"], m["on"]) == ("randomised", "test")]
    assert tested["mean"] < best["value"] < 0.2
    assert sum(best["budget"].values()) == pytest.approx(0.05)
    assert best["inputs"]["monte_carlo_draws"] == 5 * 600
    assert {"half_brier_maurer", "one_draw_disintegrated", "one_draw_ece", "test_set_ece"} <= set(found)
    assert standing(report, "prior saw none of these rows") == {"declared"}, "indices are the user's word"
    assert standing(report, "settings fixed beforehand") == {"declared"}


def test_the_table_names_predictor_and_risk(files, capsys):
    assert pacdp(*asked(files, "--prior-is-data-free", "--passes", "1")) == 0
    shown = capsys.readouterr().out
    assert "randomised" in shown
    assert "ECE, one draw" in shown
    assert "test-set bounds" in shown  # refused, with the reason


PRIOR_SAW = "prior saw none of these rows"


@pytest.mark.parametrize("form", ["data", "rows.npz", "rows.safetensors"])
def test_rows_that_the_prior_saw_prove_that_the_bound_s_are_others(files, capsys, form):
    inputs, labels = foreign_net.examples(foreign_net.PRIOR)
    arrays = Rows.of(inputs, labels).to_arrays()
    np.savez(files / "rows.npz", **arrays)
    save_arrays(arrays, files / "rows.safetensors")
    given = ("--prior-data", "foreign_net:prior_set") if form == "data" else ("--prior-rows", files / form)
    report = certified(files, capsys, *given, "--passes", 1)
    assert standing(report, PRIOR_SAW) == {"proved"}
    assert pacdp(*asked(files, *given, data="overlapping")) == 1
    assert "share 100 examples" in one_sentence(capsys.readouterr().err)
    assert pacdp(*asked(files, *given, "--test", "foreign_net:prior_set")) == 1
    assert "test set" in one_sentence(capsys.readouterr().err)


def test_without_a_prior_the_network_is_counted_as_it_is(files, capsys):
    asking = ("certify", files / "weights.safetensors", "--model", "foreign_net:factory", "--data")
    assert pacdp(*asking, "foreign_net:test_set", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    validate(report)
    first = report["certificates"][0]
    assert (first["of"], first["name"], report["n"]) == ("your network", "new_examples_clopper_pearson", 297)
    module = load_into(foreign_net.factory(), read_weights(files / "weights.safetensors"), source="here")
    inputs, labels = foreign_net.test_set()
    errors = int((module(inputs).argmax(1) != labels).sum())
    assert report["measured"][0]["errors"] == errors
    assert first["value"] == bounds.clopper_pearson_upper(errors, 297, 0.05)
    assert standing(report, "predictor saw none of these rows") == {"declared"}
    assert pacdp(*asking, "foreign_net:test_set", "--prior-data", "foreign_net:prior_set", "--json") == 0
    assert standing(json.loads(capsys.readouterr().out), "predictor saw none of these rows") == {"proved"}
    assert pacdp(*asking, "foreign_net:overlapping", "--prior-data", "foreign_net:prior_set") == 1
    assert "share 100 examples" in one_sentence(capsys.readouterr().err)
    assert pacdp(*asking, "foreign_net:test_set") == 0
    assert capsys.readouterr().out.startswith("The error of your network on new data is at most")


@pytest.mark.parametrize("given", ["persons", "persons_as_bound_set"])
def test_people_are_counted_where_the_data_name_them(files, capsys, given):
    asking = ("certify", files / "weights.safetensors", "--model", "foreign_net:factory")
    assert pacdp(*asking, "--data", f"foreign_net:{given}", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    validate(report)
    assert (report["n"], report["unit"], report["examples"]) == (60, "person", 600)
    assert {c["measures"] for c in report["certificates"]} == {"0-1 risk of a new person"}


def test_people_who_are_in_the_prior_s_rows_too_are_refused(files, capsys):
    options = ("--prior-data", "foreign_net:persons_before")
    assert pacdp(*asked(files, *options, data="persons")) == 1
    assert "share 1 person" in one_sentence(capsys.readouterr().err)


def test_people_are_counted_under_a_prior(files, capsys):
    report = certified(files, capsys, "--prior-data", "foreign_net:prior_set", "--passes", 1, data="persons")
    assert (report["n"], report["unit"], report["examples"]) == (60, "person", 600)
    assert "0-1 risk of a new person" in {c["measures"] for c in report["certificates"]}


@pytest.mark.parametrize("probability", ["0", "1", "-0.1", "nan", "inf"])
def test_a_failure_probability_is_none_of_these(files, trained, capsys, probability):
    for asking in (asked(files, *seen(files)), ("certify", trained["sgd"])):
        assert pacdp(*asking, f"--failure-prob={probability}") == 1
        assert "--failure-prob must lie strictly between 0 and 1" in one_sentence(capsys.readouterr().err)
    assert not (files / "certificates.json").exists()


def test_a_failure_probability_is_heeded(files, capsys):
    report = certified(files, capsys, *seen(files), "--passes", 1, "--failure-prob", "1e-9")
    assert [c["failure_prob"] for c in report["certificates"]] == pytest.approx([1e-9] * len(report["certificates"]))


def test_a_list_of_settings_is_paid_for_and_proves_nothing_of_foreign_weights(files, capsys):
    choices = Choices.create(files / "list.jsonl")
    for rate in (0.1, 0.2, 0.3, 0.4):
        choices.add({"rate": rate})
    options = (*seen(files), "--passes", 1, "--choices", files / "list.jsonl")
    assert pacdp(*asked(files, *options)) == 1
    assert "is not closed" in one_sentence(capsys.readouterr().err)
    choices.close()
    report = certified(files, capsys, *options)
    paid = [c["failure_prob"] for c in report["certificates"]]
    assert paid == pytest.approx([0.05 / 4] * len(paid))
    assert report["choices"]["J"] == report["choices"]["count"] == 4
    assert standing(report, "settings fixed beforehand") == {"declared"}


def test_reports_are_not_lost_and_other_files_not_overwritten(files, capsys):
    options = (*seen(files), "--passes", 1)
    first = certified(files, capsys, *options)
    certified(files, capsys, *options)
    assert not (files / "certificates.json.1").exists(), "the same report again"
    second = certified(files, capsys, *options, "--seed", 1)
    assert json.loads((files / "certificates.json.1").read_text()) | {"provenance": None} == first | {
        "provenance": None
    }
    certified(files, capsys, *options, "--seed", 2)
    assert json.loads((files / "certificates.json.1").read_text()) == second
    for name, text in (("notes.txt", "mine"), ("other.json", '{"format": "mine"}'), ("list.json", "[1]")):
        (files / name).write_text(text)
        assert pacdp(*asked(files, *options, "--out", files / name)) == 1
        assert "is no report of certificates" in one_sentence(capsys.readouterr().err)
        assert (files / name).read_text() == text
    assert pacdp(*asked(files, *options, "--out", files)) == 1
    assert "is no report of certificates" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("data", "more", "said"),
    [
        ("overlapping", "seen", "make them disjoint"),
        ("test_set", "seen", "data.indices"),
        ("bound_set", "none", "--prior-is-data-free"),
        ("bound_set", "both", "--prior-indices"),
        ("float_labels", "free", "return whole numbers"),
        ("float_people", "free", "people of type torch.float32"),
        ("labels_beyond_the_classes", "free", "expected labels from 0 to 9"),
        ("failing", "free", "failed with KeyError: 'pixels'"),
        ("not_a_function", "free", "name a function without arguments"),
        ("without_labels", "free", "expected data as (inputs, labels)"),
        ("wrong_shape", "free", "does not accept inputs"),
        ("nothing_there", "free", "cannot be imported"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(files, capsys, data, more, said):
    options = {"seen": seen(files), "none": (), "free": ("--prior-is-data-free",),
               "both": (*seen(files), "--prior-is-data-free")}[more]  # fmt: skip
    assert pacdp(*asked(files, *options, data=data)) != 0
    assert said in one_sentence(capsys.readouterr().err)


def test_other_statistics_of_batchnorm_are_weights_that_nothing_pays_for(files, module, capsys):
    state = {k: v + 0.1 if k.endswith("running_mean") else v for k, v in module.state_dict().items()}
    save_file(state, files / "other.safetensors")
    assert pacdp(*asked(files, "--prior-is-data-free", weights="other.safetensors")) != 0
    assert "buffers" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("not_a_module", "return a torch.nn.Module"),
        ("of_pictures", "expected one row of logits"),
        ("raising", "64): KeyError"),
    ],
)
@pytest.mark.parametrize("prior", [True, False])
def test_networks_that_give_no_logits_are_refused_in_a_sentence(tmp_path, monkeypatch, capsys, model, said, prior):
    monkeypatch.chdir(HERE)
    made = getattr(foreign_net, model)()
    state = made.state_dict() if isinstance(made, torch.nn.Module) else {"weight": torch.zeros(1)}
    save_file(state, tmp_path / "weights.safetensors")
    path = tmp_path / "weights.safetensors"
    more = ("--prior", path, "--prior-is-data-free") if prior else ()
    asking = ("certify", path, "--model", f"foreign_net:{model}", "--data", "foreign_net:test_set", *more)
    assert pacdp(*asking) == 1
    assert said in one_sentence(capsys.readouterr().err)


def test_logits_in_a_dictionary_are_found_where_the_network_is_counted_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(HERE)
    path = tmp_path / "weights.safetensors"
    save_file(foreign_net.of_dicts().state_dict(), path)
    asking = ("certify", path, "--model", "foreign_net:of_dicts", "--data", "foreign_net:test_set")
    assert pacdp(*asking) == 0
    assert "Clopper-Pearson" in capsys.readouterr().out
    assert pacdp(*asking, "--prior", path, "--prior-is-data-free") == 1
    assert "the network returned dict" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.npz", None, "holds no rows"),
        ("text.npz", b"hello", "holds no rows"),
        ("text.safetensors", b"hello", "holds no rows"),
        ("other.npz", {"a": np.zeros(3)}, "lack the array examples"),
        ("floats.npz", {name: np.zeros(1) for name in ("examples", "inputs", "key_mark")}, "must be int64"),
    ],
)
def test_files_that_hold_no_rows_are_refused_in_a_sentence(files, capsys, name, content, said):
    if isinstance(content, dict):
        np.savez(files / name, **content)
    elif content is not None:
        (files / name).write_bytes(content)
    assert pacdp(*asked(files, "--prior-rows", files / name)) == 1
    assert said in one_sentence(capsys.readouterr().err)


def test_a_device_that_is_not_there_is_a_sentence(files, capsys):
    for device in ("nonsense", "cuda:99"):
        assert pacdp(*asked(files, *seen(files), "--device", device)) == 1
        assert f"--device {device} is not to be had here" in one_sentence(capsys.readouterr().err)


def test_sound_weights_of_another_program_are_not_called_damaged(tmp_path, module, capsys):
    torch.save(module.state_dict(), tmp_path / "mlp.pt")
    save_file(module.state_dict(), tmp_path / "mlp.safetensors")
    for name in ("mlp.pt", "mlp.safetensors"):
        assert pacdp("certify", tmp_path / name) == 1
        said = one_sentence(capsys.readouterr().err)
        assert "--model and --data" in said
        assert "truncated" not in said


@pytest.mark.filterwarnings("ignore")
def test_damaged_weights_are_refused_in_a_sentence(tmp_path, module):
    torch.save(module.state_dict(), tmp_path / "sound.pt")
    sound, rng = (tmp_path / "sound.pt").read_bytes(), np.random.default_rng(0)
    path = tmp_path / "damaged.pt"
    path.write_text("epoch,loss\n1,0.5\n")
    with pytest.raises(CheckpointError, match="would run code"):
        read_weights(path)
    refused = 0
    for _ in range(300):
        whole = bytearray(sound)
        for place in rng.integers(len(whole), size=int(rng.integers(1, 20))):
            whole[place] = int(rng.integers(256))
        path.write_bytes(bytes(whole[: int(rng.integers(1, len(whole) + 1))] if rng.random() < 0.5 else whole))
        try:
            load_into(foreign_net.factory(), read_weights(path), source="here")
        except CheckpointError:
            refused += 1
    assert refused > 150


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("/tmp/pacdp-evil"),))


def test_pickled_code_is_not_run(tmp_path, module):
    bad = tmp_path / "bad.pt"
    torch.save({"1.weight": Evil()}, bad)
    with pytest.raises(CheckpointError, match="would run code"):
        read_weights(bad)
    plain = tmp_path / "plain.pt"
    plain.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError):
        read_weights(plain)
    assert not Path("/tmp/pacdp-evil").exists()


def test_state_dicts_by_any_name_are_found(tmp_path, module):
    state = module.state_dict()
    forms = {
        "plain.pt": state, "nested.pt": {"epoch": 3, "state_dict": state},
        "parallel.pt": {f"module.{k}": v for k, v in state.items()},
        "compiled.pt": {"model": {f"_orig_mod.{k}": v for k, v in state.items()}},
    }  # fmt: skip
    for name, form in forms.items():
        torch.save(form, tmp_path / name)
        twin = load_into(foreign_net.factory(), read_weights(tmp_path / name), source=name)
        assert not twin.training
        for key, value in twin.state_dict().items():
            assert torch.equal(value, state[key])


def test_wrong_names_shapes_and_values_are_refused(tmp_path, module):
    state = module.state_dict()
    cases = {
        "different weights": {k: v for k, v in state.items() if k != "1.bias"},
        "of shape": {**state, "1.bias": torch.zeros(3)},
        "not finite": {**state, "1.bias": torch.full((32,), torch.nan)},
    }
    for said, given in cases.items():
        with pytest.raises(CheckpointError, match=said):
            load_into(foreign_net.factory(), given, source="here")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match="no state dict"):
        read_weights(tmp_path / "list.pt")
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\x00")
    with pytest.raises(CheckpointError, match="truncated"):
        read_weights(tmp_path / "cut.safetensors")
    with pytest.raises(CheckpointError, match="no weights at"):
        read_weights(tmp_path / "none.pt")
