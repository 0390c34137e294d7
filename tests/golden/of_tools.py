"""The calculators, the accountant of private training, audits, attacks, and measured calibration."""

from dataclasses import asdict

import numpy as np

from bounds import transfer_cost
from bounds.accounting import Event, SelfComposed
from pacdp import private
from pacdp.calibration import bca_interval, brier, percentile_interval, reliability_curve, summary
from pacdp.cli.calculator import Given, Goal, compare, plan_draws, plan_examples
from pacdp.cli.privacy import Question, answer
from pacdp.step.langevin import accounted_to_dict
from tests.golden.of_training import SAMPLERS
from tests.golden.records import Frozen, attempt, many


def calculators() -> Frozen:
    """``pacdp bound`` and ``pacdp privacy``."""
    base = {"risk": 0.05, "kl_nats": 20.0, "n": 2000, "failure_prob": 0.1, "inverse_temperature": 900.0}
    known = {
        "independent": {},
        "pure": {"epsilon": 0.02},
        "pure, add-remove": {"epsilon": 0.02, "adjacency": "add-remove"},
        "approximate": {"epsilon": 0.02, "delta": 1e-9},
        "gaussian": {"mu": 0.02, "adjacency": "add-remove"},
        "concentrated": {"rho": 2e-4},
        "two notions": {"mu": 0.02, "rho": 2e-4},
        "hybrid": {"mu": 0.02, "n_bound": 1500},
        "linear": {"lam": 1.5},
    }
    found: Frozen = {}
    for name, more in known.items():
        found |= many(f"compare/{name}", lambda m=more: compare(Given(**{**base, **m}))[0])
        found |= attempt(f"lacking/{name}", lambda m=more: sorted(compare(Given(**{**base, **m}))[1]))
        found |= attempt(f"plan/{name}", lambda m=more: plan_examples(Goal(**{**base, **m}, target=0.2)))
    for risk, target in ((0.02, 0.021), (0.0, 0.01), (0.3, 0.2)):
        found |= attempt(
            f"plan_draws/{risk},{target}",
            lambda a=(risk, target): plan_draws(risk=a[0], target=a[1], failure_prob=0.01),
        )
    questions = {
        "epsilon": Question(sample_rate=0.02, delta=1e-5, adjacency="add-remove", noise_multiplier=1.1, steps=200),
        "noise": Question(sample_rate=0.02, delta=1e-5, adjacency="replace-one", epsilon=1.0, steps=200),
        "neither": Question(sample_rate=0.02, delta=1e-5, adjacency="add-remove", steps=200),
    }
    for name, question in questions.items():
        found |= attempt(f"privacy/{name}", lambda q=question: _answer(q))
    return found


def _answer(question: Question) -> Frozen:
    made = answer(question)
    bracket = {"lower": made.bound.lower, "upper": made.bound.upper, "status": made.bound.status}
    return {**bracket, "scale": made.scale, "runs": made.runs, "attack": made.true_positive_rate}


def histories() -> Frozen:
    """What recorded mechanisms spent, of examples, of people and of chains; noise for a target."""
    runs = {
        "one": ((1.1, 0.05, 50),),
        "two": ((1.1, 0.05, 50), (3.0, 0.2, 7)),
        "full batch": ((5.0, 1.0, 9),),
        "none": (),
    }
    found: Frozen = {}
    for name, each in runs.items():
        history = private.joined(
            *(
                SelfComposed(event=private.sampled_step([noise], sample_rate=rate), count=steps)
                for noise, rate, steps in each
            )
        )
        for adjacency in ("add-remove", "replace-one"):
            at, where = {"delta": 1e-5, "adjacency": adjacency}, f"{name},{adjacency}"
            found |= attempt(f"epsilon/{where}", lambda h=history, a=at: private.epsilon(h, **a))
            found |= attempt(f"renyi/{where}", lambda h=history, a=at: private.epsilon_by_renyi(h, **a))
            found |= attempt(f"spent/{where}", lambda h=history, a=at: _spent(h, a))
            found |= attempt(f"claim/{where}", lambda h=history, a=adjacency: _claim(h, a))
    for name, schedule in (
        ("constant", private.Constant(value=1.0)),
        ("falling", private.Polynomial(initial=2.0, power=0.3)),
    ):
        made = private.calibrated(
            schedule, sample_rate=0.05, steps=40, target_epsilon=1.0, delta=1e-5, adjacency="add-remove"
        )
        found[f"calibrated/{name}"] = [float(made(step)) for step in (0, 1, 39)]
    for scales in ((3.0, 1.0), (2.0,)):
        found |= attempt(
            f"published/{scales}",
            lambda s=scales: (
                private.published_epsilon(
                    noise_scales=s, sample_rate=0.1, steps=100, selection_epsilon=0.1**0.5, delta=1e-3
                ).upper
            ),
        )
    for name, settings in SAMPLERS.items():
        found |= attempt(f"chain/{name}", lambda s=settings: _chain(s))
    return found


def _spent(history: Event | None, at: dict) -> Frozen:
    made = private.privacy_spent(history, **at)
    return {"lower": made.lower, "estimate": made.estimate, "upper": made.upper, "status": made.status}


def _claim(history: Event | None, adjacency: str) -> Frozen:
    made = private.privacy_claim(history, adjacency=adjacency)  # type: ignore[arg-type]
    cost = transfer_cost(privacy=made, n=500, failure_prob=0.05)
    return {"notion": made.notion, "adjacency": made.adjacency, "status": made.status, "nats": cost.nats}


def _chain(settings) -> Frozen:
    made = accounted_to_dict(settings.promise(500, 20))
    return {
        "mechanisms": made["mechanisms"],
        "mu": made["mu_central_limit"],
        "epsilons": [made["epsilon_add_remove"], made["epsilon_replace_one"]],
    }


def audits() -> Frozen:
    """Lower bounds on privacy parameters, membership attacks."""
    found: Frozen = {}
    for canaries, guesses, correct in ((100, 40, 40), (1000, 200, 150), (1000, 200, 100), (100, 40, 50)):
        where = f"{canaries},{guesses},{correct}"
        at = {"canaries": canaries, "guesses": guesses, "correct": correct, "failure_prob": 0.05}
        found |= attempt(f"epsilon/{where}", lambda a=at: private.epsilon_lower_bound(**a, delta=1e-5))
        found |= attempt(f"mu/{where}", lambda a=at: private.mu_lower_bound(**a))
    rng = np.random.default_rng(4)
    included = rng.random(300) < 0.5
    scores = rng.normal(size=300) + 2.0 * included
    found |= attempt("audit", lambda: _audit(private.audit_scores(scores, included, delta=1e-5)))
    found |= attempt("attack", lambda: asdict(private.evaluate_attack(scores, included, false_positive_rate=0.1)))
    return found


def _audit(made: private.AuditResult) -> list:
    return [made.epsilon_lower, made.mu_lower, made.failure_prob, made.canaries]


def measures() -> Frozen:
    """Calibration as measured: scores, bands, intervals."""
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(300, 4))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (rng.random((300, 1)) > np.cumsum(probabilities**1.3 / (probabilities**1.3).sum(1, keepdims=True), 1)).sum(
        1
    )
    found: Frozen = {}
    found |= attempt("summary", lambda: dict(summary(probabilities, labels)))
    for together in (False, True):
        found |= attempt(
            f"curve/{together}", lambda t=together: reliability_curve(probabilities, labels, simultaneous=t).columns()
        )
    for interval in (bca_interval, percentile_interval):
        found |= attempt(interval.__name__, lambda f=interval: _interval(f, probabilities, labels))
    return found


def _interval(interval, probabilities: np.ndarray, labels: np.ndarray) -> list:
    return list(interval(brier, probabilities, labels, generator=np.random.default_rng(0), draws=200))
