"""What ``pacdp.self_certify`` writes: the smallest of several certificates, each at its share of one ledger."""

from pacdp.verify.arithmetic import total
from pacdp.verify.certificate import LOST
from pacdp.verify.claim import (
    Checks,
    Fields,
    about,
    exactly,
    number,
    parsed,
    require,
    same,
)
from pacdp.verify.measured import (
    SHARED,
    SUM,
    mean_of,
    require_due,
    shares_of,
    sizes,
    without_unit,
)
from pacdp.verify.needs import require_no_better

_MADE_BY = {
    "held-out count": "new_examples_",
    "PAC-Bayes": "one_draw_",
    "compression": "compression",
    "noisy gradients": "realised_sum_",
}
"""How the name of a route's certificate begins."""


def _tried(report: Fields) -> list[tuple[Fields, Fields | None]]:
    """The routes, each with the certificate that it came to, which stands behind the one that is given."""
    made = dict(enumerate(report.certificates))
    made.pop(0)
    tried = report.details.tried
    return [(one, made.get(one.certificate)) for one in tried]


def _choice(report: Fields) -> None:
    """The certificate is the smallest of those tried, and is called by the route that it came from."""
    best, *others = report.certificates
    names = ("name", "of", "value", "failure_prob")
    tried = [(one, made) for one, made in _tried(report) if made]
    require(
        parsed(best.inputs.among)
        == [[made[name] for name in names] for _, made in tried]
        and len(tried) == len(others),
        "the certificates that were compared are not those of the routes that were tried",
    )
    route, _ = tried[best.inputs.chosen_position]
    same(
        "the route that was chosen",
        route.name,
        report.details.chosen,
    )
    for one in report.certificates:
        risk = without_unit(one.measures, report.unit)
        same(f"the risk of {one.name}", risk, "0-1 risk")
        require_no_better(best, one)


def _ledger(report: Fields) -> None:
    """Every route is tried at its own share, those that came to nothing too."""
    budget = report.details.budget
    shares = shares_of(budget)
    same("the ledger's total", budget.total, report.failure_prob)
    best = report.certificates[0]
    tried = {one.name: made for one, made in _tried(report)}
    names = sorted(one.name for one in report.details.tried)
    same("what the ledger pays for", sorted(shares), names)
    limits = [
        (tried[name], share) for name, share in shares.items()
    ]
    for made, share in [*limits, (best, exactly(budget.total))]:
        require(
            share > 0
            and (
                not made
                or exactly(made.failure_prob) <= share * SUM
            ),
            f"{made and made.name} may fail more often than the ledger says, or the ledger has nothing for a route",
        )
    lost = total(shares[name] for name in tried if not tried[name])
    what = "what is paid for routes that came to nothing"
    about(what, best.budget.get(LOST, 0), lost)


def _counts(report: Fields) -> None:
    """Each route has a certificate of its kind, with its sizes, or the reason of its refusal."""
    reasons = {
        dict.get(one, "name"): dict.get(one, "reason")
        for one in report.not_applicable
    }
    for one, made in _tried(report):
        name = one.name
        why = f"{name} is said to be of the route {one.route!r}"
        require(
            one.route in _MADE_BY
            and f"{name}, ".startswith(f"{one.route}, "),
            why,
        )
        said = one.train, one.bound, one.reason
        due = 0, 0, reasons.get(name)
        if made:
            why = f"{name} came to a certificate {made.name!r}, which is that of another route"
            require(made.name.startswith(_MADE_BY[one.route]), why)
            due = *_sizes(report, one, made), ""
            same(f"n of {name}", made.inputs.n, one.bound)
        else:
            same(f"the error of {name}", one.error, None)
        same(f"what {name} came to", said, due)


def _sizes(
    report: Fields, one: Fields, made: Fields
) -> tuple[int, int]:
    """Records for training and for counting; the error is the certificate's, or, of compression, of no more than k."""
    n = report.n
    if one.route == "compression":
        k = made.inputs.k
        train = dict.get(
            one, "train", 0
        )  # of which no count shows more
        most = max(train, number(dict.get(one, "error")) * n)
        require(
            type(train) is int and 0 <= train and most <= k,
            f"{train!r} records trained, {most} count, and {k} were kept",
        )
        return train, n
    about(f"the error of {one.name}", one.error, mean_of(made))
    if one.route == "noisy gradients":
        return n, n
    train = report.details.train
    require(
        type(train) is int and 0 < train < n,
        f"{train!r} of {n} records trained, and others have to be counted",
    )
    return train, n - train


def _remarks(report: Fields) -> None:
    """What certificates take for true of inputs that stand on both sides of the split is remarked on."""
    due = {
        f"{said.name}: {said.by}"
        for made in report.certificates
        for said in made.hypotheses
        if said.name == "equal inputs are separate draws"
    }
    require_due(report.details.remarks, due)


OF_SELF_CERTIFIED: Checks = {
    "choice": _choice,
    "ledger": _ledger,
    "counts": _counts,
    "remarks": _remarks,
    "numbers of rows": sizes,
    **SHARED,
}
"""What is asked of a report on routes of self-certification."""
