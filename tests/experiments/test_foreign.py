"""Weights that pacdp did not train: certified by the command line, refused in a sentence, never run as code."""

import pickle
from pathlib import Path

import foreign_net
import numpy as np
import pytest
import torch
from cli_tools import pacdp, read, standings
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

import bounds
from pacdp import CheckpointError
from pacdp.choices import Choices
from pacdp.data import Rows
from pacdp.foreign import load_into, read_weights

PRIOR_SAW = "prior saw none of these rows"
FREE = ("--prior-is-data-free",)


@pytest.fixture(scope="module")
def module():
    return foreign_net.trained()


@pytest.fixture
def files(module, tmp_path, monkeypatch):
    """weights.safetensors, nearby, prior.safetensors, and the indices that the prior saw; in the user's folder."""
    monkeypatch.chdir(Path(__file__).parent)
    save_file(module.state_dict(), tmp_path / "prior.safetensors")
    moved = {k: v + 1e-4 if k == "1.weight" else v for k, v in module.state_dict().items()}
    save_file(moved, tmp_path / "weights.safetensors")
    np.save(tmp_path / "seen.npy", foreign_net.PRIOR)
    return tmp_path


def given(files, data, *more, weights="weights.safetensors"):
    """What is certified, as it is."""
    return (files / weights, "--model", "foreign_net:factory", "--data", f"foreign_net:{data}", *more)


def asked(files, *more, data="bound_set", weights="weights.safetensors"):
    """What is certified, under a prior."""
    return given(files, data, "--prior", files / "prior.safetensors", *more, weights=weights)


def seen(files):
    return ("--prior-indices", files / "seen.npy")


def test_a_stranger_s_weights_get_rigorous_certificates(files, certify):
    report = certify(*asked(files, *seen(files), "--test", "foreign_net:test_set", "--std", "0.005"))
    assert report == read(files / "certificates.json")
    found = {c["name"]: c for c in report["certificates"]}
    assert {c["status"] for c in found.values()} == {"rigorous"}
    assert (report["n"], report["prior"]["source"]) == (600, "HeldOut")
    assert 0.0 < report["details"]["kl_nats"] < 2.0
    best = found["randomised_maurer"]
    (tested,) = [m for m in report["measured"] if (m["of"], m["on"]) == ("randomised", "test")]
    assert tested["mean"] < best["value"] < 0.2
    assert sum(best["budget"].values()) == pytest.approx(0.05)
    assert best["inputs"]["monte_carlo_draws"] == 5 * 600
    assert {"half_brier_maurer", "one_draw_disintegrated", "one_draw_ece", "test_set_ece"} <= set(found)
    assert standings(report, PRIOR_SAW) == {"declared"}, "indices are the user's word"
    assert standings(report, "settings fixed beforehand") == {"declared"}


def test_the_table_names_predictor_and_risk(files, capsys):
    assert pacdp("certify", *asked(files, *FREE, "--passes", "1")) == 0
    shown = capsys.readouterr().out
    for words in ("randomised", "ECE, one draw", "test-set bounds"):  # the last is refused, with the reason
        assert words in shown


@pytest.mark.parametrize("form", ["data", "rows.npz", "rows.safetensors"])
def test_rows_that_the_prior_saw_prove_that_the_bound_s_are_others(files, certify, refused, form):
    arrays = Rows.of(*foreign_net.prior_set()).to_arrays()
    np.savez(files / "rows.npz", **arrays)
    save_arrays(arrays, files / "rows.safetensors")
    rows = ("--prior-data", "foreign_net:prior_set") if form == "data" else ("--prior-rows", files / form)
    assert standings(certify(*asked(files, *rows, "--passes", 1)), PRIOR_SAW) == {"proved"}
    assert "share 100 examples" in refused("certify", *asked(files, *rows, data="overlapping"))
    assert "test set" in refused("certify", *asked(files, *rows, "--test", "foreign_net:prior_set"))


def test_without_a_prior_the_network_is_counted_as_it_is(files, certify, refused, capsys):
    prior, saw = ("--prior-data", "foreign_net:prior_set"), "predictor saw none of these rows"
    report = certify(*given(files, "test_set"))
    first = report["certificates"][0]
    assert (first["of"], first["name"], report["n"]) == ("your network", "new_examples_clopper_pearson", 297)
    module = load_into(foreign_net.factory(), read_weights(files / "weights.safetensors"), source="here")
    inputs, labels = foreign_net.test_set()
    errors = int((module(inputs).argmax(1) != labels).sum())
    assert report["measured"][0]["errors"] == errors
    assert first["value"] == bounds.clopper_pearson_upper(errors, 297, 0.05)
    assert standings(report, saw) == {"declared"}
    assert standings(certify(*given(files, "test_set", *prior)), saw) == {"proved"}
    assert "share 100 examples" in refused("certify", *given(files, "overlapping", *prior))
    assert pacdp("certify", *given(files, "test_set")) == 0
    assert capsys.readouterr().out.startswith("The error of your network on new data is at most")


def test_people_are_counted_where_the_data_name_them(files, certify, refused):
    prior = ("--prior-data", "foreign_net:prior_set", "--passes", 1)
    found = [certify(*given(files, data)) for data in ("persons", "persons_as_bound_set")]
    for report in (*found, certify(*asked(files, *prior, data="persons"))):
        assert (report["n"], report["unit"], report["examples"]) == (60, "person", 600)
        assert "0-1 risk of a new person" in {c["measures"] for c in report["certificates"]}
    too = ("--prior-data", "foreign_net:persons_before")
    assert "share 1 person" in refused("certify", *asked(files, *too, data="persons"))


def test_a_failure_probability_is_none_of_these(files, trained, refused):
    for probability in ("0", "1", "nan"):
        for asking in (asked(files, *seen(files)), (trained["sgd"],)):
            said = refused("certify", *asking, f"--failure-prob={probability}")
            assert "--failure-prob must lie strictly between 0 and 1" in said
    assert not (files / "certificates.json").exists()


def test_a_failure_probability_and_a_list_of_settings_are_paid_for(files, certify, refused):
    choices = Choices.create(files / "list.jsonl")
    for rate in (0.1, 0.2, 0.3, 0.4):
        choices.add({"rate": rate})
    options = (*seen(files), "--passes", 1, "--choices", files / "list.jsonl", "--failure-prob", "1e-9")
    assert "is not closed" in refused("certify", *asked(files, *options))
    choices.close()
    report = certify(*asked(files, *options))
    assert all(c["failure_prob"] == pytest.approx(1e-9 / 4) for c in report["certificates"])
    assert report["choices"]["J"] == report["choices"]["count"] == 4
    assert standings(report, "settings fixed beforehand") == {"declared"}, "which proves nothing of foreign weights"


def test_reports_are_not_lost_and_other_files_not_overwritten(files, certify, refused):
    options, old = asked(files, *seen(files), "--passes", 1), files / "certificates.json.1"
    first = certify(*options)
    certify(*options)
    assert not old.exists(), "the same report again"
    second = certify(*options, "--seed", 1)
    assert read(old) | {"provenance": None} == first | {"provenance": None}
    certify(*options, "--seed", 2)
    assert read(old) == second
    (files / "folder").mkdir()
    for name, text in (("notes.txt", "mine"), ("other.json", '{"format": "mine"}'), ("list.json", "[1]")):
        (files / name).write_text(text)
        assert "is no report of certificates" in refused("certify", *options, "--out", files / name)
        assert (files / name).read_text() == text
    assert "is no report of certificates" in refused("certify", *options, "--out", files / "folder")


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("data", "more", "said"),
    [
        ("overlapping", ("seen",), "make them disjoint"),
        ("test_set", ("seen",), "data.indices"),
        ("bound_set", (), "--prior-is-data-free"),
        ("bound_set", ("seen", *FREE), "--prior-indices"),
        ("bound_set", ("seen", "--device", "nonsense"), "--device nonsense is not to be had here"),
        ("bound_set", ("seen", "--device", "cuda:99"), "--device cuda:99 is not to be had here"),
        ("float_labels", FREE, "return whole numbers"),
        ("float_people", FREE, "people of type torch.float32"),
        ("labels_beyond_the_classes", FREE, "expected labels from 0 to 9"),
        ("failing", FREE, "failed with KeyError: 'pixels'"),
        ("not_a_function", FREE, "name a function without arguments"),
        ("without_labels", FREE, "expected data as (inputs, labels)"),
        ("wrong_shape", FREE, "does not accept inputs"),
        ("nothing_there", FREE, "cannot be imported"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(files, refused, data, more, said):
    options = (*seen(files), *more[1:]) if more[:1] == ("seen",) else more
    assert said in refused("certify", *asked(files, *options, data=data))


def test_other_statistics_of_batchnorm_are_weights_that_nothing_pays_for(files, module, refused):
    state = {k: v + 0.1 if k.endswith("running_mean") else v for k, v in module.state_dict().items()}
    save_file(state, files / "other.safetensors")
    assert "buffers" in refused("certify", *asked(files, *FREE, weights="other.safetensors"))


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("not_a_module", "return a torch.nn.Module"),
        ("of_pictures", "expected one row of logits"),
        ("raising", "64): KeyError"),
        ("of_dicts", "the network returned dict"),
    ],
)
def test_networks_that_give_no_logits_are_refused_in_a_sentence(files, refused, model, said):
    """A network that is counted as it is may give its logits in a dictionary."""
    path = files / "weights.safetensors"
    save_file({"weight": torch.zeros(1)}, path)
    asking = ("certify", path, "--model", f"foreign_net:{model}", "--data", "foreign_net:test_set")
    if model == "of_dicts":
        assert pacdp(*asking) == 0
    else:
        assert said in refused(*asking)
    assert said in refused(*asking, "--prior", path, *FREE)


@pytest.mark.every_case
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
def test_files_that_hold_no_rows_are_refused_in_a_sentence(files, refused, name, content, said):
    if isinstance(content, dict):
        np.savez(files / name, **content)
    elif content is not None:
        (files / name).write_bytes(content)
    assert said in refused("certify", *asked(files, "--prior-rows", files / name))


@pytest.mark.parametrize("name", ["mlp.pt", "mlp.safetensors"])
def test_sound_weights_of_another_program_are_not_called_damaged(tmp_path, module, refused, name):
    (torch.save if name.endswith("pt") else save_file)(module.state_dict(), tmp_path / name)
    said = refused("certify", tmp_path / name)
    assert "--model and --data" in said
    assert "truncated" not in said


@pytest.mark.filterwarnings("ignore")
def test_damaged_weights_are_refused_in_a_sentence(tmp_path, module):
    torch.save(module.state_dict(), tmp_path / "sound.pt")
    sound, rng, refused = (tmp_path / "sound.pt").read_bytes(), np.random.default_rng(0), 0
    path = tmp_path / "damaged.pt"
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


@pytest.mark.parametrize("write", [torch.save, lambda made, path: path.write_bytes(pickle.dumps(made))])
def test_pickled_code_is_not_run(tmp_path, write):
    write({"1.weight": Evil()}, tmp_path / "bad.pt")
    with pytest.raises(CheckpointError, match="would run code"):
        read_weights(tmp_path / "bad.pt")
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
    for said, wrong in {
        "different weights": {k: v for k, v in state.items() if k != "1.bias"},
        "of shape": {**state, "1.bias": torch.zeros(3)},
        "not finite": {**state, "1.bias": torch.full((32,), torch.nan)},
    }.items():
        with pytest.raises(CheckpointError, match=said):
            load_into(foreign_net.factory(), wrong, source="here")
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "table.pt").write_text("epoch,loss\n1,0.5\n")
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\x00")
    for name, said in {
        "list.pt": "no state dict", "table.pt": "would run code", "cut.safetensors": "truncated",
        "none.pt": "no weights at",
    }.items():  # fmt: skip
        with pytest.raises(CheckpointError, match=said):
            read_weights(tmp_path / name)
