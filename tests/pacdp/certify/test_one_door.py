"""One question has one answer, at whichever door it is asked; only what is known of the rows differs."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bounds
from pacdp import Network, Settings, certify, certify_predictions, self_certify
from pacdp.certify import BoundSet, DataFree, Surrogate
from tests.marks import every_case, refusal
from tests.pacdp.draws import rand

N, ERRORS = 360, 16
LABELS = np.arange(N) % 10
SAID = np.where(np.arange(N) % 23 == 3, (LABELS + 1) % 10, LABELS)
TABLE = torch.eye(10)[torch.tensor(SAID)] * 3.0
NET = nn.Embedding.from_pretrained(TABLE).eval()
INPUTS, TARGETS = torch.arange(N), torch.tensor(LABELS)
PEOPLE, GROUPS = np.arange(N) // 3, np.where(np.arange(N) % 2, "north", "south")
WRONG = SAID != LABELS


class Known(ClassifierMixin, BaseEstimator):
    """Says what the table says, whatever it was fitted on."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        return SAID[np.asarray(x)[:, 0].astype(int)]


def half_brier(outputs, labels):
    return (outputs.double().softmax(1) - nn.functional.one_hot(labels, 10)).square().sum(1) / 2


def probabilities():
    return TABLE.double().softmax(1).numpy()


BY = {
    "a network": lambda **how: certify(NET, (INPUTS, TARGETS), **how),
    "a loader": lambda **how: certify(NET, DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=50), **how),
    "a bound set": lambda **how: certify(Network(network=NET), BoundSet(inputs=INPUTS, labels=TARGETS), **how),
    "truth values as a loss": lambda **how: certify(NET, (INPUTS, TARGETS), loss=lambda z, y: z.argmax(1) != y, **how),
    "answers": lambda **how: certify_predictions(LABELS, SAID, **how),
    "probabilities": lambda **how: certify_predictions(LABELS, probabilities=probabilities(), **how),
    "errors": lambda **how: certify_predictions(losses={"error": WRONG}, **how),
}  # fmt: skip


def same(one, other):
    """But for the names of predictor and risk, and for what is known of the rows."""
    plain = {"of": "", "measures": "", "hypotheses": (), "name": ""}
    return replace(one, **plain) == replace(other, **plain)


@every_case("door", BY)
def test_sixteen_errors_of_360_are_one_number(door):
    assert WRONG.sum() == ERRORS
    found = BY[door](ask="error")
    (made,) = found.certificates
    assert made.value == bounds.clopper_pearson_upper(ERRORS, N, 0.05)
    assert same(made, BY["answers"](ask="error").certificates[0])
    assert found.failure_prob == made.failure_prob == 0.05
    assert "(95% confidence; " in found.headline()


def test_who_asks_for_everything_has_the_same_rows_at_either_door():
    network, table = BY["a network"](), BY["probabilities"]()
    assert network.budget == table.budget
    rows, others = (
        [(one.quantity, round(one.measured, 9), one.lower, one.upper) for one in made.statements]
        for made in (network, table)
    )
    assert rows == others
    assert all(map(same, network.certificates, table.certificates))
    assert str(network).splitlines()[2:] == str(table).splitlines()[2:] or "your network" in str(network)


def test_people_losses_groups_and_both_ends_have_one_number():
    people = certify(NET, (INPUTS, TARGETS, PEOPLE), ask="error")
    assert same(people.certificates[0], certify_predictions(LABELS, SAID, people=PEOPLE, ask="error").certificates[0])
    assert (people.unit, people.n) == ("person", N // 3)
    values = half_brier(TABLE, TARGETS).numpy()
    for whose in (None, PEOPLE):
        data = (INPUTS, TARGETS) if whose is None else (INPUTS, TARGETS, whose)
        loss, table = certify(NET, data, loss=half_brier), certify_predictions(losses={"x": values}, people=whose)
        assert same(loss.certificates[0], table.certificates[0])
    ends = [certify_predictions(LABELS, groups=GROUPS, interval=True, ask=["groups"], **said)
            for said in ({"predictions": SAID}, {"probabilities": probabilities()})]  # fmt: skip
    assert ends[0].certificates == ends[1].certificates


def test_what_self_certify_counts_is_what_the_table_of_its_answers_counts():
    found = self_certify(Known(), (np.arange(N)[:, None] + 0.0, LABELS), routes="held-out count", seed=3)
    k, n = found.certificate.inputs["k"], found.certificate.inputs["n"]
    (counted,) = certify_predictions(losses={"error": np.arange(n) < k}, ask="error").certificates
    assert (found.certificate.value, found.certificate.failure_prob) == (counted.value, 0.05)


@pytest.mark.wrong_types
def test_a_report_is_printed_and_saved(tmp_path):
    found = BY["a network"]()
    text = str(found)
    assert text.startswith(found.headline())
    assert "recall of class 9" in text
    assert "All of this holds at once with 95% confidence." in text
    assert found.table() in text
    path = found.save(tmp_path / "new")
    assert path.name == "certificates.json"
    (tmp_path / "file").touch()
    refused: dict[Any, str] = {
        tmp_path / "new": "holds no report yet", tmp_path / "file": "folder must be a folder, and .*file is a file",
        tmp_path / "file" / "in": "in cannot be made", tmp_path / "new.json": "new.json names a file: give .* for cert",
        io.BytesIO(): "folder must be a path, got BytesIO",
    }  # fmt: skip
    for place, said in refused.items():
        with np.testing.assert_raises_regex(ValueError, said):
            found.save(place)
    (tmp_path / "old.json").mkdir()
    assert found.save(str(tmp_path / "old.json")).is_file()


UNLABELLED = rand(200, 3)


def surrogate():
    network = nn.Linear(3, 2).eval()
    rows = rand(300, 3, seed=1)
    counted = certify(network, (rows, network(rows).argmax(1)), ask="error", failure_prob=0.02)
    return Surrogate(network=network, certificate=counted.certificates[0], saw={"a": (rows, torch.zeros(300))})


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("held", UNLABELLED.clone())

    def forward(self, x):
        near = (torch.cdist(x, self.held) < 1e-6).any(1).float()
        return torch.stack([near, 1.0 - near], dim=1)


def named_like_ours(outputs, labels):
    return torch.zeros(len(labels), dtype=torch.float64)


def test_a_surrogate_serves_no_network_that_hides_what_it_says_or_holds():
    net, by = nn.Linear(3, 2).eval(), surrogate()
    scores = Network(network=lambda x: net(x).softmax(1)[:, :1], scores=True)
    for law, words, more in (
        (scores, "scores goes without", {}),
        (lambda x: net(x)[:, 0].sigmoid(), "the outputs are probabilities", {}),
        (Holding().eval(), "kept of the network|hold", {}),
        (net, "settings were chosen on", {"settings": Settings.chosen_on((UNLABELLED, torch.zeros(200)))}),
    ):
        with refusal(words):
            certify(law, UNLABELLED, surrogate=by, **more)
    with refusal("held of the network holds"):
        certify(net, UNLABELLED, surrogate=replace(by, network=Holding().eval()))
    made = certify(Network(network=by.network, of="mine"), UNLABELLED, surrogate=by, seen=DataFree())
    assert made.certificates[0].of == "mine"
    assert made.failure_prob <= 0.05


def test_names_of_ours_one_keyword_and_settings_that_were_chosen_among():
    for name in ("0-1 risk", "error", "0-1_risk of a new person", "Ece", "loss_of_a_new_person"):
        named_like_ours.__name__ = name
        with refusal("a name of its own"):
            certify(NET, (INPUTS, TARGETS), loss=named_like_ours)
        with refusal("a name of its own"):
            certify_predictions(losses={name: np.zeros(N)})
    for name in ("error on class 1", "error in group b", "1 - AUC", "share of people with more than 0.5 of their own",
                 "absolute_error_over_10", "Squared error over 4"):  # fmt: skip
        with refusal("a name of its own"):
            certify_predictions(losses={name: np.zeros(N, dtype=bool)})
    batches = [{"input": INPUTS, "labels": TARGETS}]
    with refusal("share 360"):
        certify(NET, batches, seen=(INPUTS, TARGETS))
    best = certify(NET, (INPUTS, TARGETS), ask="error", settings=Settings.tried(10))
    assert best.failure_prob == 0.005
    assert "(95% confidence; " in best.headline(), "which is what holds for the best of ten"


def small(ids):
    assert len(ids) <= 40
    return NET(ids)


def test_a_network_takes_no_more_examples_at_a_time_than_it_says_whoever_makes_the_batches():
    data = DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=90)
    made = certify(Network(network=small, batch_size=20), data, ask="error")
    assert made.certificates == BY["a loader"](ask="error").certificates
