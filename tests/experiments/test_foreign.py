"""Weights that pacdp did not train: certified by the command line, refused in a sentence, never run as code."""

import json
import pickle
from pathlib import Path

import foreign_net
import numpy as np
import pytest
import torch
from cli_tools import one_sentence, pacdp
from safetensors.torch import save_file

from pacdp import CheckpointError
from pacdp.foreign import load_into, read_weights

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


def seen(files):
    return ("--prior-indices", files / "seen.npy")


def test_a_stranger_s_weights_get_rigorous_certificates(files, capsys):
    assert pacdp(*asked(files, *seen(files), "--test", "foreign_net:test_set", "--std", "0.005", "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((files / "certificates.json").read_text())
    found = {c["name"]: c for c in report["certificates"]}
    assert {c["status"] for c in found.values()} == {"rigorous"}
    assert report["n"] == 600
    assert report["prior"]["source"] == "HeldOut"
    assert 0.0 < report["kl_nats"] < 2.0
    best = found["randomised_maurer"]
    assert report["test_risk"] < best["value"] < 0.2
    assert sum(best["budget"].values()) == pytest.approx(0.05)
    assert best["inputs"]["monte_carlo_draws"] == 5 * 600
    assert {"half_brier_maurer", "one_draw_disintegrated", "one_draw_ece", "test_set_ece"} <= set(found)


def test_the_table_names_predictor_and_risk(files, capsys):
    assert pacdp(*asked(files, "--prior-is-data-free", "--passes", "1")) == 0
    shown = capsys.readouterr().out
    assert "randomised" in shown
    assert "one draw, ECE" in shown
    assert "test-set bounds" in shown  # refused, with the reason


@pytest.mark.parametrize(
    ("data", "more", "said"),
    [
        ("overlapping", "seen", "make them disjoint"),
        ("test_set", "seen", "data.indices"),
        ("bound_set", "none", "--prior-is-data-free"),
        ("bound_set", "both", "--prior-indices"),
        ("without_labels", "free", "must return (inputs, labels)"),
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
