"""The routes that one call tries: each gives a predictor and a certificate at its own share of the failure probability.

What a route does is a function of its share, of the settings and of the examples that its theorem lets it see; no route
looks at what another one found.
"""

import copy
import math
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import nn

import bounds
from pacdp.algorithms import SGLD
from pacdp.backprop import PosteriorSettings, train_posterior
from pacdp.backprop.fit import Examples, FitSettings, fit
from pacdp.certify import BoundSet, DataFree, MonteCarlo, Prior, certify, train_certified
from pacdp.certify.examples import Device
from pacdp.certify.gaussian import one_draw_weights
from pacdp.certify.reading import AtWeights
from pacdp.compress import Estimator, Groups, Stop, Torch, compress
from pacdp.compress.learner import is_estimator, unfitted
from pacdp.data import DataError, Dataset
from pacdp.data.places import relatives
from pacdp.errors import naming
from pacdp.losses import bounded_cross_entropy
from pacdp.posterior import GaussianPosterior
from pacdp.predictions import certify_predictions
from pacdp.predictions.columns import coded
from pacdp.selfcert.examples import Given, taken
from pacdp.selfcert.plan import COMPRESSION, HELD_OUT, NOISY, PAC_BAYES
from pacdp.selfcert.predictors import (
    Net,
    Train,
    class_names,
    fitted,
    is_network,
    places,
    tensor,
    trained,
)
from pacdp.store.record import Values, record
from pacdp.trials import own_answers
from pacdp.trials.buffers import Holdings, where_whole
from pacdp.trials.reachable import are_numbers, numbers_of

_LEAST_STEPS = 2000
_PRIOR_STD, _POSTERIOR = 0.01, PosteriorSettings(steps=200, step_size=0.002)
"""The standard deviation of every weight in the prior of the PAC-Bayes route, and how its posterior is trained."""
_MAX_LOSS = 4.0
"""Where the cross-entropy of the PAC-Bayes and noisy-gradient routes is bounded."""
_ROUNDS, _GROUP_SHARE = 40, 0.005
"""The most rounds of compression, and how many records it picks in each, as a share of all; five at least."""
_NOISY_STEPS, _NOISY_STEP_SIZE, _NOISY_TAU = 200, 0.5, 20.0
"""Steps and step size of the noisy-gradient route, and its inverse temperature over √n."""


@record(eq=False)
class Tried:
    """What a route came to.

    Attributes:
        name: the route, and the model where there are several.
        certificate: at the route's own share of the failure probability; None where the route came to nothing.
        error: measured on the records of the bound.
        train: records that training saw.
        reason: why there is no certificate.
        predictor: what the certificate is about.
        said: what it answered for the records whose errors were counted, where they were.
    """

    name: str = ""
    route: str = ""
    certificate: bounds.Certificate | None = None
    error: float | None = None
    train: int = 0
    reason: str = ""
    predictor: Any = field(default=None, repr=False)
    said: Any = field(default=None, repr=False)

    @property
    def bound(self) -> int:
        """The records that the certificate rests on."""
        return int(self.certificate.inputs["n"]) if self.certificate else 0

    def to_dict(self) -> Values:
        """JSON values: everything but predictor and certificate."""
        names = ("name", "route", "error", "train", "bound", "reason")
        return {name: getattr(self, name) for name in names}


def fitting(n: int) -> FitSettings:
    """The training of a network on n examples where nobody says another: ten epochs and 2,000 steps or more."""
    size = 128 if n >= 5000 else 32
    epochs = max(10, math.ceil(_LEAST_STEPS / math.ceil(n / size)))
    return FitSettings(epochs=epochs, batch_size=size, step_size=2e-3)


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One model and the examples, split: what all routes share.

    Attributes:
        name: what the model is called in certificates.
        everything: all examples, for routes that hold nothing out.
        learning: the training part.
        bound: the others.
        shared: what a count on them takes for true of inputs that stand on both sides.
    """

    name: str
    model: Any
    everything: Given
    learning: Given
    bound: Given
    shared: tuple[bounds.Hypothesis, ...]
    settings: FitSettings | None
    train: Train | None
    seed: int
    device: Device

    @cached_property
    def predictor(self) -> Any:
        """The model trained on the training part; trained once."""
        _require_unheld(self.train, self.model, self.everything, self.bound)
        if is_estimator(self.model):
            return fitted(self.model, self.learning, seed=self.seed)
        how = self.settings or fitting(self.learning.n)
        return trained(self.model, self.learning, train=self.train, settings=how, seed=self.seed,
                       device=self.device)  # fmt: skip

    def about(self, made: bounds.Certificate, of: str, hypothesis: Any) -> bounds.Certificate:
        """The certificate of ``of``, with what the split shows; the caller vouches for what a model brings along."""
        by = (
            "whoever made the model, for what it brings along; of training, the split, which is drawn by places from "
            "a seed before training: no example or person is on both sides"
        )
        by += "" if self.shared else ", as no input is by row hashes"
        return replace(made, of=of).resting_on(bounds.declared(hypothesis, by), *self.shared)

    @cached_property
    def dataset(self) -> tuple[Dataset, np.ndarray]:
        """All examples as numbers with numbered classes, and the names of the classes."""
        given = self.everything
        inputs, names = tensor(given.inputs).cpu().float(), given.classes
        labels = places(given.labels, names)
        if isinstance(self.model, nn.Module):
            names, labels = class_names(given, self.model, inputs, device=self.device)
        numbers = inputs.numpy()
        return Dataset("your data", numbers, labels, len(names), given.people, given.unit), names


def reason_against(route: str, model: Any, examples: Given) -> str | None:
    """Why a route cannot be tried with such a model and such data, before any label is looked at; None if it can."""
    network = isinstance(model, nn.Module)
    if route == PAC_BAYES and not is_network(model):
        return "it needs weights with a Gaussian law, and the model is no torch module, or has a fit of its own"
    if route == NOISY and not network:
        return "it needs gradients, and the model is no torch module"
    if route == COMPRESSION and examples.people is not None:
        return "where people are the records it bounds another risk, the share of people with an example in error"
    if route == NOISY and any(
        isinstance(each, nn.modules.batchnorm._BatchNorm) for each in model.modules()
    ):
        return (
            "BatchNorm mixes the examples of a batch, so that no example has a gradient of its own"
        )
    if route in (COMPRESSION, NOISY) and not are_numbers(examples.inputs):
        return "it needs inputs that are one array of numbers"
    return None


def held_out(task: Task, failure_prob: float) -> Tried:
    """The errors on the part that training did not see, counted."""
    made, bound = task.predictor, task.bound
    if isinstance(made, Net):
        Holdings(made.function).require_none(tensor(bound.inputs))
    with naming("predict"):
        said, moved = own_answers(
            made, lambda one, at: np.asanyarray(one.predict(taken(bound.inputs, at))), bound.n
        )
    if said.shape != bound.labels.shape:
        raise ValueError(
            f"predict must give one class for each of {bound.n} examples, got shape {said.shape}"
        )
    named = coded(
        "predictions", said
    )  # plain names: what a stranger's array says of itself is not asked
    wrong = moved | (np.asarray(named.names)[named.codes] != bound.labels)
    report = certify_predictions(losses={"error": wrong}, people=bound.people, ask="error",
                                 failure_prob=failure_prob)  # fmt: skip
    count = replace(report.certificates[0], measures=f"0-1 risk{bound.new}")
    return Tried(
        certificate=task.about(count, task.name, "predictor saw none of these rows"),
        error=float(count.terms["empirical_risk"]), train=task.learning.units, predictor=made, said=said
    )  # fmt: skip


def pac_bayes(task: Task, failure_prob: float) -> Tried:
    """One network drawn from a Gaussian posterior, whose prior lies around the network of the training part."""
    centre, held = task.predictor, task.bound
    # a copy, since the held-out count's own stays where it is
    module, of, seed = copy.deepcopy(centre.function).to("cpu"), "one draw", task.seed
    labels = torch.from_numpy(places(held.labels, centre.names))
    bound = BoundSet(inputs=tensor(held.inputs).cpu(), labels=labels, people=held.people)
    law = GaussianPosterior.around(module, std=_PRIOR_STD)
    posterior = train_posterior(
        law, module, Examples(bound.inputs, bound.labels), objective=bounds.objectives.f_quad,
        loss=bounded_cross_entropy(classes=len(centre.names), max_loss=_MAX_LOSS),
        settings=_POSTERIOR, failure_prob=failure_prob, generator=torch.Generator().manual_seed(seed)
    )  # fmt: skip
    source = DataFree(description="the training part, which shares no example with the bound's")
    found = certify(posterior, bound, prior=Prior(law=law, source=source), network=module,
                    failure_prob=failure_prob, seed=seed, monte_carlo=MonteCarlo(passes=1))  # fmt: skip
    made = found.certificate(of=of, measures=bound.risk())
    weights = one_draw_weights(posterior, seed=seed)
    return Tried(
        certificate=task.about(made, f"{of} of {task.name}", "prior saw none of these rows"),
        error=found.error(of, "bound"), train=task.learning.units,
        predictor=Net(function=AtWeights(module, weights), names=centre.names, dtype=centre.dtype),
    )  # fmt: skip


def compression(task: Task, failure_prob: float) -> Tried:
    """The model trained on the few records that it picks itself, certified on all."""
    data, names = task.dataset
    _require_unheld(task.train, task.model, task.everything, task.everything)
    learner: Any = Estimator(estimator=task.model, classes=len(names))
    if not is_estimator(task.model):
        learner = Torch(
            network=task.model, train_network=task.train or _fit_in_place(task.settings)
        )
    groups = Groups(sizes=(max(5, round(_GROUP_SHARE * data.n)),))
    stop = Stop(no_errors_left=True, rounds=(_ROUNDS,))
    how: Values = {"groups": groups, "stop": stop, "failure_prob": failure_prob, "seed": task.seed}
    found = compress(learner, data, **how)
    if found.trace.best is None:
        raise ValueError("the records ran out before the learner was right on the others")
    return Tried(
        certificate=replace(found.certificate, of=f"{task.name}, compressed"),
        error=found.report.error("weights", "bound"), train=found.trace.best.picked,
        predictor=Net(function=found.network, names=names)
    )  # fmt: skip


def noisy(task: Task, failure_prob: float) -> Tried:
    """The network trained with noise on every record, certified on all of them."""
    (data, names), units = task.dataset, task.everything.units
    network = copy.deepcopy(task.model).cpu().eval()
    loss = bounded_cross_entropy(classes=len(names), max_loss=_MAX_LOSS)
    how = SGLD(tau=_NOISY_TAU * math.sqrt(units), step_size=_NOISY_STEP_SIZE)
    found = train_certified(network, data, settings=how, steps=_NOISY_STEPS, loss=loss,
                            failure_prob=failure_prob, seed=task.seed)  # fmt: skip
    buffers = {key: each.clone() for key, each in network.named_buffers()}
    made = found.certificate
    return Tried(
        certificate=replace(made, of=f"{task.name}, trained with noise"),
        error=float(made.terms["empirical_risk"]), train=units,
        predictor=Net(function=AtWeights(network, {**buffers, **found.weights}), names=names)
    )  # fmt: skip


CARRY_OUT = {HELD_OUT: held_out, PAC_BAYES: pac_bayes, COMPRESSION: compression, NOISY: noisy}
"""What carries each route out."""


def _require_unheld(train: Train | None, model: Any, everything: Given, bound: Given) -> None:
    """Refuse training that has rows of the bound, all labels or the data set at hand; raises DataError.

    Looked at is what the function, and the module that it is called with, refer to before it is called: closure,
    defaults, attributes, the object whose method it is, and global variables that are read, as to make a loader. Of an
    estimator it is what it brings along, such as examples to validate on.
    """
    sources, others = relatives(everything.source)
    if is_estimator(model):
        who, mine = "the model", [unfitted(model)]
    elif train is None:
        return
    else:
        who, mine = "train, or the model,", [train, model]
        others |= _makers(model)
    mend = "let it use the inputs and labels that it is called with, and no others"
    table = numbers_of(bound.inputs)
    forms = [] if table is None else [table]
    if is_network(model):
        forms = [tensor(bound.inputs), bound.inputs]  # in single precision, and as they were given
    for root in mine:
        holdings = Holdings(root, around=True, without=others)
        for rows in forms:
            holdings.require_unread(rows, who=who, what="the bound rests on", mend=mend)
        where = where_whole(root, everything.labels, sources, without=others)
        if where is not None:
            raise DataError(
                f"{who} refers to all labels, or to the data set that is certified on ({where.strip()}): {mend}"
            )


def _makers(module: nn.Module) -> set[int]:
    """The identities of what makes a module and its parts, which may ask the examples for a width."""
    kinds = {kind for one in module.modules() for kind in type(one).__mro__}
    return {id(vars(kind).get("__init__")) for kind in kinds}


def _fit_in_place(settings: FitSettings | None) -> Train:
    """The default training of the other routes, on what was picked."""
    return partial(_fit_network, settings or FitSettings(epochs=20, batch_size=64))


def _fit_network(
    settings: FitSettings, network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor
) -> None:
    generator = torch.Generator().manual_seed(0)
    made = fit(network, Examples(inputs, labels), settings=settings, generator=generator)
    network.load_state_dict(made.state_dict())
