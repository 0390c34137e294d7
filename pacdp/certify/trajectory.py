"""Certificates of chains by what their steps cost: whether the chain has converged does not matter.

Each step adds Gaussian noise to a sum of gradients over the records, and what it released may be used on the same
records at a price of Λ nats:

    R(w) ≤ kl⁻¹(R̂(w), Λ/n)                                        the weights themselves
    R(Q) ≤ kl⁻¹(R̂(Q), (KL(Q‖P) + ln ξ(n) + Λ)/n)                  any Q, with P = N(w, s² I) as prior

The second holds for all Q at once, also for one that was trained on from w without any noise or clipping. Λ is

- of a chain with clipped gradients, its accounted privacy (:mod:`pacdp.step.langevin`), or for the weights the smaller
  price of noisy sums over secret Poisson batches;
- of a chain that kept what it added up, the least of α V/2 + (α/(α-1)) ln(1/failure_prob) over a fixed grid of α, each
  order of which is paid for, where V adds up the squared norms of all that the records added to the sums, each over
  the variance of its step's noise. The weights then pay for ln ξ(n) too.

Both are in "Noisy sums" of docs/guarantees.md. Where the data name people and norms were kept, people are the records:
n counts them, what one adds to a sum is the mean of all their gradients, and R is the risk for a new person.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

import bounds
from bounds import _check
from bounds.accounting import Composed, Event, Gaussian
from bounds.hypotheses import Hypothesis, declared, proved
from pacdp.algorithms import KINDS, NOT_LISTED, SGHMC, SGLD, Chain, EntropySGD, build
from pacdp.certify.evidence import Settings, evidence_of
from pacdp.certify.examples import BoundSet, require_kind
from pacdp.certify.networks import released_certificate
from pacdp.certify.outputs import answers_of, error_share, require_logits
from pacdp.certify.priors import NOISE_OF_THE_RUN, NoisySum, Source
from pacdp.certify.reading import Seen
from pacdp.chains import Keys, run_chains
from pacdp.data import Dataset
from pacdp.losses import Loss, bounded_cross_entropy
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior
from pacdp.store.record import Values
from pacdp.trials.buffers import Holdings
from pacdp.trials.reachable import require_all_named

START_OF_THE_RUN = "the run, whose first weights are drawn from its seed"
"""Who vouches for the first weights of a chain."""


def poisson_sums(event: Event, *, whose: str, noise: str) -> bounds.PoissonSum:
    """The price of what ``event`` released, each step one sum of clipped contributions over a secret Poisson batch.

    Args:
        whose: what shows that noise enters each sum, that contributions are clipped, and that the schedule is fixed.
        noise: who vouches for noise and batches.

    Raises:
        ValueError: a step of the event is no such sum.
    """
    known = (
        *_of_noisy_sums(
            f"{whose}: noise is added to each sum, and the rest computes with it",
            f"{whose}, of which step sizes and noise scales are functions",
            noise=noise,
            start=START_OF_THE_RUN,
        ),
        declared("batches secret and Poisson", noise),
        proved("contributions bounded", f"{whose}: each contribution is clipped"),
    )
    return bounds.PoissonSum(event=event, hypotheses=known)


def noisy_sums_event(settings: Chain, steps: int) -> Event:
    """The sums that ``steps`` steps release, in order, with noise in units of the sum of the records' gradients.

    Formal guarantee: the weights after each step, and all that is computed from them, are a function of these noisy
    sums and of numbers that no record enters, if batches and first weights are such numbers. Rounding of the sums is
    not accounted for.

    Raises:
        ValueError: the noise of these chains enters otherwise, may do so, or is missing in a step.
    """
    if type(settings) not in KINDS:
        raise ValueError(NOT_LISTED.format(settings.name))
    noises = settings.noise_path(steps).noise_multipliers(settings.batch_size)
    return Composed(events=tuple(Gaussian(noise_multiplier=float(one)) for one in noises))


def realised_price(
    settings: Chain,
    norms: Float[Tensor, " gradients"] | None,
    *,
    steps: int,
    n: int,
    noise: str = NOISE_OF_THE_RUN,
    start: str = START_OF_THE_RUN,
) -> bounds.RealisedSum:
    """The price of the weights after ``steps`` steps on ``n`` records, from the norms kept at every gradient.

    ``n`` counts the records whose squared norms were added up: people, where the data named them.

    Formal guarantee: that of :func:`bounds.noisy_sum_realised`, if what the price says is known of the run is true.

    Raises:
        ValueError: norms are missing or more than there were gradients, one is negative or NaN, gradients were clipped,
            or as for :func:`noisy_sums_event`.
    """
    gradients = steps * settings.gradients_per_step
    kept = 0 if norms is None else len(norms)
    if norms is None or kept != gradients:
        raise ValueError(
            f"norms must hold one number for each of the {gradients} gradients that are paid for, got {kept}: what was "
            "not kept cannot be paid for; train again with keep_norms"
        )
    if settings.clip_norm is not None:
        raise ValueError(
            "batches of a clipped chain are secret, where the norms of all records count and not those of the sampled "
            "ones: certify it by its accounted privacy"
        )
    drawn = "batches drawn without the records"
    batches = declared(drawn, "the run, whose batches are drawn from its seed")
    if settings.every_record:
        batches = proved(drawn, "the settings: every record is in every batch")
    each = f"the run, which kept one sum for each of its {gradients} gradients"
    known = (
        *_of_noisy_sums(
            f"the settings of {settings.name}: noise is added to each sum of gradients, and the rest computes with "
            "that",
            "the settings, of which step sizes and noise scales are functions",
            noise=noise,
            start=start,
        ),
        batches,
        declared("norms of all records kept", f"{each}; pacdp verify with data takes some again"),
    )
    return bounds.noisy_sum_realised(
        event=noisy_sums_event(settings, steps),
        squared_norms=norms.tolist(),
        records=n,
        hypotheses=known,
    )


def _of_noisy_sums(sums: str, schedule: str, *, noise: str, start: str) -> Iterator[Hypothesis]:
    """What both prices take for true, and who shows it or vouches for it."""
    yield proved("records enter by noisy sums", sums)
    yield declared("noise secret or independent", noise)
    yield proved("schedule blind to the records", schedule)
    yield declared("first weights independent", start)


def weights_at(
    source: Source, *, risk: float, examples: BoundSet, failure_prob: float, fixed: Settings
) -> bounds.Certificate:
    """Weights as they are, of this error on ``examples``, at the price of where they came from."""
    made = released_certificate(
        risk,
        n=examples.units,
        price=source.price,
        failure_prob=failure_prob,
        measures=examples.risk(),
    )
    return evidence_of(source, examples, None, fixed).on(made)


def around(data: Objective, weights: Float[Tensor, " dim"], *, std: float) -> GaussianPosterior:
    """N(weights, std² I)."""
    means = data.layout.views(weights)
    return GaussianPosterior(
        means=means, stds={name: mean.new_tensor(std) for name, mean in means.items()}
    )


def error_of(weights: Float[Tensor, " dim"], data: Objective, records: BoundSet) -> float:
    """The share of errors, or where people are the records the mean of their own shares, rounded up."""
    if records.people is not None:
        return seen_of(weights, data).error
    (risks,) = data.risks(weights[None])
    return error_share(risks.errors, risks.n)


def seen_of(weights: Float[Tensor, " dim"], data: Objective) -> Seen:
    """What the weights did on the examples of people."""
    labels, examples = data.examples[1].cpu(), BoundSet.of_records(data)
    answers = answers_of(data.logits(weights).cpu(), labels)
    return Seen(n=examples.n, models={"weights": answers}, labels=labels.numpy(), people=examples.people,
                rows=BoundSet.behind(data).rows)  # fmt: skip


class Certified(NamedTuple):
    """A network that paid for its training, and what it certifies on the examples that it was trained on."""

    weights: dict[str, Tensor]
    """By the names of the network's parameters."""
    certificate: bounds.Certificate
    norms: Float[Tensor, " gradients"]
    """Σ_i ‖∇ℓ_i‖² of every step, over examples or people, of which the price was made."""


@torch.autocast("cpu", enabled=False)
@torch.inference_mode(False)  # which ends torch.no_grad() too
def train_certified(
    model: nn.Module,
    data: Dataset,
    *,
    settings: SGLD | SGHMC | EntropySGD,
    steps: int,
    loss: Loss | None = None,
    failure_prob: float = 0.05,
    seed: int = 0,
) -> Certified:
    """Train a network of one's own on every example with noise, and certify the weights that it ends with.

    Where ``data`` name people, they are the records, and the certificate is about the risk for a new person.

    Formal guarantee: that of :func:`realised_price`, if the network's first weights, ``settings``, ``loss``, ``steps``
    and ``seed`` were fixed without the examples. Weights of an earlier call on them were not.

    Args:
        model: the network, in eval mode, all of whose parameters are trained; it is not changed.
        settings: how to move; batch_size, keep_norms and every_record are set here.
        loss: bounded; by default the cross-entropy up to 8.

    Raises:
        ValueError: frozen parameters or weights that are none, batch statistics, probabilities in place of logits,
            settings whose steps are no sums with noise, or as for :class:`Objective`.
        Diverged: a weight is not finite.
    """
    if not isinstance(data, Dataset):
        raise ValueError(
            f"expected data to be a pacdp.data.Dataset, got {type(data).__name__}: pass pacdp.data.Dataset(name=..., "
            "inputs=..., labels=..., classes=...) of float32 and int64 NumPy arrays"
        )
    kinds = {"model": (model, nn.Module), "settings": (settings, SGLD | SGHMC | EntropySGD),
             "steps": (steps, int), "loss": (loss, Loss | None), "seed": (seed, int)}  # fmt: skip
    for name, (given, kind) in kinds.items():
        require_kind(name, given, kind)
    _check.count(steps=steps)
    _check.open_probability(failure_prob=failure_prob)
    noisy_sums_event(settings, 1)  # before work is lost
    named = [name for name, _ in model.named_parameters()]
    if frozen := [name for name, each in model.named_parameters() if not each.requires_grad]:
        raise ValueError(
            f"model must have no frozen parameters, got requires_grad=False of {frozen[0]}, where every parameter gets "
            "noise and is paid for: make them buffers, or certify a head on their features"
        )
    require_all_named(model)
    Holdings(model, paid=named).require_none(data.inputs)
    whole: Values = {"batch_size": data.n, "keep_norms": True, "every_record": True}
    settings, fixed = replace(settings, **whole), Settings.declared()
    loss = loss or bounded_cross_entropy(classes=data.classes, max_loss=8.0)
    objective = Objective(model, loss, data, **whole)
    require_logits(objective.logits(objective.weights()[0]))
    sampler = build(settings, objective)
    state, norms = sampler.init(objective.weights()), list[Tensor]()
    for part in run_chains(sampler, state, Keys.derive([seed]), until=steps, chunk=steps):
        state, norms = part.state, [one for one in (*norms, part.squared_norms) if one is not None]
    kept = torch.cat(norms, dim=1)[0]
    start = "the caller, whose network came with its first weights: no training on these examples made them"
    examples = BoundSet.of_records(objective)
    price = realised_price(settings, kept, steps=steps, n=examples.units, start=start)
    made = weights_at(
        NoisySum(price=price, unit=examples.unit),
        risk=error_of(state.weights[0], objective, examples),
        examples=examples,
        failure_prob=failure_prob,
        fixed=fixed,
    )
    weights = {
        name: view.clone() for name, view in objective.layout.views(state.weights[0]).items()
    }
    return Certified(weights, made, kept)
