"""The one door: a network or a law over networks, examples, where it came from -> a report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

import bounds
from bounds import _check
from pacdp.certify import chain, finite, gaussian, heads, networks
from pacdp.certify.evidence import (
    Settings,
    evidence_of,
    require_comparable,
    source_of,
    summaries,
)
from pacdp.certify.examples import BoundSet, Device, require_kind
from pacdp.certify.finite import Finite
from pacdp.certify.gaussian import MonteCarlo
from pacdp.certify.gibbs import GibbsSettings, Progress
from pacdp.certify.loaders import bound_set
from pacdp.certify.networks import Question, Release, Surrogate, disagreement
from pacdp.certify.outputs import ClippedError, LossOf
from pacdp.certify.priors import (
    NOISE_OF_THE_RUN,
    DataFree,
    HeldOut,
    Prior,
    Private,
    Source,
    privacy_to_dict,
    source_to_dict,
)
from pacdp.certify.reading import Function, Network, Reading
from pacdp.features.gibbs_head import GibbsHead
from pacdp.features.ridge_head import UndrawnHeads
from pacdp.layers.plain import ONE_AT_A_TIME
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior, LocalGibbs, Point
from pacdp.predictions.certify import certified
from pacdp.predictions.described import described
from pacdp.predictions.report import Report
from pacdp.step.event import NoPrivacy
from pacdp.store.record import Values
from pacdp.trials.buffers import Holdings

Law = GaussianPosterior | LocalGibbs | Point | Network | Finite | GibbsHead | UndrawnHeads
From = Prior | Source | bounds.PrivacyClaim | NoPrivacy | None


@np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")  # whatever the caller has
def certify(
    law: Law | Function,
    data: Any,
    *,
    prior: From = None,
    seen: Any = None,
    network: nn.Module | None = None,
    test: Any = None,
    loss: LossOf | ClippedError | None = None,
    ask: Sequence[str] | str | None = None,
    surrogate: Surrogate | None = None,
    failure_prob: float = 0.05,
    settings: Settings | None = None,
    monte_carlo: MonteCarlo | None = None,
    gibbs: GibbsSettings | None = None,
    seed: int | None = None,
    device: Device | None = None,
    progress: Progress | None = None,
    release: Release | None = None,
) -> Report:
    """How wrong is this on new data? Every certificate that applies, with what each rests on.

    >>> print(pacdp.certify(model.eval(), DataLoader(unseen, batch_size=256), seen=train))

    - A network as it is, a module in eval mode or any function, and examples that are new to it: the report of
      :func:`pacdp.certify_predictions` on what it says of them. They are read once, and one batch at a time is held.
      Outputs may be logits [m, classes] or [m], a tuple that begins with them, or a dictionary or dataclass that holds
      them as ``logits``; :class:`Network` says what else there is to say.
    - The same with a ``surrogate``: another network has a certificate, and examples without labels, which neither saw,
      say how often the two differ.
    - A Gaussian over weights (``law``), a :class:`Prior` and the network's module: the randomised network (0-1 and
      Brier risk), the one network that ``one_draw_weights`` draws from it with ``seed`` (0-1 risk, calibration), the
      prior's mean by a plain count where the examples are new to it, and with ``test`` the mean weights.
    - A :class:`Network` that a private mechanism released (``prior=Private(...)``), and the examples that it was
      trained on: the transfer.
    - A :class:`GibbsHead` on fixed features, whose anchor ``prior`` says where it came from: one head is drawn from it
      with the examples, exactly, and certified at the price of that draw.
    - :class:`UndrawnHeads`: Gaussians around a Gibbs law that nobody draws, whose coordinates ``prior`` says where they
      came from; nothing is sampled.
    - :class:`Finite`: finitely many networks that saw none of the examples: one of them drawn for each answer, their
      vote, and the best one; a mean of their outputs has no certificate.
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
        data: the examples that the bound rests on: tensors or arrays (inputs, labels) or (inputs, labels, people), a
            BoundSet, a Dataset of such pairs, or a DataLoader whose batches are such tuples or dictionaries with the
            key "labels" and perhaps "people"; of a chain an Objective.
        prior: where the prior, or a network that was released privately, came from.
        seen: what a network as it is was trained on: anything that ``data`` may be, the folder of a chain, or
            ``pacdp.data.Rows``; or ``HeldOut`` with the places in a data set, ``DataFree`` for a network that was made
            without any of the data. That the examples are others is then proved, as far as both hold their numbers in
            one form and order; without it the caller vouches for it.
        network: the module, in eval mode, whose weights ``law`` is about; its own weights do not matter,
            but other threads may neither train nor call it meanwhile.
        test: examples that neither prior nor posterior saw; of a network as it is, more of those new to it, on which
            its error is measured alone.
        loss: of a network as it is, in place of the 0-1 error: :class:`ClippedError` for regression, or a function of
            outputs and labels with one number in [0, 1] an example; truth values are errors, and are counted.
        ask: of a network as it is, as for :func:`pacdp.certify_predictions`; what is not asked is not paid for.
        surrogate: by which network another one is certified, on data whose labels are not looked at.
        failure_prob: of a network as it is, of everything together; of a law, of each certificate by itself; divided by
            the number of settings that are paid for.
        settings: who fixed them, and among how many; by default declared by the caller.
        monte_carlo: how a Gaussian's risk is sampled.
        gibbs: effort spent on a Gibbs posterior.
        seed: of all draws made here.
        release: releases the errors of a privately released :class:`Network`, and n, with noise that a ledger counts
            (:func:`pacdp.certify.released_counts.released_errors`). Nothing else that depends on the examples is then
            in the assessment: it may be published if the network may.

    Raises:
        ValueError: things that do not fit each other, in one sentence.
        DataError: examples that the prior or the settings saw, copies among the bound's rows, a test set that shares
            rows with them, or a network that holds them.
    """
    if not isinstance(law, Law):
        if not callable(law):
            raise ValueError(
                "expected law to be a network, as a module or a function, or a law of pacdp such as GaussianPosterior, "
                f"got {type(law).__name__}: load weights into their module first, and give an estimator's answers to "
                "certify_predictions"
            )
        law = Network(network=law)
    settings = Settings.declared() if settings is None else settings
    given = dict(locals())  # every argument by its name
    route = _route(given)
    seed, device = int(seed or 0), "cpu" if device is None else device
    require_draws(seed, device)
    _check.open_probability(failure_prob=failure_prob)
    failure_prob, of_chain = settings.share(failure_prob), isinstance(law, LocalGibbs | Point)
    if any(one is not None and isinstance(one, Objective) != of_chain for one in (data, test)):
        raise ValueError(
            "the weights of a chain and an Objective, as data and test set, go together, got one without the other"
        )
    if route is None:
        with ONE_AT_A_TIME:
            return _of_a_network(
                law, data, prior, seen, test, surrogate, settings,
                loss=loss, ask=ask, failure_prob=failure_prob, device=device
            )  # fmt: skip
    if release is not None and test is not None:
        raise ValueError(
            "release goes with a Network that a private mechanism released, and without a test set"
        )
    read, source = BoundSet.behind if of_chain else bound_set, _source(prior, of_chain)
    require_comparable(source, settings, data, test)
    if isinstance(law, GaussianPosterior):  # a copy, on which nobody writes
        law = replace(law)
        prior = replace(prior, law=replace(prior.law)) if isinstance(prior, Prior) else prior
    bound, fresh = read(data), None if test is None else read(test)
    asked = Question(
        law=law, data=bound, test=fresh, given=(data, test), prior=prior, source=source, network=network,
        failure_prob=failure_prob, monte_carlo=monte_carlo or _SAMPLED, gibbs=gibbs, seed=seed, device=device,
        progress=progress, release=release,
    )  # fmt: skip
    evidence = evidence_of(source, bound, fresh, settings)
    before = bound.version, fresh and fresh.version
    with ONE_AT_A_TIME:
        _require_nothing_held(asked)
        found = route(asked)
    if (bound.version, fresh and fresh.version) != before:
        raise ValueError(
            "the network writes on its inputs or on labels, which changes the examples: let it copy them"
        )
    if not of_chain:
        told = bound.told_by_order if release is None else ()
        found = replace(
            found,
            remarks=(*told, *found.remarks),
            privacy=privacy_to_dict(source.privacy) if isinstance(source, Private) else None,
            rows=summaries(bound, fresh) if release is None else None,
            prior=found.prior or source_to_dict(source),
        )
    return replace(found.each(evidence.on), choices={"count": settings.count})


def _of_a_network(
    law: Any, data: Any, prior: From, seen: Any, test: Any, surrogate: Surrogate | None, settings: Settings,
    *, loss: LossOf | ClippedError | None, ask: Sequence[str] | str | None, failure_prob: float, device: Device
) -> Report:  # fmt: skip
    """What examples that are new to a network say of it: the report of its predictions, with what is known of rows.

    Formal guarantee: that of :func:`pacdp.certify_predictions`, or with a surrogate that of :func:`disagreement`.
    """
    if isinstance(law.network, nn.Module) and any(
        getattr(part, "training", False)
        for part in law.network.modules()  # frozen by jit
    ):
        raise ValueError(
            "the network is in train mode, where dropout and BatchNorm mix examples: call eval() on it, or pass "
            "lambda x: network(x) for one that torch.export made, which has no eval()"
        )
    if law.scores and loss is not None:
        raise ValueError(
            "Network.scores is not used beside loss=, and would be ignored: leave it out"
        )
    if prior is not None and seen is not None:
        raise ValueError("prior and seen say the same of a network as it is: give seen alone")
    seen = _source(prior, False) if seen is None else seen
    if surrogate is not None:
        known = None if isinstance(seen, DataFree) else seen
        if isinstance(seen, HeldOut) and seen.rows is not None:
            known = seen.rows
        return disagreement(
            law, data, surrogate, settings, seen=known, failure_prob=failure_prob, device=device
        )
    source = source_of(seen)
    compared = require_comparable(source, settings, data, test)
    reading = Reading(law=law, loss=loss, device=device, compared=compared)
    sets = reading.judged(data, test, held=True)
    bound, fresh = sets["bound"], sets.get("test")
    evidence = evidence_of(source, bound, fresh, settings)
    table = described(bound, people=bound.people)
    found = replace(
        certified(table, failure_prob=failure_prob, ask=ask),
        measured=tuple(one.measured(on) for on, one in sets.items()),
        rows=summaries(bound, fresh),
        prior=source_to_dict(source),
        choices={"count": settings.count},
    )
    return found.each(evidence.on)


_SAMPLED = MonteCarlo()
_KINDS = {
    "law": Law,
    "prior": From,
    "settings": Settings,
    "surrogate": Surrogate | None,
    "monte_carlo": MonteCarlo | None,
    "gibbs": GibbsSettings | None,
    "seed": int | np.integer | None,
}
_ALWAYS = {"law", "data", "prior", "settings", "failure_prob"}
_ROUTES: dict[type, tuple[Callable[[Question], Report], set[str]]] = {
    Network: (networks.released, {"test", "device", "release"}),
    GaussianPosterior: (
        gaussian.assess,
        {"network", "test", "monte_carlo", "seed", "device", "progress"},
    ),
    LocalGibbs: (chain.assess, {"test", "gibbs", "seed", "progress"}),
    Point: (chain.assess, {"test"}),
    Finite: (finite.assess, {"test", "device"}),
    GibbsHead: (heads.drawn, {"test", "device"}),
    UndrawnHeads: (heads.undrawn, {"test", "device"}),
}
"""What certifies each kind of law, and which arguments mean something to it beside ``_ALWAYS``."""
_ALONE = {"seen", "test", "loss", "ask", "device"}, {"seen", "surrogate", "device"}
"""Likewise of a network as it is, and of one by another."""


def _route(given: Mapping[str, Any]) -> Callable[[Question], Report] | None:
    """What certifies the law; None for a network as it is.

    Raises:
        ValueError: an argument of another type, one that nothing would look at, or a subclass of a law: what is proved
            of a law is proved of its own methods.
    """
    for name, kind in _KINDS.items():
        require_kind(name, given[name], kind)
    law = given["law"]
    if type(law) not in _ROUTES:
        raise ValueError(
            f"law must be one of pacdp's own, got a subclass {type(law).__name__} of one: what is proved of a law is "
            "proved of its own methods"
        )
    route, used = _ROUTES[type(law)]
    if isinstance(law, Network) and not isinstance(given["prior"], Private):
        route, used = None, _ALONE[given["surrogate"] is not None]
    for name, value in given.items():
        if value is not None and name not in _ALWAYS | used:
            raise ValueError(
                f"{name} is not used for what is certified here, and would be ignored: leave it out"
            )
    return route


def _source(prior: From, of_chain: bool) -> Source | None:
    if isinstance(prior, NoPrivacy) and not of_chain:
        raise ValueError(f"no certificate may rest on these examples: {prior.reason}")
    if isinstance(prior, bounds.PrivacyClaim):
        own: Values = {"noise": NOISE_OF_THE_RUN} if of_chain else {}
        return Private(privacy=prior, **own)
    if isinstance(prior, NoPrivacy):
        return None
    return prior.source if isinstance(prior, Prior) else prior


def require_draws(seed: int, device: Device) -> None:
    """Raise ValueError unless random numbers can be drawn from ``seed`` on ``device``."""
    if not 0 <= seed < 2**63 - 1:
        raise ValueError(f"expected a seed from 0 to 2**63 - 2, got {seed}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"expected a device that is here, such as 'cpu', got {device!r}: {error}"
        ) from error


def _require_nothing_held(asked: Question) -> None:
    """Refuse a predictor or a prior in which the examples themselves stand.

    Of a Gaussian it is the laws whose tensors are used: the bound pays for the posterior's random weights alone, and
    examples in the prior's mean, in a weight of deviation 0 or in a buffer are free of charge. A test set pays for
    nothing.
    """
    law, prior = asked.law, asked.prior
    for whose, given, data in (
        ("the bound's", asked.given[0], asked.data),
        ("the test set's", asked.given[1], asked.test),
    ):
        if data is None:
            continue
        held: Any = nn.Module()
        held.network = given.model if isinstance(given, Objective) else asked.network
        paid = [*getattr(law, "means", ())]
        match law:
            case LocalGibbs() | Point():  # in whose place are the chain's
                paid = [name for name, _ in held.network.named_parameters()]
            case GaussianPosterior():
                means = {} if whose == "the bound's" else law.means
                laws: Any = {"posterior": {**law.buffers, **means}}
                if isinstance(prior, Prior):
                    laws["prior"] = {**prior.law.buffers, **prior.law.means}
                held.laws = {
                    name: {key: each.detach() for key, each in own.items()}
                    for name, own in laws.items()
                }
            case UndrawnHeads():  # the bound pays for the Gaussians around
                held.law = law.law
            case _:
                held.law = law
        holdings = Holdings(held, paid=[f"network.{name}" for name in paid])
        for block in data.blocks():
            hashes = data.rows.inputs if block is data.inputs else None
            holdings.require_none(block, hashes=hashes, whose=whose)
