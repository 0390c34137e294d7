"""The one door: a law over networks, examples, where the prior came from -> an assessment."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

import bounds
from pacdp.buffers import require_no_rows
from pacdp.certify.assessment import Assessment
from pacdp.certify.chain import (
    of_chain,
    released_certificate,
)
from pacdp.certify.evidence import evidence_of, require_draws, require_nothing_held, resting, version
from pacdp.certify.examples import BoundSet, require_kind
from pacdp.certify.finite import Finite, finite_parts
from pacdp.certify.gaussian import Formula, Found, Gaussians, MonteCarlo, Progress, parts
from pacdp.certify.networks import Network, fresh_certificates, judge
from pacdp.certify.priors import (
    NOISE_OF_THE_RUN,
    NoPrivacy,
    Prior,
    Private,
    Source,
    privacy_to_dict,
    source_to_dict,
)
from pacdp.certify.settings import Settings
from pacdp.chains import Diagnosis
from pacdp.gibbs import GibbsSettings
from pacdp.losses import Loss
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior, LocalGibbs, Point

Law = GaussianPosterior | LocalGibbs | Point | Network | Finite
From = Prior | Source | bounds.PrivacyClaim | NoPrivacy | None


def certify(
    law: Law,
    data: BoundSet | Objective,
    *,
    prior: From = None,
    network: nn.Module | None = None,
    test: BoundSet | Objective | None = None,
    failure_prob: float = 0.05,
    settings: Settings | None = None,
    monte_carlo: MonteCarlo | None = None,
    gibbs: GibbsSettings | None = None,
    losses: Sequence[Loss] = (),
    formulas: Sequence[Formula] = (),
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    diagnosis: Diagnosis | None = None,
) -> Assessment:
    """Every certificate that applies to a law over networks, with what each rests on.

    - A Gaussian over weights (``law``), a :class:`Prior` and the network's module: the randomised network (0-1 and
      Brier risk), one network drawn from it (0-1 risk, calibration), the prior's mean by a plain count where the
      examples are new to it, and with ``test`` the mean weights.
    - A :class:`Network` as it is: a plain count on examples that are new to it (``prior=None`` or ``HeldOut``), or the
      transfer where a private mechanism released it (``prior=Private(...)``).
    - :class:`Finite`: finitely many networks that saw none of the examples: an ensemble, its vote, and the best one.
    - ``LocalGibbs`` or ``Point`` weights of a chain with an :class:`Objective`: ``prior`` is what their chain promises.
      A promise that rests on stationarity makes optimistic certificates; one that is accounted for, rigorous ones.

    Where ``data`` know their people, people are the independent records, n counts them, and the risk is that on a new
    person.

    Formal guarantee: each certificate says with which probability over examples, prior and draws it fails, if its
    hypotheses are true. Those called proved were checked here: rows by their hashes, losses at every call, networks
    that mix their examples or hold the bound's rows. ``seed``, ``monte_carlo`` and the network may not depend on the
    bound's rows except as ``prior`` says.

    Args:
        law: what is certified.
        data: the examples that the bound rests on.
        prior: where the prior, or the network itself, came from.
        network: the module, in eval mode, whose weights ``law`` is about; its own weights do not matter.
        test: examples that neither prior nor posterior saw.
        failure_prob: of each certificate; divided by the number of settings that are paid for.
        settings: who fixed them, and among how many; by default declared by the caller.
        monte_carlo: how a Gaussian's risk is sampled.
        gibbs: effort spent on a Gibbs posterior.
        losses: more losses for a Gaussian, each bounded on its interval rescaled to [0, 1].
        formulas: more bounds of :mod:`bounds` for a Gaussian's 0-1 risk beside ``bounds.maurer``, such as
            ``bounds.quadratic`` or ``functools.partial(bounds.catoni, inverse_temperature=n)``; fixed beforehand.
        seed: of all draws made here.
        diagnosis: of the chains that learnt the weights; reported where a certificate assumes stationarity.

    Raises:
        ValueError: things that do not fit each other, in one sentence.
        DataError: examples that the prior or the settings saw, copies among the bound's rows, a test set that shares
            rows with them, or a network that holds them.
    """
    settings = Settings.declared() if settings is None else settings
    require_kind("law", law, Law)
    require_kind("data", data, BoundSet | Objective)
    require_kind("test", test, BoundSet | Objective | None)
    require_kind("settings", settings, Settings)
    require_kind("monte_carlo", monte_carlo, MonteCarlo | None)
    require_kind("gibbs", gibbs, GibbsSettings | None)
    require_kind("failure_prob", failure_prob, float | int)
    for name, given in (("losses", losses), ("formulas", formulas)):
        require_kind(name, given, list | tuple)
    require_draws(seed, device)
    if not 0.0 < failure_prob < 1.0:
        raise ValueError(f"failure_prob must lie strictly between 0 and 1, got {failure_prob!r}; 0.05 is customary")
    failure_prob = settings.share(failure_prob)
    if isinstance(data, Objective) or isinstance(law, LocalGibbs | Point):
        if not isinstance(data, Objective) or not isinstance(law, LocalGibbs | Point):
            raise ValueError("the weights of a chain and an Objective go together, got one without the other")
        if test is not None and not isinstance(test, Objective):
            raise ValueError("expected the test set of a chain as an Objective, like its data")
        if not isinstance(prior, bounds.PrivacyClaim | NoPrivacy):
            raise ValueError("the weights of a chain need prior=, what it promises: a privacy claim or NoPrivacy")
        source = Private(privacy=prior, noise=NOISE_OF_THE_RUN) if isinstance(prior, bounds.PrivacyClaim) else None
        bound, tested = BoundSet.behind(data), None if test is None else BoundSet.behind(test)
        evidence = evidence_of(source, bound, tested)
        for each, objective, whose in ((bound, data, "the bound's"), (tested, test, "the test set's")):
            if each is not None and objective is not None:
                weights = [name for name, _ in objective.model.named_parameters()]  # those of the law take their place
                require_no_rows(objective.model, each.inputs, paid=weights, whose=whose)
        found = of_chain(law, data, prior, test, failure_prob, gibbs, seed, progress, diagnosis)
        return resting(found, settings.standing(bound, tested), settings, *evidence)
    if isinstance(test, Objective):
        raise ValueError("expected the test set as a BoundSet, like the data")
    source = _source(prior)
    evidence, tested = evidence_of(source, data, test)
    fixed = settings.standing(data, test)
    for each, whose in ((data, "the bound's"), (test, "the test set's")):
        if each is not None:
            require_nothing_held(law, network, prior, each, whose)
    before = version(data, test)
    match law:
        case GaussianPosterior():
            if not isinstance(prior, Prior) or not isinstance(network, nn.Module):
                raise ValueError("a Gaussian posterior needs prior=Prior(law=..., source=...) and network=, its module")
            where = Gaussians(
                posterior=law,
                prior=prior,
                module=network,
                data=data,
                test=test,
                failure_prob=failure_prob,
                how=monte_carlo or MonteCarlo(),
                losses=losses,
                formulas=formulas,
                seed=seed,
                device=device,
                progress=progress,
            )
            found = _assembled("gaussian", list(parts(where)), data, failure_prob)
            found = replace(found, prior=prior.to_dict(), details={"kl_nats": where.kl_nats})
        case Network():
            found = _of_network(law, data, source, test, failure_prob, device)
        case Finite():
            if isinstance(source, Private):
                raise ValueError("networks that saw the bound's examples, even privately, need a prior of their own")
            found = _assembled("finite", finite_parts(law, data, test, failure_prob, device), data, failure_prob)
    privacy = _privacy(source)
    rows = {"bound": data.rows.summary(), "test": None if test is None else test.rows.summary(), "prior": None}
    found = replace(found, privacy=privacy, rows=rows, prior=found.prior or _prior_dict(source))
    if version(data, test) != before:
        raise ValueError("the network writes on its inputs or on labels, which changes the examples: let it copy them")
    return resting(found, fixed, settings, evidence, tested)


def _source(prior: From) -> Source | None:
    require_kind("prior", prior, From)
    if isinstance(prior, Prior):
        return prior.source
    if isinstance(prior, bounds.PrivacyClaim):
        return Private(privacy=prior)
    if isinstance(prior, NoPrivacy):
        raise ValueError(f"no certificate may rest on these examples: {prior.reason}")
    return prior


def _prior_dict(source: Source | None) -> dict[str, Any] | None:
    return None if source is None else {**source_to_dict(source), "choice_nats": 0.0}


def _privacy(source: Source | None) -> dict[str, Any] | None:
    return privacy_to_dict(source.privacy) if isinstance(source, Private) else None


def _assembled(route: str, found: list[Any], data: BoundSet, failure_prob: float) -> Assessment:
    return Assessment(
        route=route,
        n=data.units,
        unit=data.unit,
        examples=data.n,
        failure_prob=failure_prob,
        certificates=tuple(made for part in found for made in part.certificates),
        refusals=tuple(one for part in found for one in part.refusals),
        measured=tuple(one for part in found for one in part.measured),
        monte_carlo=tuple(one.to_dict() for part in found for one in part.monte_carlo),
    )


def _of_network(
    law: Network,
    data: BoundSet,
    source: Source | None,
    test: BoundSet | None,
    failure_prob: float,
    device: torch.device | str,
) -> Assessment:
    look = functools.partial(judge, law.network, device=device, scores=law.scores, batch_size=law.batch_size)
    seen, of = look(data), law.of
    measured = [seen.measured(of, "bound")]
    if isinstance(source, Private):
        made = released_certificate(seen.error, n=data.units, privacy=source.privacy, failure_prob=failure_prob, of=of)
        certificates = [made if data.unit == "example" else replace(made, measures=f"{made.measures} of a new person")]
    else:
        certificates = fresh_certificates(seen, of=of, failure_prob=failure_prob, name="new_examples")
    if test is not None:
        tested = look(test)
        measured.append(tested.measured(of, "test"))
        certificates += fresh_certificates(tested, of=of, failure_prob=failure_prob)
    found = [Found(certificates=certificates, measured=measured)]
    return _assembled("released" if isinstance(source, Private) else "new examples", found, data, failure_prob)
