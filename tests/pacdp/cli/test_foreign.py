"""Weights that pacdp did not train: certified by the command line, refused in a sentence, never run as code."""

import sys
from pathlib import Path

import foreign_net
import numpy as np
import pytest
import torch
from cli_tools import standings
from safetensors.torch import save_file
from torch import nn

import bounds
from pacdp.certify.foreign import load_into, read_weights
from pacdp.cli import foreign
from pacdp.data import Rows
from pacdp.errors import CheckpointError
from tests.marks import made_once, near, parametrize, refusal

PRIOR_SAW = "prior saw none of these rows"


@made_once
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


def given(files, data, *more):
    """What is certified, as it is."""
    return (files / "weights.safetensors", "--model", "foreign_net:factory", "--data", f"foreign_net:{data}", *more)


def asked(files, *more, data="bound_set"):
    """What is certified, under a prior."""
    return given(files, data, "--prior", files / "prior.safetensors", *more)


def seen(files, *more):
    """What is certified where the prior's indices are known."""
    return asked(files, "--seen", files / "seen.npy", *more)


def test_a_stranger_s_weights_get_rigorous_certificates(files, certify):
    report = certify(*seen(files, "--test", "foreign_net:test_set", "--std", "0.005", "--tried", 4))
    found = {c["name"]: c for c in report["certificates"]}
    assert {c["status"] for c in found.values()} == {"rigorous"}
    assert (report["n"], report["prior"]["source"]) == (600, "HeldOut")
    assert 0.0 < report["details"]["kl_nats"] < 2.0
    best = found["randomised_maurer"]
    (tested,) = [m for m in report["measured"] if (m["of"], m["on"]) == ("randomised", "test")]
    assert tested["mean"] < best["value"] < 0.2
    assert all(c["failure_prob"] == near(0.05 / 4) for c in report["certificates"])
    assert report["choices"] == {"count": 4}
    assert standings(report, PRIOR_SAW) == {"declared"}, "indices are the user's word"
    assert standings(report, "settings fixed beforehand") == {"declared"}


@parametrize("form", ["data", "rows.npz"])
def test_rows_that_the_prior_saw_prove_that_the_bound_s_are_others(files, certify, form):
    arrays = Rows.of(*foreign_net.prior_set()).to_arrays()
    np.savez(files / "rows.npz", **arrays)
    rows = ("--seen", "foreign_net:prior_set") if form == "data" else ("--seen", files / form)
    assert standings(certify(*asked(files, *rows)), PRIOR_SAW) == {"proved"}


def test_without_a_prior_the_network_is_counted_as_it_is(files, certify):
    prior, saw = ("--seen", "foreign_net:prior_set"), "predictor saw none of these rows"
    report = certify(*given(files, "test_set"), "--ask", "error")
    first = report["certificates"][0]
    assert (first["of"], first["name"], report["n"]) == ("your network", "new_examples_clopper_pearson", 297)
    module = load_into(foreign_net.factory(), read_weights(files / "weights.safetensors"), source="here")
    inputs, labels = foreign_net.test_set()
    errors = int((module(inputs).argmax(1) != labels).sum())
    assert report["measured"][0]["errors"] == errors
    assert first["value"] == bounds.clopper_pearson_upper(errors, 297, 0.05)
    assert standings(report, saw) == {"declared"}
    everything = certify(*given(files, "test_set"))
    assert everything["details"]["budget"]["total"] == 0.05 > everything["certificates"][0]["failure_prob"]
    assert standings(certify(*given(files, "test_set", *prior)), saw) == {"proved"}


def test_modules_beside_the_user_s_are_found_when_called_and_folders_that_they_add_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", before := [*sys.path])
    (tmp_path / "helping_them.py").write_text("made = 3")
    (tmp_path / "lazy_user.py").write_text(
        "import sys\nsys.path.insert(0, 'src')\n\ndef made():\n    from helping_them import made\n    return made"
    )
    assert foreign.called("lazy_user:made", "data") == 3
    assert before[0] == "src"
    assert str(tmp_path) not in before


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("/tmp/pacdp-evil"),))


def test_pickled_code_is_not_run(tmp_path):
    torch.save({"1.weight": Evil()}, tmp_path / "bad.pt")
    with refusal("would run code", CheckpointError):
        read_weights(tmp_path / "bad.pt")
    assert not Path("/tmp/pacdp-evil").exists()


def test_state_dicts_by_any_name_are_found(tmp_path, module):
    state = module.state_dict()
    forms = {
        "plain.pt": state, "nested.pt": {"epoch": 3, "state_dict": state},
        "parallel.pt": {f"module.{k}": v for k, v in state.items()},
        "lightning.ckpt": {"state_dict": {f"net.backbone.{k}": v for k, v in state.items()}},
        "compiled.pt": {"model": {f"_orig_mod.{k}": v for k, v in state.items()}},
    }  # fmt: skip
    for name, form in forms.items():
        torch.save(form, tmp_path / name)
        twin = load_into(foreign_net.factory(), read_weights(tmp_path / name), source=name)
        assert not twin.training
        for key, value in twin.state_dict().items():
            assert torch.equal(value, state[key])
    torch.save({"model": state, "ema": {k: v + 1 for k, v in state.items()}}, tmp_path / "two.pt")
    with refusal("holds weights by the same names under model and ema", CheckpointError):
        read_weights(tmp_path / "two.pt")


def test_wrong_names_shapes_and_values_are_refused(module):
    state = module.state_dict()
    for said, wrong in {
        "different weights": {k: v for k, v in state.items() if k != "1.bias"},
        "of shape": {**state, "1.bias": torch.zeros(3)},
        "not finite": {**state, "1.bias": torch.full((32,), torch.nan)},
    }.items():
        with refusal(said, CheckpointError):
            load_into(foreign_net.factory(), wrong, source="here")


class Causal(nn.Module):
    def __init__(self, fill=-torch.inf):
        super().__init__()
        self.last = nn.Linear(3, 3)
        self.register_buffer("mask", torch.triu(torch.full((3, 3), fill), diagonal=1))


def test_a_mask_that_is_not_finite_is_the_network_s_own_or_refused():
    state = Causal().state_dict()
    assert torch.equal(load_into(Causal(), state, source="here").state_dict()["mask"], state["mask"])
    with refusal("values of mask that are not finite", CheckpointError):
        load_into(Causal(1.0), state, source="here")


class Tied(nn.Module):
    def __init__(self, beside=()):
        super().__init__()
        self.first, self.second, self.beside = nn.Linear(3, 3), nn.Linear(3, 3), beside
        self.second.weight = self.first.weight


def test_of_the_names_of_a_tied_weight_one_will_do_and_two_values_will_not():
    state = {name: one + 1.0 for name, one in Tied().state_dict().items()}
    for left_out in ("first.weight", "second.weight"):
        some = {name: one for name, one in state.items() if name != left_out}
        found = load_into(Tied(), some, source="here").state_dict()
        assert torch.equal(found["first.weight"], state["first.weight"])
    with refusal("here holds other values of first.weight than the network took", CheckpointError):
        load_into(Tied(), state | {"second.weight": state["second.weight"] + 1.0}, source="here")


def test_weights_that_no_name_stands_for_are_in_no_file():
    state = Tied().state_dict()
    load_into(Tied([torch.ones(1, 1)]), state, source="here")
    with refusal(r"beside\[0\].weight is none of its parameters"):
        load_into(Tied([nn.Linear(1, 1)]), state, source="here")
