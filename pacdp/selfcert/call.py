"""``pacdp.self_certify``: split, train, certify by several routes, and return the smallest certificate, paid for."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import nn

import bounds
from bounds import _check
from bounds.numbers import percent
from pacdp.backprop.fit import FitSettings
from pacdp.certify.evidence import FIXED, equal_inputs
from pacdp.certify.examples import Device, python_number, require_kind
from pacdp.certify.routes import require_draws
from pacdp.compress.learner import is_estimator, unfitted
from pacdp.errors import Diverged, naming
from pacdp.models import require_shapes
from pacdp.predictions.examples import require_plain_names
from pacdp.predictions.report import Refusal, Report, Reported
from pacdp.selfcert.examples import Given, given, split
from pacdp.selfcert.plan import (
    EXPECTED_ERROR,
    HELD_OUT,
    NOISY,
    PAC_BAYES,
    ROUTES,
    RoutePlan,
    best_train_size,
    plan_routes,
)
from pacdp.selfcert.predictors import Train, first_error, is_network
from pacdp.selfcert.routes import CARRY_OUT, Task, Tried, reason_against
from pacdp.store.record import Values, record
from pacdp.trials import Unwritten, later_answers, twin


@record(eq=False)
class SelfCertified(Reported):
    """A predictor that comes with a certificate, the smallest of those that were tried.

    Formal guarantee: the error of ``predict`` on a new record exceeds ``certificate.value`` with probability at most
    ``certificate.failure_prob`` over the records and all random numbers, if the hypotheses that the certificate names
    are true ("Paying for the choice of a route" in docs/guarantees.md).

    Attributes:
        report: the certificate, those of the routes behind it, and the ledger: a share for each route that was tried,
            those that came to nothing too. What was not tried, or came to nothing, is refused there with its reason.
        tried: each route with its own certificate.
        predictor: what predicts.
        chosen: the name of the route that it came from.
        estimate: what other splits would have promised a held-out count, from the error that was measured; None where
            no held-out count was made.
        train: records in the training part of the split.
    """

    tried: tuple[Tried, ...]
    predictor: Any
    chosen: str
    estimate: RoutePlan | None
    train: int

    @property
    def certificate(self) -> bounds.Certificate:
        """The smallest, at the failure probability of all that were tried together."""
        return self.report.certificates[0]

    def predict(self, inputs: Any) -> np.ndarray:
        """A class for each input, by the names that the labels had.

        A network is given numbers of the kind that was certified, whatever kind these are.
        """
        return np.asanyarray(self.predictor.predict(inputs))

    @property
    def predict_proba(self) -> Any:
        """A function from inputs to [n, classes]; AttributeError where the predictor has none."""
        return self.predictor.predict_proba


_FEW = 5000  # records up to which compression is among the fast routes
_WORDS = ("fast", "all")
_KEPT = (
    "train leaves something in {}: if another call on these data begins with it, what that says is not covered, since "
    "it was trained on here, so make it anew in train"
)
_FIXED = bounds.declared(
    FIXED,
    "the caller: the model as it was given, weights and fitted parts included, training, settings and seed",
)
_WEIGHTS = {HELD_OUT: 4.0}  # beside 1 for each other route, because it is the smallest most often


@torch.inference_mode(False)  # which ends torch.no_grad() too, since models are trained here
def self_certify(
    model: Any,
    data: Any,
    *,
    failure_prob: float = 0.05,
    people: Any = None,
    routes: str | Sequence[str] = "fast",
    train_share: float | None = None,
    expected_error: float | None = None,
    train: Train | None = None,
    settings: FitSettings | None = None,
    seed: int = 0,
    device: Device = "cpu",
) -> SelfCertified:
    """Split the data, train, and return the predictor with the smallest certificate, the choice paid for.

    >>> found = pacdp.self_certify(SVC(), (X, y))
    >>> print(found)  # the certificate in a sentence, then what went where
    >>> found.predict(X_new)

    Formal guarantee: that of :class:`SelfCertified`: each route that is tried has its own share of ``failure_prob``,
    fixed before any label is looked at.

    Args:
        model: an estimator like those of scikit-learn, a torch module with one logit a class, or a list of these or
            {name: model}: all of them are tried, and all are paid for. None is changed. A module that has fit and
            predict is called by these.
        data: (inputs, labels), arrays, tensors or a data frame; a ``pacdp.data.Dataset``; or a torch Dataset of pairs.
            A network is given arrays as floats of 32 bits, and whole numbers in a tensor, such as words, as they are.
        failure_prob: of everything together.
        people: whose each example is, where somebody has several: the split is by person, people are counted, and a
            search with folds by group is told.
        routes: "fast", "all", or some of ``pacdp.selfcert.plan.ROUTES``. Fast are the held-out count,
            PAC-Bayes of networks and, on up to 5,000 records, compression of estimators.
        train_share: of the records, for training; by default the best for a held-out count at ``expected_error``, and
            at least half.
        expected_error: how often the predictor is expected to err, by default 0.05; only the split follows from it, so
            that it goes without ``train_share``.
        train: trains a torch module in place on (module, inputs, labels), and refers to no others. Rows, all labels
            and data sets that give an example of the data are looked for in its closure, defaults, object and globals,
            and in those of the module; by default :func:`pacdp.backprop.fit`.
        settings: of the default training of a torch module; fixed without a look at the data.
        seed: of the split, of training and of all draws; fixed without a look at the data.
        device: where a torch module is trained.

    Raises:
        ValueError: something does not fit, training did not end with numbers, or no route came to a certificate.
        DataError: over half of the inputs on one side of the split stand on the other side too.
    """
    require_kind("settings", settings, FitSettings | None)
    models = _models(model, train, settings)
    share = 0.5 if train_share is None else train_share
    if train_share is not None and expected_error is not None:
        raise ValueError(
            "expected_error says the split, as train_share does, and would be ignored: leave one of them out"
        )
    expected_error = EXPECTED_ERROR if expected_error is None else expected_error
    _check.open_probability(failure_prob=failure_prob, train_share=share)
    seed = python_number(seed)
    require_kind("seed", seed, int)
    require_draws(seed, device)
    if torch.device(device).type != "cpu" and not _modules(models):
        raise ValueError(
            "device is where torch modules are trained, and the model is none: leave it out"
        )
    examples = given(data, people=people)
    n = examples.units
    jobs, refused = _jobs(models, examples, routes)
    if (train, settings) != (None, None) and {route for route, _ in jobs.values()} == {NOISY}:
        raise ValueError(
            f"train and settings are of other routes than {NOISY!r}, which would ignore them: leave them out"
        )
    best = best_train_size(n=n, expected_error=expected_error, failure_prob=failure_prob)
    size = max(best, n // 2) if train_share is None else round(train_share * n)
    size = min(n - 2, max(2, size))  # two records for each side in any case
    learning, bound = split(examples, train=size, seed=seed)
    shared = equal_inputs(learning.hashes, bound.hashes)
    if len(set(learning.labels.tolist())) < 2:
        raise ValueError(
            f"the training part of {learning.n} examples has one class only: gather more examples"
        )
    weights = {job: _WEIGHTS.get(route, 1.0) for job, (route, _) in jobs.items()}
    budget = bounds.FailureBudget.split(failure_prob, **weights)
    tasks = {
        name: Task(
            name=name, model=one, everything=examples, learning=learning, bound=bound, shared=shared,
            settings=settings, train=train, seed=seed, device=device
        )
        for name, one in models.items()
    }  # fmt: skip
    before = None if train is None else Unwritten(train, around=True)
    tried = [
        _tried(tasks[name], job, route, failure_prob=budget.share(job, 1), alone=len(models) == 1)
        for job, (route, name) in jobs.items()
    ]
    _require_unmoved(tried, bound)
    refused += [Refusal(name=one.name, reason=one.reason) for one in tried if one.reason]
    found = {one: one.certificate for one in tried if one.certificate is not None}
    if not found:
        why = "; ".join(f"{one.name}: {one.reason}" for one in tried)
        raise ValueError(f"no route came to a certificate: {why}")
    chosen = min(found, key=lambda one: found[one].value)  # as best_of: the first of least value
    smallest = bounds.best_of(list(found.values()), budget=failure_prob)
    if lost := [budget.share(one.name, 1) for one in tried if one.certificate is None]:
        smallest = smallest.charged("routes that came to nothing", math.fsum(lost))
    estimate = _other_splits(tried, n, failure_prob=budget.share(chosen.name, 1))
    halved = {HELD_OUT, PAC_BAYES} & {one.route for one in tried}
    made = {one.name: place for place, one in enumerate(found, start=1)}
    told = [{**one.to_dict(), "certificate": made.get(one.name)} for one in tried]
    kept = [] if before is None else before.changed()
    left = [_KEPT.format(", ".join(kept[:3]))] if kept else []
    of_rows = (
        *examples.remarks,
        *_brought(models, examples, device),
        *left,
        *(f"{one.name}: {one.by}" for one in shared),
    )
    report = Report.of(
        [smallest, *found.values(), *refused], examples, route="self-certified", failure_prob=failure_prob,
        budget=budget, remarks=(*of_rows, *_remarks(budget, n, size if halved else None, estimate)),
        details={"chosen": chosen.name, "train": size, "tried": told, "estimate": estimate and estimate.to_dict()},
    )  # fmt: skip
    return SelfCertified(
        report=report, tried=tuple(tried), predictor=chosen.predictor, chosen=chosen.name, estimate=estimate,
        train=size
    )  # fmt: skip


def _remarks(
    budget: bounds.FailureBudget, n: int, train: int | None, estimate: RoutePlan | None
) -> Iterator[str]:
    """What was done with how many records, who pays for the choice, and what other splits would have promised.

    Routes that hold nothing out train on no part that was drawn: ``train`` is None where there are no others.
    """
    if train is not None:
        yield f"of {n:,} records, {train:,} were drawn by the seed for training, without a look at any label"
    if len(budget.spent) > 1:
        shares = ", ".join(f"{name}: {amount:.4g}" for name, amount in budget.spent.items())
        yield (
            f"the smallest of {len(budget.spent)} was chosen by looking at all of them, and the failure probability "
            f"{budget.total:g} pays for that ({shares})"
        )
    if estimate is not None:
        said = "; ".join(
            f"{one.split}, {one.train:,} for training: {float(percent(one.value)):g}%"
            for one in estimate.routes
            if one.route == HELD_OUT
        )
        yield (
            f"with other splits a held-out count would have promised about this: {said}, if the error that was "
            "measured falls with the square root of the training part"
        )


def _tried(task: Task, job: str, route: str, *, failure_prob: float, alone: bool) -> Tried:
    """What a route came to; why it came to nothing, where others may still come to something.

    Raises:
        ValueError: training diverged, or whatever a count of the only model's errors raises.
    """
    fatal = alone and route == HELD_OUT
    try:
        one = CARRY_OUT[route](task, failure_prob)
    except Exception as error:  # of a model that somebody else wrote: other routes are not lost
        diverged = isinstance(error, Diverged)
        if fatal and diverged:
            what = error.args[0].split(":")[0]
            raise ValueError(
                f"{task.name} diverged: {what}; lower the step size or scale the inputs"
            ) from error
        if fatal:
            raise
        what = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        why = "training diverged" if diverged else what + str(error).rstrip(".")
        return Tried(name=job, route=route, reason=why)
    assert one.certificate is not None
    return replace(one, name=job, route=route, certificate=one.certificate.resting_on(_FIXED))


def _brought(models: Mapping[str, Any], examples: Given, device: Device) -> Iterator[str]:
    """Which models answer much of the data right before they are trained, as those that were trained on them do."""
    usual = 1.0 - np.unique(examples.labels, return_counts=True)[1].max() / examples.n
    for name, model in models.items():
        error = first_error(model, examples, device=device)
        if error is not None and error < usual / 2:
            yield (
                f"{name} errs on {percent(error)}% of all examples as it was given: if it was trained on any of them, "
                "the certificate does not hold, so give it as it was before"
            )


def _require_unmoved(tried: Sequence[Tried], bound: Given) -> None:
    """Refuse predictors whose answers another fit changed after they were counted; raises ValueError."""
    for one in tried:
        if one.said is not None:
            with naming("predict"):
                again = twin(one.predictor).predict(bound.at(np.arange(bound.n)).inputs)
            why = (
                f"the predictor of {one.name} answers other than when its errors were counted: another fit changed it, "
                "so let fit keep what it learns in the object, and in no class or global variable"
            )
            later_answers(again, one.said, why)


def _models(model: Any, train: Train | None, settings: FitSettings | None) -> Values:
    """Models by name, each of a kind that can be trained."""
    if isinstance(model, Mapping):
        named = {str(name): one for name, one in model.items()}
        if len(named) < len(model):
            raise ValueError(
                f"model must have names that differ as text, got {', '.join(map(repr, model))}: call them otherwise"
            )
    elif isinstance(model, list | tuple):
        kinds = [type(one).__name__ for one in model]
        named = {f"{kind} {place + 1}" if kinds.count(kind) > 1 else kind: one
                 for place, (kind, one) in enumerate(zip(kinds, model, strict=True))}  # fmt: skip
    else:
        named = {"your model": model}
    if not named:
        raise ValueError("model must be at least one, got none: name what to train")
    require_plain_names(named)
    modules = _modules(named)
    for one in named.values():
        if isinstance(one, type) or not (isinstance(one, nn.Module) or is_estimator(one)):
            raise ValueError(
                f"model must be an object, a torch module or have fit and predict, got {one!r:.80}"
            )
    for one in modules:
        require_shapes(one, "model")
    for one in named.values():
        unfitted(one)  # of which there must be a copy, before anything is trained
    if train is None and not all(any(p.requires_grad for p in one.parameters()) for one in modules):
        raise ValueError("model must have parameters to train, got a module without any")
    if settings is not None and (train is not None or not modules):
        raise ValueError(
            "settings are of the default training of torch modules, which nothing here needs, and would be ignored: "
            "leave them out"
        )
    if train is not None and not callable(train):
        raise ValueError(
            f"train must be a function of (module, inputs, labels), got {type(train).__name__}"
        )
    if train is not None and not modules:
        raise ValueError(
            "train is for torch modules, and the model is none, or has fit and predict of its own, which are called"
        )
    return named


def _modules(models: Mapping[str, Any]) -> list[nn.Module]:
    """Those of the models that are trained here, and have no fit and predict of their own."""
    return [one for one in models.values() if is_network(one)]


def _jobs(
    models: Mapping[str, Any], examples: Given, routes: Any
) -> tuple[dict[str, tuple[str, str]], list[Refusal]]:
    """Route and model by the name of what is tried, and what is not tried, and why; no label is looked at."""
    listed = isinstance(routes, Collection) and not isinstance(routes, str)
    asked: list[Any] = list(routes) if listed else [routes]
    known = ROUTES if listed else (*ROUTES, *_WORDS)
    if not asked or any(one not in known for one in asked) or len(set(asked)) < len(asked):
        raise ValueError(
            f"routes must be 'fast', 'all' or some of {', '.join(ROUTES)}, each once, got {routes!r}"
        )
    jobs, refused = dict[str, tuple[str, str]](), list[Refusal]()
    for route, name in product(ROUTES, models):  # those that show a model everything come last
        job = route if len(models) == 1 else f"{route}, {name}"
        left_out = _left_out(route, models[name], examples, asked)
        if why := left_out or reason_against(route, models[name], examples):
            refused.append(Refusal(name=job, reason=why))
        else:
            jobs[job] = (route, name)
    if not jobs:
        why = "; ".join(f"{one.name}: {one.reason}" for one in refused)
        raise ValueError(f"no route can be tried: {why}")
    return jobs, refused


def _left_out(route: str, model: Any, examples: Given, asked: Collection[str]) -> str | None:
    """Why a route that could be tried is not, by what was asked."""
    if not {*asked} & {*_WORDS}:
        return None if route in asked else "it was not asked for"
    if "all" in asked or route in (HELD_OUT, PAC_BAYES):
        return None
    if route == NOISY:
        return (
            "noise that makes it pay makes networks of this kind err more often: ask for it by name"
        )
    if is_estimator(model) and examples.units <= _FEW:
        return None
    return f"it trains many times, which takes long for networks and beyond {_FEW:,} records: ask for it by name"


def _other_splits(tried: Sequence[Tried], n: int, *, failure_prob: float) -> RoutePlan | None:
    """The plan at the error that the best held-out count measured; no certificate rests on it."""
    counted = [
        (one.certificate.value, one.error * (one.train / n) ** 0.5)
        for one in tried
        if one.route == HELD_OUT and one.certificate is not None and one.error is not None
    ]
    if not counted:
        return None
    error = min(1.0, min(counted)[1])
    return plan_routes(n=n, expected_error=error, failure_prob=failure_prob)
