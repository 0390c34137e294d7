"""Chains that keep what they add up: the kept norms are the gradients', and certificates are made of them alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import bounds
from bounds.noisy_steps import flattened
from pacdp import Architecture, BoundSet, Prior, Problem, Settings, load_checkpoint, load_trained
from pacdp import certify as certify_law
from pacdp.algorithms import PSGLD, SGHMC, SGLD, EntropySGD, build, sghmc, sgld
from pacdp.backprop import PosteriorSettings
from pacdp.backprop.fit import Examples
from pacdp.backprop.objectives import f_quad
from pacdp.backprop.train import train_posterior
from pacdp.canonical import digest
from pacdp.certify.accounted import around
from pacdp.certify.priors import NoisySum
from pacdp.certify.trajectory import noisy_sums_event, realised_price
from pacdp.chains import SQUARED_NORMS, Keys, Trace, run_chains
from pacdp.checkpoint import Checkpoint, save_checkpoint
from pacdp.cli.certifying import certify
from pacdp.cli.config import Run, Runtime
from pacdp.cli.folder import write_json
from pacdp.cli.run import train
from pacdp.losses import Loss, bounded_cross_entropy
from pacdp.objective import Estimate, Objective
from pacdp.verify.certificate import check_certificate
from pacdp.verify.folder import check_folder, read_checkpoint
from pacdp.verify.replay import replay
from pacdp.verify.report import check_path
from tests.pacdp.toys import toy_data

LOSS = bounded_cross_entropy(classes=3, max_loss=4.0)
NETWORKS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 3)),
    "fc": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 7), nn.ReLU(), nn.Linear(7, 3)),
    "conv": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)),
    "reference": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3)),
}


def squares_by_func(objective: Objective, weights: torch.Tensor, loss: Loss) -> torch.Tensor:
    """‖∇ℓ_i‖² of every example in double precision, by torch.func alone."""
    model = objective.model.double()
    named = {name: view.double() for name, view in objective.layout.views(weights[0]).items()}
    inputs, labels = objective.examples

    def of_one(own: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss(torch.func.functional_call(model, own, (x[None],)), y[None])[0]

    rows = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))(named, inputs.double(), labels)
    model.float()
    return torch.stack([one.flatten(1).square().sum(dim=1) for one in rows.values()]).sum(dim=0)


@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("size", [7, 60])
def test_kept_norms_are_those_of_all_that_each_record_adds_rounded_up(name: str, size: int) -> None:
    torch.manual_seed(0)
    data = toy_data(n=60, classes=3, shape=(1, 4, 4))
    objective = Objective(NETWORKS[name](), LOSS, data, batch_size=size, keep_norms=True)
    weights, keys = objective.weights(), Keys.derive([3])
    kept = objective.estimate(weights, keys, 5).squared_norms
    assert kept is not None
    (drawn,), _ = objective.draw(keys, 5)
    often = torch.bincount(drawn, minlength=60).double()
    assert size < 60 or bool((often > 1).any())
    # a record that was drawn k times adds k times its gradient
    exact = float((often.square() * squares_by_func(objective, weights, LOSS)).sum())
    assert exact <= float(kept) <= exact * (1.0 + 1e-4)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_step_on_every_record_has_each_once_and_the_gradient_of_the_risk(name: str) -> None:
    torch.manual_seed(0)
    data = toy_data(n=60, classes=3, shape=(1, 4, 4))
    at = {"batch_size": 60, "every_record": True}
    model = NETWORKS[name]()
    plain, kept = (Objective(model, LOSS, data, keep_norms=keep, **at) for keep in (False, True))
    weights, keys = kept.weights(), Keys.derive([3])
    found = kept.estimate(weights, keys, 0)
    exact = float(squares_by_func(kept, weights, LOSS).sum())
    assert found.squared_norms is not None
    assert exact <= float(found.squared_norms) <= exact * (1.0 + 1e-4)
    torch.testing.assert_close(found.gradient.clone(), plain.estimate(weights, keys, 0).gradient, rtol=1e-4, atol=1e-6)
    assert plain.estimate(weights, keys, 0).squared_norms is None


@pytest.mark.parametrize(
    "settings",
    [
        SGLD(tau=500.0, decay=0.3, cooling=0.4, keep_norms=True),
        SGHMC(tau=500.0, friction=0.3, decay=0.2, cooling=0.5, keep_norms=True),
        EntropySGD(tau=500.0, inner_steps=3, keep_norms=True),
    ],
)
def test_the_event_has_the_noise_that_the_steps_add(settings: SGLD | SGHMC | EntropySGD) -> None:
    """A step with its noise, less the same step without it, in units of the sum of gradients, has that deviation."""

    class Flat:
        def estimate(self, weights, keys, tick):  # type: ignore[no-untyped-def]
            zero = weights.new_zeros(len(weights))
            return Estimate(torch.full_like(weights, 1.0 / settings.batch_size), zero, zero, zero.double())

    if isinstance(settings, EntropySGD):  # of whose inner steps the newest alone is in the mean
        settings = replace(settings, alpha=1.0, inner_steps=1, outer_step_size=2.0, outer_decay=0.0, beta=None)
    sampler = build(settings, Flat())
    state: Any = sampler.init(torch.zeros(1, 200_000))
    noises = [noise for _, noise, _ in flattened(noisy_sums_event(settings, 4))]
    for step, noise in enumerate(noises):
        before, (state, _) = state, sampler.step(state, Keys.derive([1]))
        rate = settings.noise_path(4).rates[step]
        moved = (
            state.velocity - 0.7 * before.velocity if isinstance(settings, SGHMC) else state.weights - before.weights
        )
        released = moved / rate * settings.batch_size
        assert noise == pytest.approx(float(released.double().std()), rel=0.01)


def test_norms_are_refused_where_they_would_not_be_those_that_count() -> None:
    data = toy_data(n=20, classes=3, shape=(1, 4, 4))
    with pytest.raises(ValueError, match="norms of all records count and not those of the sampled ones"):
        Objective(NETWORKS["fc"](), LOSS, data, batch_size=5, clip_norm=1.0, keep_norms=True)
    with pytest.raises(ValueError, match="batch_size must be n=20"):
        Objective(NETWORKS["fc"](), LOSS, data, batch_size=5, every_record=True)
    with pytest.raises(ValueError, match="not sums over the records plus Gaussian noise"):
        noisy_sums_event(PSGLD(tau=10.0), 3)
    with pytest.raises(ValueError, match="one number for each of the 3 gradients"):
        realised_price(SGLD(tau=10.0), torch.ones(2).double(), steps=3, n=20)
    with pytest.raises(ValueError, match="one number for each of the 3 gradients"):
        realised_price(SGLD(tau=10.0), None, steps=3, n=20)
    clipped = SGLD(tau=10.0, clip_norm=1.0)
    with pytest.raises(ValueError, match="batches of a clipped chain are secret"):
        realised_price(clipped, torch.ones(3).double(), steps=3, n=20)


PROBLEM = Problem(dataset="digits", architecture=Architecture(hidden=()), train_size=200, features="coarse-gradients")
FULL = SGHMC(tau=1000.0, step_size=3.0, friction=0.2, cooling=0.5, base_std=30.0, batch_size=200, keep_norms=True,
             every_record=True)  # fmt: skip
RUN = Run(problem=PROBLEM, sampler=FULL, epochs=12.0, records=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    path = tmp_path_factory.mktemp("kept") / "run"
    train(RUN, path, Runtime())
    return path, certify(path, Runtime())


def verdicts(path: Path, report: dict) -> dict[str, str]:
    return {one.claim: one.verdict for one in check_folder(path, report)}


def test_a_run_is_certified_by_what_it_kept_and_verified(folder: tuple[Path, dict]) -> None:
    path, report = folder
    first = report["certificates"][0]
    assert (first["name"], first["of"], first["status"]) == ("realised_sum_maurer", "weights", "rigorous")
    standing = {one["name"]: one["standing"] for one in first["hypotheses"]}
    assert standing["batches drawn without the records"] == "proved"
    assert standing["norms of all records kept"] == "declared"
    norms = load_checkpoint(path).trace[SQUARED_NORMS]
    noises = np.array([200 * (2 * 0.2 / (3.0 * 1000.0 * t**0.5)) ** 0.5 for t in range(1, 13)])
    assert first["inputs"]["sum_contributions"] == pytest.approx(float((norms.numpy() / noises**2).sum()), rel=1e-5)
    assert set(verdicts(path, report).values()) == {"follows"}
    for made in report["certificates"]:
        assert {one.verdict for one in check_certificate(made)} == {"follows"}, made["name"]


def test_more_settings_may_be_paid_for_than_any_list_has(folder: tuple[Path, dict]) -> None:
    path, report = folder
    tried = certify(path, Runtime(), unlisted=Settings.tried(50, "a test"))
    assert tried["certificates"][0]["value"] > report["certificates"][0]["value"]
    assert verdicts(path, tried)["report"] == "follows"
    less = {**tried, "choices": {**tried["choices"], "count": 0}}
    assert verdicts(path, less)["report"] == "does not follow"


def test_a_schedule_of_a_caller_is_refused_where_norms_are_kept() -> None:
    """It may have looked at training errors; the settings, off which certificates read it, say nothing of it."""
    data, _ = PROBLEM.data()
    objective = PROBLEM.objective(data, generator=torch.Generator().manual_seed(0), batch_size=200, keep_norms=True,
                                  every_record=True)  # fmt: skip
    for kind, settings in ((sghmc, FULL), (sgld, SGLD(tau=10.0, keep_norms=True))):
        with pytest.raises(ValueError, match="may have looked at training errors; use decay and cooling"):
            kind.build(settings, objective, step_size=lambda step: 0.5)
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.BatchNorm1d(4), nn.Linear(4, 10))
    with pytest.raises(ValueError, match="normalise over the batch, so that no example has a loss of its own"):
        Objective(model, LOSS, data, batch_size=200, keep_norms=True, every_record=True)


def test_a_run_that_was_stopped_early_is_refused_in_a_sentence(folder: tuple[Path, dict]) -> None:
    trained = load_trained(folder[0])
    early = replace(trained, state=trained.state._replace(step=7))
    (refused,) = [one for one in early.assess().refusals if one.name == "realised noisy sums"]
    assert "12 steps are paid for and 7 were made" in refused.reason


def test_any_gaussian_around_the_end_has_a_certificate_that_pays_for_its_divergence(folder: tuple[Path, dict]) -> None:
    """Trained on from the end without noise, by looking at all examples."""
    path, _ = folder
    trained = load_trained(path)
    price = realised_price(FULL, trained.checkpoint.trace[SQUARED_NORMS], steps=12, n=200)
    prior = Prior(law=around(trained.objective, trained.weights, std=0.3), source=NoisySum(price=price))
    inputs, labels = trained.objective.examples
    law = train_posterior(
        prior.law, trained.objective.model, Examples(inputs, labels), objective=f_quad, loss=trained.objective.loss,
        settings=PosteriorSettings(steps=20, batch_size=50), failure_prob=0.05,
        generator=torch.Generator().manual_seed(2),
    )  # fmt: skip
    found = certify_law(law, BoundSet.behind(trained.objective), prior=prior, network=trained.objective.model)
    made = found.certificate()
    assert (made.name, made.status) == ("randomised_realised_sum_maurer", "rigorous")
    assert made.nats("kl") == pytest.approx(law.kl_nats(prior.law), rel=1e-6)
    assert made.nats("kl") > 0.01
    assert {one.verdict for one in check_certificate(made.to_dict())} == {"follows"}


def test_a_resumed_chain_keeps_the_same_norms() -> None:
    data, _ = PROBLEM.data()
    objective = PROBLEM.objective(data, generator=torch.Generator().manual_seed(0), batch_size=200, keep_norms=True,
                                  every_record=True)  # fmt: skip
    sampler, keys = build(FULL, objective), Keys.derive([0])

    def go(state, trace: Trace, until: int):  # type: ignore[no-untyped-def]
        for part in run_chains(sampler, state, keys, until=until, chunk=4):
            state, trace = part.state, trace.extended(part)
        return state, trace

    whole, all_of_it = go(sampler.init(objective.weights()), Trace.start(9), 9)
    half, trace = go(sampler.init(objective.weights()), Trace.start(9), 5)
    again, rest = go(half, Trace.of(trace.every, [trace.tensors(0)]), 9)
    assert torch.equal(whole.weights, again.weights)
    assert torch.equal(all_of_it.tensors(0)[SQUARED_NORMS], rest.tensors(0)[SQUARED_NORMS])


def rewritten(path: Path, out: Path, *, norms=None, sampler: dict | None = None) -> Path:  # type: ignore[no-untyped-def]
    """The run's folder with other norms or settings, every hash of the checkpoint put right."""
    stored = load_checkpoint(path)
    header, trace = dict(stored.header), dict(stored.trace)
    if norms is not None:
        trace[SQUARED_NORMS] = norms(trace[SQUARED_NORMS])
    if sampler:
        header["sampler"] = {**header["sampler"], **sampler}
        header["run"] = {**header["run"], "sampler": {**header["run"]["sampler"], **sampler}}
        header["config_hash"] = digest(header["run"])
    out.mkdir()
    save_checkpoint(out / "checkpoint.safetensors", Checkpoint(header=header, model=stored.model, state=stored.state,
                                                               trace=trace))  # fmt: skip
    write_json(out / "config.json", header["run"])
    return out


@pytest.mark.parametrize(
    "fault",
    [
        {"norms": lambda x: 0.5 * x},  # as if half of the records had been added up
        {"norms": lambda x: x[:-1]},
        {"norms": lambda x: torch.cat([x[:1], x[:-1] * 0.2 + x[1:] * 0.8])},  # after momentum
        {"sampler": {"tau": 1000.0 / 1.21}},  # noise said to be 10% larger than the price takes it for
        {"sampler": {"cooling": 0.4}},  # a schedule of after the run
        {"sampler": {"every_record": False}},
    ],
)
def test_a_changed_file_does_not_give_the_report_s_price(
    folder: tuple[Path, dict], tmp_path: Path, fault: dict
) -> None:
    path, report = folder
    found = verdicts(rewritten(path, tmp_path / "run", **fault), report)
    assert found["norms"] != "follows"


def replayed(path: Path) -> dict[str, str]:
    """Verdicts on the kept steps of a run, taken again from its data."""
    data, _ = PROBLEM.data()
    model = PROBLEM.model(data, generator=torch.Generator().manual_seed(9))
    stored = read_checkpoint(path / "checkpoint.safetensors")
    return {one.claim: one.verdict for one in replay(stored, model, data.inputs, data.labels)}


def rows() -> tuple[np.ndarray, np.ndarray]:
    data, _ = PROBLEM.data()
    return data.inputs, data.labels


def network() -> nn.Module:
    return PROBLEM.model(PROBLEM.data()[0], generator=torch.Generator().manual_seed(9))


def test_kept_steps_are_taken_again_from_the_data(folder: tuple[Path, dict]) -> None:
    path, report = folder
    assert replayed(path) == {"norms of steps 0, 3": "follows", "noise": "follows"}
    write_json(path / "certificates.json", report)
    here = f"{__name__}:"
    found = check_path(path, data=here + "rows", model=here + "network")
    assert {one.verdict for one in found if one.subject in ("replay", "recount")} == {"follows"}
    (path / "certificates.json").unlink()


def test_planted_norms_of_sampled_records_only_do_not_survive_a_replay(
    folder: tuple[Path, dict], tmp_path: Path
) -> None:
    """Half of the records summed, twice the records' worth of a minibatch, one record left out."""
    path, _ = folder
    for number, factor in enumerate((0.5, 2.0, 1.0 - 1.0 / 200.0)):
        out = rewritten(path, tmp_path / str(number), norms=lambda x, f=factor: f * x)
        report = certify(out, Runtime())
        assert verdicts(out, report)["norms"] == "follows"  # one number a step: that it is of all records is not shown
        assert replayed(out)["norms of steps 0, 3"] == "does not follow"


def test_planted_norms_counted_after_momentum_do_not_survive_a_replay(
    folder: tuple[Path, dict], tmp_path: Path
) -> None:
    def after(norms: torch.Tensor) -> torch.Tensor:
        """Of what momentum makes of a gradient, an average of those until now: never more than the largest."""
        kept = norms.clone()
        for step in range(1, len(kept)):
            kept[step] = ((0.8 * kept[step - 1].sqrt() + 0.2 * norms[step].sqrt()) ** 2).clamp(max=norms.max())
        return kept

    out = rewritten(folder[0], tmp_path / "run", norms=after)
    assert verdicts(out, certify(out, Runtime()))["norms"] == "follows"
    assert replayed(out)["norms of steps 0, 3"] == "does not follow"


def test_planted_noise_misreported_by_a_tenth_does_not_survive_a_replay(
    folder: tuple[Path, dict], tmp_path: Path
) -> None:
    for number, tau in enumerate((1000.0 / 1.21, 1210.0)):
        out = rewritten(folder[0], tmp_path / str(number), sampler={"tau": tau})
        assert verdicts(out, certify(out, Runtime()))["norms"] == "follows"
        assert replayed(out)["noise"] == "does not follow"


def test_planted_order_chosen_after_the_contributions_is_refused(folder: tuple[Path, dict]) -> None:
    """The best single order for the V that was realised, nothing paid for choosing it."""
    path, report = folder
    norms = load_checkpoint(path).trace[SQUARED_NORMS]
    price = realised_price(FULL, norms, steps=12, n=200)
    alone = [replace(price, orders=(order,)) for order in np.arange(1.01, 6.0, 0.01)]
    chosen = min(alone, key=lambda one: one.charge(n=200, failure_prob=0.05).nats)
    first = report["certificates"][0]
    made = bounds.maurer(risk=first["inputs"]["risk"], kl_nats=0.0, n=200, failure_prob=0.05, price=chosen)
    assert made.value < first["value"]
    own = {**made.to_dict(), "of": "weights", "hypotheses": first["hypotheses"]}
    found = verdicts(path, {**report, "certificates": [own]})
    assert found["norms"] == "does not follow"
    weighted = bounds.maurer(
        risk=0.5, kl_nats=0.0, n=200, failure_prob=0.05, price=replace(price, weights=(0.9, *(0.1 / 16.0,) * 16))
    )
    own = {**weighted.to_dict(), "of": "weights", "hypotheses": first["hypotheses"]}
    assert verdicts(path, {**report, "certificates": [own]})["norms"] == "does not follow"


def test_drawn_batches_and_unknown_losses_are_not_replayed(folder: tuple[Path, dict], tmp_path: Path) -> None:
    drawn = rewritten(folder[0], tmp_path / "drawn", sampler={"every_record": False})
    assert set(replayed(drawn).values()) == {"cannot be checked"}
    run = tmp_path / "run"
    settings = EntropySGD(tau=1000.0, inner_steps=2, batch_size=200, keep_norms=True, every_record=True)
    train(replace(RUN, sampler=settings, epochs=10.0), run, Runtime())
    assert replayed(run) == {"norms of steps 0, 3": "follows", "noise": "cannot be checked"}


def test_norms_that_are_missing_are_refused_in_a_sentence(folder: tuple[Path, dict], tmp_path: Path) -> None:
    path, _ = folder
    report = certify(rewritten(path, tmp_path / "run", norms=lambda x: x[1:]), Runtime())
    (refused,) = [one for one in report["not_applicable"] if one["name"] == "realised noisy sums"]
    assert "one number for each of the 12 gradients that are paid for, got 11" in refused["reason"]
    assert not any(one["name"].startswith("realised") for one in report["certificates"])


def test_a_norm_that_is_no_number_makes_no_certificate_below_one() -> None:
    norms = torch.tensor([1.0, float("nan"), 1.0], dtype=torch.float64)
    with pytest.raises(ValueError, match="squared_norms"):
        realised_price(SGLD(tau=10.0), norms, steps=3, n=20)
    price = realised_price(SGLD(tau=10.0), torch.full((3,), 1e308, dtype=torch.float64), steps=3, n=20)
    assert bounds.maurer(risk=0.0, kl_nats=0.0, n=20, failure_prob=0.05, price=price).value == 1.0
