"""Reports of certificates to show: one made by hand with something of every kind, and real ones, small."""

from dataclasses import replace

from bounds import (
    FailureBudget,
    Independent,
    PureDP,
    declared,
    gibbs_risk_upper,
    kl_chernoff,
    maurer,
    overall_certificate,
    proved,
    unproved,
)
from bounds.printed import dp_pac_bayes_2018
from pacdp.certify import Measured, Refusal, Report

CLINIC = "the clinic, which drew its patients at random"
STATIONARY = unproved("chain stationary", "nothing shows that the chain has reached its target")
PRIVATE = PureDP(epsilon=0.01, adjacency="replace-one", status="approximate accountant")
BELOW = 0.35
"""The measured test error of the randomised predictor, above its rigorous certificate."""


def handmade():
    """A report with rigorous, optimistic and vacuous certificates, examples and people, costs of many kinds."""
    risk = gibbs_risk_upper(mean=0.2, draws=1000, failure_prob=0.01)
    sampled = overall_certificate(
        risk=risk,
        budget=FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.03),
        bound=lambda *, risk, failure_prob: maurer(risk=risk, kl_nats=30.0, n=1437, failure_prob=failure_prob),
    )
    how = {"n": 1437, "failure_prob": 0.05}
    optimistic = dp_pac_bayes_2018(risk=0.0856, kl_nats=1.4, epsilon=0.001, **how)
    people = kl_chernoff(risk=0.1, n=40, failure_prob=0.05, price=Independent())
    people = people.resting_on(declared("records independent", CLINIC, "person"))
    vacuous = maurer(risk=0.5, kl_nats=1e6, **how)
    free = declared("prior saw none of these rows", "whoever fixed the prior")
    drawn = proved("draws independent", "draws keyed by seed, pass and example")
    made = (
        replace(sampled, measures="0-1 risk").resting_on(free, drawn),
        replace(optimistic, of="Gibbs classifier", measures="0-1 risk").resting_on(STATIONARY),
        replace(people, of="weights", measures="0-1 risk of a new person"),
        replace(vacuous, of="ensemble", measures="ECE"),
    )
    return Report(
        route="gibbs",
        examples=1437,
        **how,
        certificates=made,
        refusals=(Refusal(name="H-bound", reason="there is no chain"),),
        measured=tuple(
            Measured(of=of, on=on, loss="zero-one", mean=mean, errors=errors, n=n)
            for of, on, mean, errors, n in (
                ("randomised", "bound", 0.2, None, 1437),
                ("randomised", "test", BELOW, 126, 360),
                ("Gibbs classifier", "test", 0.09, None, 360),
            )
        ),
    ).to_dict(subject={"checkpoint": "run/checkpoint.safetensors", "step": 45}, provenance={"commit": "0" * 40})


"""Assessments by their route, each of a small network on digits."""
