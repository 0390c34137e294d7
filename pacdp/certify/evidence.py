"""What is found out about the hypotheses of a certificate, before the numbers and beside them."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from bounds.hypotheses import Hypothesis, declared, proved
from pacdp.buffers import require_no_rows
from pacdp.certify.assessment import Assessment
from pacdp.certify.examples import BoundSet, require_kind
from pacdp.certify.finite import Finite
from pacdp.certify.networks import Network
from pacdp.certify.priors import Prior, Source, standing, unseen_by_test
from pacdp.certify.settings import Settings
from pacdp.data.row_checks import require_apart, require_plain
from pacdp.posterior import GaussianPosterior

_SAME_LAW = declared("new data follow the same law", "the caller")
_NEW = "predictor saw none of these rows"


def version(*sets: BoundSet | None) -> tuple[int, ...]:
    """The versions of the sets of examples, in their order: a set that changes in place has another afterwards."""
    return tuple(each.version for each in sets if each is not None)


def require_draws(seed: Any, device: Any) -> None:
    """Raise ValueError unless random numbers can be drawn from ``seed`` on ``device``."""
    require_kind("seed", seed, int)
    if not 0 <= seed < 2**63 - 1:
        raise ValueError(f"expected a seed from 0 to 2**63 - 2, got {seed}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(f"expected a device that is here, such as 'cpu', got {device!r}: {error}") from error


def require_nothing_held(law: Any, network: nn.Module | None, prior: Any, data: BoundSet, whose: str) -> None:
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


def evidence_of(
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


def resting(
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
