"""A certificate as one true sentence, with numbers that never look better than they are."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

from bounds.certificate import Certificate
from bounds.hypotheses import UNITS, Hypothesis
from bounds.kl import binary_kl_upper
from bounds.means import clopper_pearson_upper
from bounds.numbers import EXACT, confidence, percent, percent_of, up

_ERROR = "0-1 risk"
_NEW = " of a new "
_RECORDS = tuple(_NEW + unit for unit in UNITS)
_WEIGHTED = "weighted "
_WHOSE = {
    "randomised": "the randomised network",
    "ensemble": "a network drawn from the ensemble for each answer",
    "vote": "the ensemble's weighted vote",
    **{
        one: f"the {one}"
        for one in (
            "Gibbs classifier",
            "Gibbs posterior",
            "best network",
            "deployed predictor",
            "mean weights",
            "prediction sets",
            "predictor",
            "prior mean",
            "private choice",
            "released weights",
            "weights",
        )
    },
}
_DIFFERENCE = re.compile(r"\(1 \+ ((.+) of .+) - (\2 of .+)\)/2")
"""Of one loss of two models, so that neither a name with a dash nor "1 - acc" is cut in two."""
_CUT = re.compile(r"(absolute|squared) error over \S+")
_NO_MEAN = ("ECE", "AUC", "1 - AUC", "largest gap ")
"""What is no mean of losses, and not the average over people of what it is on the examples of each."""

_SAYINGS = (
    (r"0-1 risk|error", "At most {p}% of {many} are misclassified by {of}"),
    (r"error on class (.+)", "At most {p}% of {many} of class {0} are misclassified by {of}"),
    (r"recall of class (.+)", "At most {p}% of {many} of class {0} are recognised by {of}"),
    (
        r"share of errors among predictions of class (.+)",
        "At most {p}% of {many} that {of} takes for class {0} are of another one",
    ),
    (r"precision of class (.+)", "At most {p}% of {many} that {of} takes for class {0} are of it"),
    (
        r"false-alarm rate of class (.+)",
        "At most {p}% of {many} of other classes are taken for class {0} by {of}",
    ),
    (
        r"specificity of class (.+)",
        "At most {p}% of {many} of other classes are not taken for class {0} by {of}",
    ),
    (r"error in group (.+)", "At most {p}% of {many} in group {0} are misclassified by {of}"),
    (
        r"accuracy in group (.+)",
        "At most {p}% of {many} in group {0} are classified rightly by {of}",
    ),
    (r"accuracy", "At most {p}% of {many} are classified rightly by {of}"),
    (
        r"top-(\d+) error",
        "At most {p}% of {many} have a label that is not among the {0} likeliest of {of}",
    ),
    (
        r"top-(\d+) accuracy",
        "At most {p}% of {many} have a label that is among the {0} likeliest of {of}",
    ),
    (
        r"largest gap between groups",
        "On {many} the mean losses of {of} in any two groups differ by at most {p} points",
    ),
    (
        r"largest gap between (\d+) of (\d+) groups",
        "On {many} the mean losses of {of} in any two of {0} groups (of {1}) differ by at most {p} points",
    ),
    (
        r"1 - AUC",
        "Of a new positive and a new negative example {of} ranks at most {p}% of pairs wrongly",
    ),
    (
        r"AUC",
        "Of a new positive and a new negative example {of} ranks at most {p}% of pairs rightly",
    ),
    (r"1 - (.+)", "By {0}, {of} scores at least {q}% on {many}"),
    (
        r"ECE",
        "The calibration error of {of} on {many}, over bins of confidence, is at most {p}%",
    ),
    (
        r"MCE",
        "In every bin with enough examples to be certified confidence and accuracy of {of} on {many} differ by at most "
        "{p} points",
    ),
    (r"half the Brier risk", "Half the Brier risk of {of} on {many} is at most {p}%"),
    (
        r"absolute error clipped at (\S+), as a share of it",
        "The mean absolute error of {of} on {many}, clipped at {0}, is at most {p}% of that",
    ),
    (
        r"squared error clipped at (\S+), as a share of its square",
        "The mean squared error of {of} on {many}, clipped at {0}, is at most {p}% of the square of that",
    ),
    (
        r"(absolute|squared) error over (\S+)( in group .+)?",
        "The mean {0} error of {of}, whose predictions are cut off at the ends of the range, on {many}{2} is at most "
        "{p}% of {1}, the largest possible",
    ),
    (
        r"mean set size as a share of the labels",
        "On {many} {of} hold on average at most {p}% of the labels",
    ),
    (r"empirical risk", "The mean loss of {of} on the examples at hand is at most {p}%"),
    (
        r"share of people with more than (\S+) of their examples in error",
        "At most {p}% of new people have more than {0} of their examples misclassified by {of}",
    ),
    (r"(.*)", "The {0} of {of} on {many} is at most {p}%"),
)
"""What is said of each risk, by its name."""

_PROVISOS = {
    "records independent": "{records} are independent{named}",
    "new data follow the same law": "new ones are of the same kind and answered in the same way, each by itself",
    "settings fixed beforehand": "{asked} did not depend on them",
    "steps fixed beforehand": "the number of steps was settled beforehand",
    "prior saw none of these rows": "the prior had seen none of them",
    "predictor saw none of these rows": "{who} had seen none of {them}",
    "privacy covers these rows": "the privacy that is claimed covers them",
    "noise secret or independent": "the noise is secret or does not depend on them{start}",
    "accountant sound": "the accountant of privacy is sound",
    "chain stationary": "the chain is stationary",
    "averages exact": "averages over the chain are exact",
    "clipping inactive": "clipping changed nothing",
    "draws independent": "draws are independent",
    "losses one an example": "each has a loss of its own",
    "records enter by noisy sums": "they entered by noisy sums alone",
    "batches drawn without the records": "batches were drawn without looking at them",
    "batches secret and Poisson": "batches are secret and Poisson",
    "batches secret, each record in one an epoch": "batches are secret, with each of them in one an epoch",
    "contributions bounded": "what each contributes is bounded",
    "norms of all records kept": "the norms of all of them were kept",
    "schedule blind to the records": "the schedule does not depend on them",
    "first weights independent": "the first weights do not depend on them",
    "learner saw picked records alone": "the learner, its first weights too, saw those alone that it had picked",
    "neither network saw the unlabelled rows": "neither network saw those without labels",
    "thresholds fixed beforehand": "thresholds were settled beforehand",
    "order blind to the losses": "their order does not depend on the losses",
    "losses within their range": "losses lie in their range",
    "losses convex": "losses are convex",
    "losses of all records kept": "the losses of all of them were kept",
    "drawn from the law that is paid for": "weights were drawn from the law that is paid for",
    "potentials one a record": "each adds a potential of its own",
    "equal inputs are separate draws": "equal inputs are separate draws",
}
"""What each hypothesis says of the records, which have been named before."""

UNLABELLED = "neither network saw the unlabelled rows"
"""What certificates by another network rest on, whose own examples stand behind its certificate alone."""
_BY_ROWS = "row hashes"
"""What shows which named rows the records are; that all were named, and rightly, remains somebody's word."""
_SAW = {
    "prior saw none of these rows": "the prior",
    "predictor saw none of these rows": "{who}",
    UNLABELLED: "both networks",
}
"""Who saw what was named."""
_OF_NAMED = {
    **_PROVISOS,
    **{name: f"{who} had seen nothing but what was named" for name, who in _SAW.items()},
}
"""What a proof by named rows leaves to whoever named them, who may leave some out, as those of early stopping."""
_ITS_OWN = "that the surrogate's certificate is that network's"
"""Which nothing of a certificate shows."""
_NAMED = ", each under one name of their own"
"""Which whoever names people vouches for: two of one name count as one, and one of two names as two."""
_START = ", and the private run began with nothing learnt from them and took each by itself"
_PAID = ("kl", "log_density_ratio", "renyi", "draw", "transfer")
_OF_THE_FORMULA = ("log_xi", "log_two_sqrt_n")
"""Costs that are a price, and that remain where it is zero; ln(1/failure_prob) besides."""


def headline(made: Certificate, *, failure_prob: float | None = None) -> str:
    """What a certificate says, from how many records, and everything that it takes for true without a proof.

    Formal guarantee: the percentage is no smaller than the value, and the confidence no larger than 1 - failure_prob.

    Args:
        made: the certificate.
        failure_prob: of all that is said together with it, where that is more than its own.
    """
    # of predictions that were given the model has whatever name its owner gave it
    of = made.of if made.name.startswith(("new_examples", "largest_gap")) else whose(made.of)
    measures, new, record = (
        made.measures.rpartition(_NEW)
        if made.measures.endswith(_RECORDS)
        else (made.measures, "", "")
    )
    plain = measures.removeprefix(_WEIGHTED)
    many, over = "new examples", ""
    if new and record != "example":
        many, over = f"a new {record}'s examples", f", on average over {UNITS[record]}"
        if plain.startswith(_NO_MEAN):
            many = f"examples of new {UNITS[record]}"
            over = f", with all {UNITS[record]} counted alike"
            over += f" and no pair of one {record}'s examples" * plain.endswith("AUC")
    if made.vacuous or percent_of(Decimal(repr(float(made.value)))) >= 100:
        risk = "error" if measures == _ERROR else measures
        rounded = "" if made.vacuous else ", rounded up"
        return f"This certificate says nothing of the {risk} of {of} on {many}: it is 1{rounded}."
    said = _said(plain, made.value, of, many)
    said += ", by weight" * (plain != measures)
    said += over
    sure = confidence(made.failure_prob if failure_prob is None else failure_prob)
    by_another = any(one.name == UNLABELLED for one in made.hypotheses)
    both = of.replace(" against ", " and ") if _DIFFERENCE.fullmatch(plain) else of
    known = records(made) + (" without labels" if by_another else _unseen(made, both))
    said += f" ({sure} confidence; {known})." if known else f" ({sure} confidence)."
    what = UNITS.get(unit(made), "draws")
    # first weights are part of a promise of privacy, and stand by themselves at other prices
    private = any(one.name == "privacy covers these rows" for one in made.hypotheses)
    start = _START if private else ""
    asked = "what was asked"
    if plain != measures:
        asked = f"their number, the rule of their weights and {asked}"
    elif unit(made):  # a limit that holds at all times has no number of records
        asked = f"their number and {asked}"
    words = {"records": what, "who": both, "them": "them", "start": start, "asked": asked}
    words["named"] = _NAMED if what == UNITS["person"] else ""
    if by_another:
        words |= {"who": "the surrogate", "them": "the examples of its certificate"}
    by_word = [
        one
        for one in made.hypotheses
        if one.standing == "declared" or (one.standing == "proved" and _BY_ROWS in one.by)
    ]
    stated = _provisos(by_word, words, *([_ITS_OWN] if by_another else ()))
    open_ = _provisos(made.unproved, words)
    provided = [f"{stated}, which you say"] * bool(stated) + [
        f"{open_}, which nothing proves"
    ] * bool(open_)
    said += f" This holds provided {', and '.join(provided)}." if provided else ""
    return said + " So the number is optimistic." * bool(open_)


def _said(measures: str, value: float, of: str, many: str) -> str:
    """That a risk is at most its value."""
    if pair := _DIFFERENCE.fullmatch(measures):
        with localcontext(EXACT):
            apart = 2 * Decimal(repr(float(value))) - 1
            points = abs(percent_of(apart))
        how = f"below the {pair[3]} by at least" if apart < 0 else f"above the {pair[3]} by at most"
        cut = ", with predictions cut off at the ends of the range" * bool(_CUT.match(pair[2]))
        return f"On {many} the {pair[1]} is {how} {points:f} points{cut}"
    for pattern, saying in _SAYINGS:
        if found := re.fullmatch(pattern, measures):
            named = [part or "" for part in found.groups()]
            p = percent(value)
            with localcontext(EXACT):
                q = 100 - Decimal(p)
            return saying.format(*named, p=p, q=q, of=of, many=many)
    raise AssertionError("the last pattern fits everything")


def _unseen(made: Certificate, who: str) -> str:
    """Of the records, that they were not seen, where that is proved, and by whom."""
    said = ""
    for one in made.hypotheses:
        if one.name in _SAW and one.standing == "proved":
            unseen = (
                "are none of those named as seen by {}" if _BY_ROWS in one.by else "{} had not seen"
            )
            said += f" that {unseen.format(_SAW[one.name].format(who=who))}"
    return said


def _provisos(some: Iterable[Hypothesis], words: Mapping[str, str], *others: str) -> str:
    """That A, that B and that C."""
    said = [
        "that " + (_OF_NAMED if one.standing == "proved" else _PROVISOS)[one.name].format_map(words)
        for one in some
    ]
    said += others
    return " and ".join([", ".join(said[:-1]), *said[-1:]] if len(said) > 1 else said)


def first_sentence(
    certificates: Sequence[Certificate], *, failure_prob: float | None = None
) -> str:
    """The headline of the first certificate of the 0-1 risk, else of the first; a rigorous one where there is one."""
    risks = [made for made in certificates if made.measures.startswith(_ERROR)] or certificates
    if not risks:
        return "Nothing was certified."
    rigorous = [made for made in risks if made.status == "rigorous"] or risks
    return headline(rigorous[0], failure_prob=failure_prob)


def of_all_settings(failure_prob: float, choices: Mapping[str, Any] | None) -> float:
    """With which probability something fails at the best of the settings that are paid for in ``failure_prob``."""
    return min(1.0, failure_prob * (choices or {}).get("count", 1))


def whose(of: str) -> str:
    """The predictor as a sentence calls it: those of ours with an article, a model by its own name."""
    return _WHOSE.get(of, of)


def unit(made: Certificate) -> str:
    """What the certificate counts as one independent record, such as "example"; empty where it does not say."""
    return next((one.unit for one in made.hypotheses if one.name == "records independent"), "")


def records(made: Certificate) -> str:
    """How many independent records the certificate counts, such as "200 examples"; empty where it does not say."""
    n, what = made.inputs.get("n"), unit(made)
    if not isinstance(n, int) or not what:
        return ""
    return counted(n, what)


def counted(n: int, what: str) -> str:
    """So many records of a unit, such as "1 person" or "200 people"."""
    return f"{n} {what if n == 1 else UNITS[what]}"


def at_price_zero(
    certificates: Iterable[Certificate],
) -> list[tuple[Certificate, float]]:
    """The first certificate that paid for divergence, draw, privacy or kept records, with what it would say had they
    cost nothing: at its error and n no training makes it say less. None where none paid, or in another form.

    kl⁻¹(risk, (ln ξ(n) + ln(1/failure_prob))/n), without ln ξ(n) where the formula has none. Of compression that keeps
    no record the least is 1 - failure_prob^(1/n).
    """
    for made in certificates:
        n, risk, own_prob = (made.inputs.get(name) for name in ("n", "risk", "failure_prob"))
        n, failure_prob = int(n or 1), float(own_prob or made.failure_prob)
        if made.name == "compression":
            return [(made, clopper_pearson_upper(0, n, failure_prob))]
        if (
            risk is not None
            and math.fsum(one.nats for one in made.costs if one.name in _PAID) > 0.0
        ):
            own = (one.nats for one in made.costs if one.name in _OF_THE_FORMULA)
            nats = math.fsum([*own, -math.log(failure_prob)]) / n
            return [(made, float(binary_kl_upper(float(risk), nats * (1.0 + 2.0**-50))))]
    return []


def said_at_price_zero(made: Iterable[Certificate]) -> list[str]:
    """A sentence on it."""
    return [
        f"At a price of zero the {one.measures} of {one.of} would be certified at {up(value)}: at this error and n "
        "the route promises no less."
        for one, value in at_price_zero(made)
    ]
