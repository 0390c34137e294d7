"""The one door: a law over networks, examples, where the prior came from -> an assessment."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

import bounds
from bounds.hypotheses import Hypothesis, declared, proved
from pacdp.buffers import require_no_rows
from pacdp.certify.assessment import Assessment, Measured, Refusal
from pacdp.certify.chain import (
    gibbs_certificates,
    refuted,
    released_certificate,
    released_weights_certificate,
    weights_certificates,
)
from pacdp.certify.examples import BoundSet, require_kind
from pacdp.certify.finite import Finite, finite_parts
from pacdp.certify.gaussian import Formula, Found, Gaussians, MonteCarlo, Progress, parts
from pacdp.certify.networks import about, clopper_pearson, fresh_certificates, judge
from pacdp.certify.priors import NoPrivacy, Prior, Private, Source, source_to_dict, standing, unseen_by_test
from pacdp.certify.settings import Settings
from pacdp.chains import CERTIFY, Diagnosis, Keys
from pacdp.data.row_checks import require_apart, require_plain
from pacdp.gibbs import GibbsSettings, estimate_gibbs
from pacdp.losses import Loss
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior, LocalGibbs, Point

_SAME_LAW = declared("new data follow the same law", "the caller")
_NEW = "predictor saw none of these rows"
_NOISE = "the run, whose noise is drawn from a seed that must not depend on the examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """One network as it is: a module in eval mode, or any function from inputs to one row of logits an example.

    Attributes:
        network: the function.
        of: what it is called in certificates.
        scores: whether it returns probabilities in place of logits.
        batch_size: examples at a time.
    """

    network: Callable[[torch.Tensor], torch.Tensor]
    of: str = "your network"
    scores: bool = False
    batch_size: int = 500

    def __post_init__(self) -> None:
        if not callable(self.network):
            raise ValueError(f"expected Network.network to be a function of inputs, got {type(self.network).__name__}")
        require_kind("Network.of", self.of, str)
        require_kind("Network.batch_size", self.batch_size, int)
        if not 1 <= self.batch_size < 2**31:
            raise ValueError(f"expected Network.batch_size from 1 to 2**31 - 1, got {self.batch_size}")


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
    _require_draws(seed, device)
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
        source = Private(privacy=prior, noise=_NOISE) if isinstance(prior, bounds.PrivacyClaim) else None
        bound, tested = BoundSet.behind(data), None if test is None else BoundSet.behind(test)
        evidence = _standing(source, bound, tested)
        for each, objective, whose in ((bound, data, "the bound's"), (tested, test, "the test set's")):
            if each is not None and objective is not None:
                weights = [name for name, _ in objective.model.named_parameters()]  # those of the law take their place
                require_no_rows(objective.model, each.inputs, paid=weights, whose=whose)
        found = _of_chain(law, data, prior, test, failure_prob, gibbs, seed, progress, diagnosis)
        return _resting(found, settings.standing(bound, tested), settings, *evidence)
    if isinstance(test, Objective):
        raise ValueError("expected the test set as a BoundSet, like the data")
    source = _source(prior)
    evidence, tested = _standing(source, data, test)
    fixed = settings.standing(data, test)
    for each, whose in ((data, "the bound's"), (test, "the test set's")):
        if each is not None:
            _require_nothing_held(law, network, prior, each, whose)
    version = _version(data, test)
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
    if _version(data, test) != version:
        raise ValueError("the network writes on its inputs or on labels, which changes the examples: let it copy them")
    return _resting(found, fixed, settings, evidence, tested)


def _version(*sets: BoundSet | None) -> tuple[int, ...]:
    return tuple(each.version for each in sets if each is not None)


def _require_draws(seed: Any, device: Any) -> None:
    require_kind("seed", seed, int)
    if not 0 <= seed < 2**63 - 1:
        raise ValueError(f"expected a seed from 0 to 2**63 - 2, got {seed}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(f"expected a device that is here, such as 'cpu', got {device!r}: {error}") from error


def _require_nothing_held(law: Law, network: nn.Module | None, prior: From, data: BoundSet, whose: str) -> None:
    """Refuse a predictor or a prior in which the examples themselves stand.

    Of a Gaussian it is the laws whose tensors are used: the bound pays for the posterior's random weights alone, and
    examples in the prior's mean, in a weight of deviation 0 or in a buffer are free of charge. A test set pays for
    nothing.
    """
    held: Any = nn.Module()
    match law:
        case Network():
            held.network = law.network
        case Finite():
            held.networks = list(law.networks)
        case GaussianPosterior():
            laws = {"posterior": law.buffers}
            if isinstance(prior, Prior):
                laws["prior"] = {**prior.law.buffers, **prior.law.means}
            if whose != "the bound's":
                laws["posterior"] = {**law.buffers, **law.means}
            held.laws = {name: {key: each.detach() for key, each in own.items()} for name, own in laws.items()}
            held.network = network
    require_no_rows(held, data.inputs, paid=[f"network.{name}" for name in getattr(law, "means", ())], whose=whose)


def _standing(
    source: Source | None, data: BoundSet, test: BoundSet | None
) -> tuple[tuple[Hypothesis, ...], tuple[Hypothesis, ...]]:
    """What is known of the bound's rows, and of the test set's."""
    require_plain(data.rows)
    evidence = (_independent(data), _SAME_LAW, *standing(source, data))
    tested: tuple[Hypothesis, ...] = ()
    if test is not None:
        require_plain(test.rows, name="the test set's rows")
        require_apart(test.rows, data.rows, ("the test set's rows", "the bound's rows"))
        unseen_by_test(source, test)
        said = "the caller; row hashes show that the bound's examples are not among them"
        tested = (_independent(test), _SAME_LAW, declared(_NEW, said))
    return evidence, tested


def _independent(data: BoundSet) -> Hypothesis:
    by = "the caller" if data.people is None else "the data set, which names its people"
    return declared("records independent", by, data.unit)


def _resting(
    found: Assessment,
    fixed: Hypothesis,
    settings: Settings,
    evidence: tuple[Hypothesis, ...] = (),
    tested: tuple[Hypothesis, ...] = (),
) -> Assessment:
    """Each certificate with what was found out about its hypotheses."""
    made = []
    for one in found.certificates:
        about = tested if one.name.startswith("test_set") and tested else evidence
        if one.hypotheses and any(h.name == _NEW for h in one.hypotheses):
            about = tuple(replace(h, name=_NEW) if h.name == "prior saw none of these rows" else h for h in about)
        own = {h.name for h in one.hypotheses}
        known = [h for h in about if h.name in own]
        if "draws independent" in own:
            known.append(proved("draws independent", "draws keyed by seed, pass and example"))
        known.append(fixed)
        made.append(one.resting_on(*known))
    choices = {"count": settings.count, **(settings.record or {})}
    return replace(found, certificates=tuple(made), choices=choices)


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


def privacy_to_dict(privacy: bounds.PrivacyClaim, event: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a report says of a promise; the masses of a distribution by their digest, with the event they are of."""
    record = {name.removeprefix("privacy_"): value for name, value in bounds.Accounted(privacy=privacy).inputs.items()}
    return {"adjacency": privacy.adjacency, "status": privacy.status, "event": event, "record": record}


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


def _of_chain(
    law: LocalGibbs | Point,
    data: Objective,
    prior: bounds.PrivacyClaim | NoPrivacy,
    test: Objective | None,
    failure_prob: float,
    effort: GibbsSettings | None,
    seed: int,
    progress: Progress | None,
    diagnosis: Diagnosis | None,
) -> Assessment:
    """The Gibbs classifier around a chain's weights and the weights themselves."""
    (train,) = data.risks(law.weights[None])
    tested = test.risks(law.weights[None])[0] if test else None
    measured = [Measured(of="weights", on="bound", loss="zero-one", mean=train.error, errors=train.errors, n=train.n)]
    certificates: list[bounds.Certificate] = []
    refusals: list[Refusal] = []
    estimate = None
    if isinstance(law, LocalGibbs):
        keys = Keys.derive([seed], purpose=CERTIFY)
        (estimate,) = estimate_gibbs([law], data, test, effort or GibbsSettings(), keys, progress)
        measured.append(
            Measured(of="Gibbs classifier", on="bound", loss="zero-one", mean=estimate.error, errors=None, n=data.n)
        )
        if estimate.test_error is not None and test is not None:
            mean = estimate.test_error
            measured.append(
                Measured(of="Gibbs classifier", on="test", loss="zero-one", mean=mean, errors=None, n=test.n)
            )
    if isinstance(prior, NoPrivacy):
        names = ("DP-PAC-Bayes bounds", "H-, C- and kl-Chernoff bounds")[0 if estimate else 1 :]
        refusals += [Refusal(name=name, reason=prior.reason) for name in names]
    elif isinstance(prior, bounds.PureDP):
        if estimate:
            reason = refuted(estimate)
            refusals += [Refusal(name="DP-PAC-Bayes bounds", reason=reason)] if reason else []
            certificates += gibbs_certificates(
                estimate, n=data.n, loss=data.loss, privacy=prior, failure_prob=failure_prob
            )
        certificates += weights_certificates(train, privacy=prior, failure_prob=failure_prob)
    else:
        certificates.append(released_weights_certificate(train, privacy=prior, failure_prob=failure_prob))
    if tested and test:
        measured.append(
            Measured(of="weights", on="test", loss="zero-one", mean=tested.error, errors=tested.errors, n=tested.n)
        )
        made = clopper_pearson(tested.errors, tested.n, failure_prob)
        certificates.append(about(made, of="weights", measures="0-1 risk"))
    else:
        refusals.append(Refusal(name="test-set bound", reason="no examples were kept from training"))
    assumed = any(one.name == "chain stationary" for made in certificates for one in made.unproved)
    return Assessment(
        route="gibbs" if estimate else "released",
        n=data.n,
        examples=data.n,
        failure_prob=failure_prob,
        certificates=tuple(certificates),
        refusals=tuple(refusals),
        measured=tuple(measured),
        privacy=None if isinstance(prior, NoPrivacy) else privacy_to_dict(prior),
        gibbs=asdict(estimate) if estimate else None,
        diagnosis=diagnosis.to_dict() if diagnosis and assumed else None,
        details={"weights": {"train": train._asdict(), "test": tested._asdict() if tested else None}},
    )
