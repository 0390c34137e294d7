"""What a certificate rests on is proved where it can be, shown where it cannot, and refused where it is false."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import bounds
from bounds.sentence import headline
from pacdp import (
    BoundSet,
    DataFree,
    GaussianPosterior,
    HeldOut,
    MonteCarlo,
    Network,
    NoPrivacy,
    Prior,
    Private,
    Settings,
    certify,
)
from pacdp.data import DataError, Split, index_hash
from pacdp.data.rows import Rows

MU = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")
QUICK = MonteCarlo(passes=1)


def examples(n, *, seed=0, people=None):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (n,), generator=generator)
    inputs = torch.randn(n, 4, generator=generator)
    inputs[:, 0] += 3.0 * labels - 1.5
    return BoundSet(inputs=inputs, labels=labels, people=people)


def network():
    module = nn.Linear(4, 1, bias=False)
    nn.init.zeros_(module.weight)
    module.weight.data[0, 0] = 1.0
    return module.eval()


def law(std=0.1):
    return GaussianPosterior.around(network(), std=std)


def certified(data, source, *, test=None, module=None, **options):
    prior = Prior(law=law(), source=source)
    return certify(law(), data, prior=prior, network=module or network(), test=test, monte_carlo=QUICK, **options)


def shuffled(data, seed=3):
    order = torch.randperm(data.n, generator=torch.Generator().manual_seed(seed))
    return BoundSet(inputs=data.inputs[order], labels=data.labels[order])


def test_the_bound_s_rows_in_another_order_are_no_test_set():
    data = examples(80)
    with pytest.raises(DataError, match="the test set's rows and the bound's rows share 80 examples"):
        certified(data, DataFree(), test=shuffled(data))
    few = shuffled(data)
    mixed = BoundSet(
        inputs=torch.cat([few.inputs[:3], examples(20, seed=9).inputs]),
        labels=torch.cat([few.labels[:3], examples(20, seed=9).labels]),
    )
    with pytest.raises(DataError, match="share 3 examples"):
        certified(data, DataFree(), test=mixed)
    relabelled = BoundSet(inputs=data.inputs[:10], labels=1 - data.labels[:10])
    with pytest.raises(DataError, match="10 inputs under another label"):
        certified(data, DataFree(), test=relabelled)


def test_the_prior_s_rows_under_other_indices_are_found():
    data = examples(80)
    other = Split(np.arange(100, 180), index_hash(np.arange(100, 180)))
    placed = replace(data, indices=Split(np.arange(80), index_hash(np.arange(80))), data_hash="same")
    by_indices = HeldOut(indices=other, data_hash="same")
    told = certified(placed, by_indices).certificate().hypothesis("prior saw none of these rows")
    assert told.standing == "declared", "indices are what the caller says"
    with pytest.raises(DataError, match="the prior's rows and the bound's rows share 80 examples"):
        certified(placed, replace(by_indices, rows=shuffled(data).rows))
    apart = certified(data, HeldOut(rows=examples(50, seed=8).rows))
    assert apart.certificate().hypothesis("prior saw none of these rows").standing == "proved"


def test_copies_do_not_count():
    data = examples(200)
    repeated = BoundSet(inputs=data.inputs.repeat(30, 1), labels=data.labels.repeat(30))
    with pytest.raises(DataError, match="5800 repeats among 6000 inputs"):
        certified(repeated, DataFree())
    fresh = examples(300, seed=5)
    copied = BoundSet(inputs=fresh.inputs[:100].repeat(3, 1), labels=fresh.labels[:100].repeat(3))
    with pytest.raises(DataError, match="the test set's rows hold 200 repeats"):
        certified(data, DataFree(), test=copied)


class Remembering(nn.Linear):
    def __init__(self, rows):
        super().__init__(4, 1, bias=False)
        self.register_buffer("memory", rows, persistent=False)


@pytest.mark.parametrize("flat", [False, True])
def test_a_network_that_holds_the_bound_s_rows_is_refused(flat):
    data = examples(60)
    rows = data.inputs.reshape(-1) if flat else data.inputs
    with pytest.raises(DataError, match="memory of the network holds 60 of the bound's 60 inputs"):
        certified(data, DataFree(), module=Remembering(rows).eval())
    with pytest.raises(DataError, match="memory of the network holds 60"):
        certify(Network(network=Remembering(rows).eval()), data)


def test_a_privacy_claim_is_about_its_own_rows():
    data = examples(80)
    known = certified(data, Private(privacy=MU, rows=data.rows)).certificate()
    assert known.hypothesis("privacy covers these rows").standing == "proved"
    assert certified(data, Private(privacy=MU)).certificate().hypothesis("privacy covers these rows").standing == (
        "declared"
    ), "a claim without rows is somebody's word"
    with pytest.raises(DataError, match="30 of the bound's 80 are not among them"):
        certified(data, Private(privacy=MU, rows=Rows.of(data.inputs[:50], data.labels[:50])))
    with pytest.raises(DataError, match="80 of the bound's 80"):
        certified(data, Private(privacy=MU, rows=examples(80, seed=7).rows))
    with pytest.raises(ValueError, match="it learnt without noise"):
        certify(Network(network=network()), data, prior=NoPrivacy(reason="it learnt without noise"))


def test_privacy_of_examples_proves_nothing_of_people():
    people = np.repeat(np.arange(20), 4).astype(np.int64)
    data = examples(80, people=people)
    with pytest.raises(ValueError, match="the promise of privacy is to single examples"):
        certify(Network(network=network()), data, prior=Private(privacy=MU))
    found = certify(Network(network=network()), data, prior=Private(privacy=MU, unit="person", rows=data.rows))
    (made,) = found.certificates
    assert (found.n, found.unit, found.examples) == (20, "person", 80)
    assert made.inputs["n"] == 20
    assert made.hypothesis("records independent").unit == "person"
    expected = bounds.private_kl_chernoff(risk=found.measured[0].mean, n=20, privacy=MU, failure_prob=0.05)
    assert made.value == expected.value
    rows = Rows.of(data.inputs, data.labels)
    with pytest.raises(DataError, match="the privacy claim covers one example at a time"):
        certify(Network(network=network()), data, prior=Private(privacy=MU, unit="person", rows=rows))


def test_people_are_counted_where_they_are_known():
    people = np.repeat(np.arange(16), 5).astype(np.int64)
    data = examples(80, people=people)
    found = certify(Network(network=network()), data)
    betting, made = found.certificates
    assert betting.value < made.value
    assert (betting.measures, betting.hypotheses) == (made.measures, made.hypotheses)
    assert made.measures == "0-1 risk of a new person"
    assert made.hypothesis("records independent").unit == "person"
    plain = certify(Network(network=network()), replace(data, people=None)).certificates[0]
    assert made.value > 1.5 * plain.value
    assert plain.hypothesis("records independent") == bounds.declared("records independent", "the caller", "example")


@pytest.mark.wrong_types
def test_settings_are_paid_for_or_proved_to_be_chosen_elsewhere():
    data, tuning = examples(80), examples(40, seed=6)
    free = certified(data, DataFree())
    paid = certified(data, DataFree(), settings=Settings.tried(8, "the study"))
    assert paid.failure_prob == 0.05 / 8
    assert paid.certificate().value > free.certificate().value
    assert paid.choices["count"] == 8
    assert free.certificate().hypothesis("settings fixed beforehand").standing == "declared"
    chosen = certified(data, DataFree(), settings=Settings.chosen_on(tuning.rows))
    assert chosen.certificate().hypothesis("settings fixed beforehand").standing == "proved"
    assert chosen.certificate().value == free.certificate().value
    with pytest.raises(DataError, match="the rows that the settings were chosen on and the bound's rows share"):
        certified(data, DataFree(), settings=Settings.chosen_on(data.rows))
    for count in (0, 2.0, True):
        with pytest.raises(ValueError, match="count of settings"):
            Settings.tried(count, "me")


def test_every_certificate_names_what_it_rests_on():
    found = certified(examples(80), DataFree(), test=examples(40, seed=2))
    for made in found.certificates:
        names = {one.name for one in made.hypotheses}
        assert {"records independent", "new data follow the same law", "settings fixed beforehand"} <= names
        assert names & {"prior saw none of these rows", "predictor saw none of these rows", "draws independent"}
        for one in made.hypotheses:
            assert one.by
            assert not one.by.startswith("the caller of bounds."), made.name


def test_the_best_certificate_pays_for_the_choice():
    found = certified(examples(200), DataFree(), test=examples(150, seed=2), failure_prob=0.01)
    best = found.best()
    compared = [one for one in found.certificates if one.measures == "0-1 risk"]
    assert best.value == min(one.value for one in compared)
    assert best.failure_prob == pytest.approx(0.01 * len(compared))
    assert found.best(of="one draw").failure_prob == pytest.approx(0.01)
    with pytest.raises(ValueError, match="no rigorous certificate bounds the 0-1 risk of nobody"):
        found.best(of="nobody")
    with pytest.raises(ValueError, match="certify at a failure_prob below 1/"):
        certified(examples(200), DataFree(), test=examples(150, seed=2), failure_prob=0.3).best()


def test_the_headline_is_one_true_sentence():
    made = certify(Network(network=network()), examples(80), failure_prob=0.05)
    said = made.headline()
    value = made.certificates[0].value
    shown = float(said.split("at most ")[1].split("%")[0])
    assert 100.0 * value <= shown <= 100.0 * value + 0.0101
    assert "95% confidence" in said
    assert "from 80 examples" in said
    assert "new data follow the same law (declared)" in said
    vacuous = bounds.maurer(risk=0.5, kl_nats=math.inf, n=10, failure_prob=0.05)
    assert headline(vacuous).startswith("Nothing is known")
    optimistic = made.certificates[0].resting_on(bounds.unproved("chain stationary", "nobody knows"))
    assert "optimistic" in headline(optimistic)
    for exact, printed in ((0.0123, "1.23%"), (0.01230001, "1.24%"), (0.1, "10.00%"), (0.99999, "100.00%")):
        at = replace(made.certificates[0], value=exact)
        assert f"at most {printed}" in headline(at)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan])
def test_an_impossible_failure_probability_is_refused_before_any_work(bad):
    with pytest.raises(ValueError, match="must lie strictly between 0 and 1"):
        certify(Network(network=network()), examples(80), failure_prob=bad)
