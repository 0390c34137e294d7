"""Chains whose records are people: what one adds to a sum is their own mean gradient, and people are counted."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pacdp import Architecture, BoundSet, Prior, Problem, load_checkpoint, load_trained
from pacdp import certify as certify_law
from pacdp.algorithms import SGHMC
from pacdp.certify.accounted import around
from pacdp.certify.priors import NoisySum
from pacdp.certify.training import train_certified
from pacdp.certify.trajectory import realised_price
from pacdp.chains import SQUARED_NORMS, Keys
from pacdp.checkpoint import Checkpoint, save_checkpoint
from pacdp.cli.certifying import certify
from pacdp.cli.config import Run, Runtime
from pacdp.cli.folder import write_json
from pacdp.cli.run import train
from pacdp.data import Dataset, load
from pacdp.errors import CheckpointError
from pacdp.objective import Objective
from pacdp.verify.folder import check_folder, read_checkpoint
from pacdp.verify.replay import replay
from pacdp.verify.report import check_report
from tests.pacdp.certify.test_trajectory import LOSS, NETWORKS
from tests.pacdp.toys import toy_data
from tests.schema import validate

EACH = 3
"""Digits of each writer in these tests."""


def with_people(data: Dataset, *, start: int = 0) -> Dataset:
    """The same examples, ``EACH`` a person, mostly of one class, so that a person's gradients add up."""
    owner = np.empty(data.n, dtype=np.int64)
    owner[np.argsort(data.labels, kind="stable")] = start + np.arange(data.n) // EACH
    return replace(data, people=owner, unit="writer")


@pytest.mark.parametrize("name", list(NETWORKS))
def test_kept_norms_are_those_of_each_person_s_mean(name: str) -> None:
    """Of 17 people with 1 to 12 examples; the gradient is the mean over people of these."""
    torch.manual_seed(0)
    owner = np.repeat(np.arange(17, dtype=np.int64), [12, 9, 7, 6, 5, *[3] * 4, *[2] * 4, *[1] * 4])
    plain = toy_data(n=len(owner), classes=3, shape=(1, 4, 4))
    data = replace(plain, people=np.random.default_rng(1).permutation(owner), unit="writer")
    objective = Objective(NETWORKS[name](), LOSS, data, batch_size=data.n, keep_norms=True, every_record=True)
    weights, keys = objective.weights(), Keys.derive([3])
    kept = objective.estimate(weights, keys, 5)
    model, named = objective.model.double(), objective.layout.views(weights[0])
    inputs, labels = objective.examples

    def of_one(own: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return LOSS(torch.func.functional_call(model, own, (x[None],)), y[None])[0]

    each = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))
    rows = each({key: one.double() for key, one in named.items()}, inputs.double(), labels)
    assert data.people is not None
    people = torch.tensor(data.people)
    means = {key: torch.stack([one[people == k].mean(dim=0) for k in range(17)]) for key, one in rows.items()}
    exact = sum(float(one.square().sum()) for one in means.values()) * (data.n / 17) ** 2
    assert kept.squared_norms is not None
    assert exact <= float(kept.squared_norms) <= exact * (1.0 + 1e-4)
    whole = {key: one.mean(dim=0) for key, one in means.items()}
    torch.testing.assert_close(kept.gradient[0].double(), objective.layout.flatten(whole), rtol=1e-4, atol=1e-6)
    model.float()


def test_steps_do_not_depend_on_how_many_examples_people_gave() -> None:
    """Everybody's examples twice: the same gradient, and the same contributions over the variance of the noise."""
    data = with_people(toy_data(n=60, classes=3, shape=(1, 4, 4)))
    assert data.people is not None
    twice = replace(data, inputs=np.repeat(data.inputs, 2, axis=0), labels=np.repeat(data.labels, 2),
                    people=np.repeat(data.people, 2))  # fmt: skip
    torch.manual_seed(0)
    model, settings = NETWORKS["linear"](), SGHMC(tau=300.0, step_size=1.0, base_std=30.0)
    once, again = (train_certified(model, one, settings=settings, steps=5) for one in (data, twice))
    for name, found in once.weights.items():
        torch.testing.assert_close(found, again.weights[name], rtol=1e-4, atol=1e-6)
    spent = [made.certificate.inputs["sum_contributions"] for made in (once, again)]
    assert spent[0] == pytest.approx(spent[1], rel=1e-4)


def test_drawn_batches_of_people_s_examples_are_refused() -> None:
    data = with_people(toy_data(n=60, classes=3, shape=(1, 4, 4)))
    with pytest.raises(ValueError, match="every_record must be True with keep_norms where the data name writers"):
        Objective(NETWORKS["linear"](), LOSS, data, batch_size=30, keep_norms=True)


def test_copies_of_an_example_under_one_person_pay_for_all_of_them_together() -> None:
    """As examples they would pay a third as much for each of three times as many records."""
    one = toy_data(n=20, classes=3, shape=(1, 4, 4))
    copies = replace(one, inputs=np.repeat(one.inputs, EACH, axis=0), labels=np.repeat(one.labels, EACH))
    people = replace(copies, people=np.repeat(np.arange(20, dtype=np.int64), EACH), unit="patient")
    torch.manual_seed(0)
    model, kept = NETWORKS["linear"](), list[float]()
    for data in (one, copies, people):
        objective = Objective(model, LOSS, data, batch_size=data.n, keep_norms=True, every_record=True)
        norms = objective.estimate(objective.weights(), Keys.derive([3]), 0).squared_norms
        assert norms is not None
        kept.append(float(norms))
    assert kept[1] == pytest.approx(EACH * kept[0], rel=1e-3)
    assert kept[2] == pytest.approx(EACH**2 * kept[0], rel=1e-3)


def test_a_network_of_one_s_own_is_certified_for_a_new_person() -> None:
    data = with_people(toy_data(n=300, classes=3, shape=(1, 4, 4)))
    settings = SGHMC(tau=300.0, step_size=1.0, base_std=30.0)
    torch.manual_seed(0)
    found = train_certified(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), data, settings=settings, steps=10)
    made = found.certificate
    assert (made.status, made.measures, made.inputs["n"]) == ("rigorous", "0-1 risk of a new person", 100)
    alone = train_certified(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), replace(data, people=None, unit="example"),
                            settings=settings, steps=10).certificate  # fmt: skip
    assert alone.inputs["n"] == 300
    assert made.value > alone.value  # fewer records


PROBLEM = Problem(dataset="digits", architecture=Architecture(hidden=()), features="coarse-gradients")
FULL = SGHMC(tau=500.0, step_size=3.0, friction=0.2, cooling=0.5, base_std=30.0, batch_size=1437, keep_norms=True,
             every_record=True)  # fmt: skip
RUN = Run(problem=PROBLEM, sampler=FULL, epochs=8.0, records=2)


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits, with writers, in place of the digits without them."""

    def loaded(name: str, **how: object) -> tuple[Dataset, Dataset]:
        train_set, test_set = load(name)
        return with_people(train_set), with_people(test_set, start=10_000)

    for place in ("pacdp.problem.load", "pacdp.cli.run.load"):
        monkeypatch.setattr(place, loaded)


@pytest.fixture
def folder(writers: None, tmp_path: Path) -> tuple[Path, dict]:
    train(RUN, tmp_path / "run", Runtime())
    return tmp_path / "run", certify(tmp_path / "run", Runtime())


def verdicts(path: Path, report: dict) -> dict[str, str]:
    return {one.claim: one.verdict for one in check_folder(path, report)}


def replayed(path: Path, *, known: bool = True) -> dict[str, str]:
    data, _ = PROBLEM.data()
    model = PROBLEM.model(data, generator=torch.Generator().manual_seed(9))
    people = data.people if known else None
    stored = read_checkpoint(path / "checkpoint.safetensors")
    return {one.claim: one.verdict for one in replay(stored, model, data.inputs, data.labels, people)}


def rewritten(path: Path, out: Path, *, norms: float = 1.0, people: dict | None = None) -> Path:
    """The run's folder with norms times a factor, or with other people in its header, and the hashes put right."""
    stored = load_checkpoint(path)
    trace = {**stored.trace, SQUARED_NORMS: norms * stored.trace[SQUARED_NORMS]}
    header = {name: value for name, value in stored.header.items() if name != "people"}
    header |= {"people": stored.header["people"]} if people is None else people
    out.mkdir()
    saved = Checkpoint(header=header, model=stored.model, state=stored.state, trace=trace)
    save_checkpoint(out / "checkpoint.safetensors", saved)
    write_json(out / "config.json", header["run"])
    return out


def by_examples(path: Path) -> float:
    """Σ over examples in place of people, as a share of what was kept at the first step."""
    trained = load_trained(path)
    data, _ = PROBLEM.data()
    plain = Objective(trained.objective.model, trained.objective.loss, replace(data, people=None, unit="example"),
                      batch_size=1437, keep_norms=True, every_record=True)  # fmt: skip
    first = trained.checkpoint.trace["kept.0.weights"]
    norms = plain.estimate(first[None], Keys.derive([0]), 0).squared_norms
    assert norms is not None
    return float(norms[0] / trained.checkpoint.trace[SQUARED_NORMS][0])


def test_a_run_on_people_is_certified_and_verified(folder: tuple[Path, dict]) -> None:
    path, report = folder
    validate(report)
    first = report["certificates"][0]
    assert (first["name"], first["of"], first["status"]) == ("realised_sum_maurer", "weights", "rigorous")
    assert (first["measures"], first["inputs"]["n"]) == ("0-1 risk of a new person", len(set(people_of())))
    assert (report["n"], report["unit"], report["examples"]) == (first["inputs"]["n"], "person", 1437)
    independent = next(one for one in first["hypotheses"] if one["name"] == "records independent")
    assert (independent["standing"], independent["unit"]) == ("declared", "person")
    assert all(made["status"] == "rigorous" for made in report["certificates"])
    assert {made["measures"] for made in report["certificates"]} >= {"0-1 risk of a new person"}
    assert "count examples" in next(one for one in report["not_applicable"] if "stationarity" in one["name"])["reason"]
    assert load_checkpoint(path).header["people"]["count"] == report["n"]
    assert set(verdicts(path, report).values()) == {"follows"}
    odd = [one for one in check_report(report) if one.verdict != "follows"]
    assert [(one.claim, one.why) for one in odd] == [("value", "the losses of the people are not in the file")]
    assert replayed(path) == {"norms of steps 0, 3": "follows", "noise": "follows"}
    assert replayed(path, known=False)["norms of steps 0, 3"] == "cannot be checked"


def people_of() -> Iterator[int]:
    data, _ = PROBLEM.data()
    assert data.people is not None
    yield from data.people.tolist()


def test_planted_examples_counted_as_people_are_caught(folder: tuple[Path, dict], tmp_path: Path) -> None:
    path, report = folder
    share = by_examples(path)
    assert share < 0.95
    # norms of single examples, all else as it should be: a number a step shows no record, the data show it
    out = rewritten(path, tmp_path / "norms", norms=share)
    assert verdicts(out, certify(out, Runtime()))["norms"] == "follows"
    assert replayed(out)["norms of steps 0, 3"] == "does not follow"
    # every example a record in the report
    counted = {
        **report,
        "n": 1437,
        "unit": "example",
        "certificates": [{**made, "inputs": {**made["inputs"], "n": 1437}} for made in report["certificates"]],
    }
    assert verdicts(path, counted)["norms"] == "does not follow"
    # or in the checkpoint
    for number, header in enumerate(({}, {"people": {**load_checkpoint(path).header["people"], "count": 1437}})):
        out = rewritten(path, tmp_path / str(number), people=header)
        assert verdicts(out, report)["norms"] == "does not follow"
        assert replayed(out)["norms of steps 0, 3"] == "does not follow"
        with pytest.raises(CheckpointError, match="its run and data make it"):
            load_trained(out)


def test_prices_of_examples_and_of_people_do_not_stand_for_each_other(folder: tuple[Path, dict]) -> None:
    path, _ = folder
    trained = load_trained(path)
    examples, people = BoundSet.behind(trained.objective), BoundSet.of_records(trained.objective)
    price = realised_price(FULL, trained.checkpoint.trace[SQUARED_NORMS], steps=8, n=1437)
    law = around(trained.objective, trained.weights, std=0.3)
    for bound, unit in ((people, "example"), (examples, "person")):
        prior = Prior(law=law, source=NoisySum(price=price, unit=unit))
        with pytest.raises(ValueError, match="keep the norms of the records that are counted"):
            certify_law(law, bound, prior=prior, network=trained.objective.model)
    with pytest.raises(ValueError, match=r"NoisySum.unit to be 'example' or 'person'"):
        NoisySum(price=price, unit="patient")


def test_other_people_than_those_of_the_run_are_refused(
    folder: tuple[Path, dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = folder
    monkeypatch.setattr("pacdp.problem.load", lambda name, **how: load(name))
    with pytest.raises(CheckpointError, match="its run and data make it"):
        load_trained(path)
