"""A report ``pacdp-certificates/2`` as every surface tells it: certificates, numbered hypotheses, costs, remarks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bounds import Certificate, Hypothesis
from bounds.numbers import up_digits
from pacdp.cli.figures.names import COSTS, label
from pacdp.predictions.sentence import first_sentence, of_all_settings, records, said_at_price_zero

FORMAT = "pacdp-certificates/2"
_ORDER = ("unproved", "declared", "proved")


class Note(NamedTuple):
    """A hypothesis with the mark by which certificates cite it; that of an unproved one ends in a star."""

    mark: str
    hypothesis: Hypothesis

    def __str__(self) -> str:
        return f"[{self.mark}] {self.hypothesis}"


class Reading:
    """A report ``pacdp-certificates/2``, of which terminal, page and figure are views.

    Raises:
        ValueError: another format, or a record that is no certificate.
    """

    def __init__(self, report: Mapping[str, Any]) -> None:
        self.report = report
        self.certificates = certificates_of(report)
        budget = report["details"].get("budget")
        predicted = report["route"] == "predictions"
        rows = report["details"].get("statements", []) if predicted else []
        self.statements = [*rows, *report["details"].get("named", [])]
        """The rows of a report on predictions; none of others."""
        ends = ("lower", min), ("upper", max)
        self.certified = [
            row
            for row in self.statements
            if any(row[end] not in (None, least(row["range"])) for end, least in ends)
        ]
        """The rows of which an end at least says something."""
        open_ = dict.fromkeys(
            row["quantity"] for row in self.statements if row not in self.certified
        )
        self.open = (
            f"nothing can be said at this confidence, from so few, of {', '.join(open_)}"
            if open_
            else ""
        )
        """What is said of the other rows; nothing where there are none."""
        self.leaderboard = list[str]()
        """Between which ranks each of several models stands, a line each."""
        if board := report["details"].get("leaderboard"):
            from pacdp.predictions.named import rank_lines  # brings all of predictions

            self.leaderboard = rank_lines(board)
        alone, choices = report["failure_prob"], report["choices"]
        several = (choices or {}).get("count", 1) > 1
        self.paid: float = of_all_settings(alone, choices) if several else alone
        """With which probability what is quoted fails, at the best of all settings that are paid for."""
        self.together = self.paid if budget else None
        """With which probability anything in the report fails; None where each certificate holds by itself."""
        self.quoted = self.paid if several else None
        """What a certificate fails with at the best of several settings; None where there is one."""
        self.headline = first_sentence(self.certificates, failure_prob=self.quoted or self.together)
        """What is said first."""
        found = dict.fromkeys(one for made in self.certificates for one in made.hypotheses)
        ordered = sorted(found, key=lambda one: _ORDER.index(one.standing))
        self.notes = [
            Note(f"{number}{'*' * (one.standing == 'unproved')}", one)
            for number, one in enumerate(ordered, start=1)
        ]
        """Each hypothesis once: what nobody proved, then what somebody declared, then what was proved."""

    def cited(self, made: Certificate) -> str:
        """The marks of what a certificate rests on."""
        return " ".join(note.mark for note in self.notes if note.hypothesis in made.hypotheses)

    def about(self, made: Certificate) -> str:
        """What a certificate bounds, of what, and from how many records."""
        return ", ".join(part for part in (made.measures, made.of, records(made)) if part)

    def users(self, note: Note) -> list[Certificate]:
        """The certificates that need a hypothesis."""
        return [made for made in self.certificates if note.hypothesis in made.hypotheses]

    def error(self, made: Certificate) -> float | None:
        """The mean 0-1 loss on the test set of the predictor whose 0-1 risk a certificate bounds."""
        asked = made.of, "test", "zero-one"
        for one in self.report["measured"] if made.measures.startswith("0-1 risk") else ():
            if (one["of"], one["on"], one["loss"]) == asked:
                return one["mean"]
        return None

    @property
    def remarks(self) -> list[str]:
        """What each certificate below the measured test error means, and what else should be looked at."""
        below = [
            f"{label(made.name)} ({made.measures}, {made.of}) lies below the measured test error {error:.4f}: it may "
            "have failed, or the test set may be too small to tell, or follow another law."
            for made in self.certificates
            if (error := self.error(made)) is not None and made.value < error
        ]
        return [*below, *self.report["details"].get("remarks", ())]

    @property
    def measured(self) -> list[str]:
        """A sentence on what was measured of each predictor, and one on the run behind a Gibbs classifier."""
        means: dict[str, list[str]] = {}
        for one in self.report["measured"]:
            wrong = one["errors"]
            count = "" if wrong is None else f" ({wrong} error{'s' * (wrong != 1)})"
            where = "on the bound's examples" if one["on"] == "bound" else "on the test set"
            said = f"{one['mean']:.4f}{count} {where}"
            means.setdefault(f"{one['of']}: mean {one['loss']} loss", []).append(said)
        found = [f"{of} {', '.join(each)}." for of, each in means.items()]
        if gibbs := self.report["gibbs"]:
            raw = gibbs["kl_raw_nats"]
            clipped = f" (the estimate was negative, {raw:.2f}; 0 is used)" * gibbs["kl_clipped"]
            found.append(
                f"Gibbs classifier: averages over {gibbs['draws']} draws of one run ({gibbs['effective_draws']:.0f} "
                f"effective); KL {up_digits(gibbs['kl_nats'])} nats{clipped}."
            )
        return [*found, *said_at_price_zero(self.certificates)]


def certificates_of(report: Mapping[str, Any]) -> list[Certificate]:
    """The certificates of a report, each checked to be one.

    Raises:
        ValueError: another format, or a record that is no certificate.
    """
    if report.get("format") != FORMAT:
        raise ValueError(
            f"expected a report of format {FORMAT!r}, got {report.get('format')!r}: certify again"
        )
    return [Certificate.from_dict(record) for record in report["certificates"]]


def paid_for(made: Certificate) -> list[tuple[str, float]]:
    """What a certificate's failure probability pays for; what it does not spend is an entry too."""
    left = made.failure_prob - math.fsum(made.budget.values())
    unspent = [("not spent", left)] if left > 1e-12 * made.failure_prob else []
    return [*made.budget.items(), *unspent] or [("–", 0.0)]


def nats(made: Certificate, name: str) -> float | None:
    """What a certificate pays under that name."""
    return next((cost.nats for cost in made.costs if cost.name == name), None)


def cost_name(name: str) -> str:
    """A cost as surfaces call it."""
    return COSTS.get(name, name)


def cost_names(certificates: Sequence[Certificate]) -> list[str]:
    """Every cost that some certificate pays, in the order of ``COSTS``."""
    found = dict.fromkeys(cost.name for made in certificates for cost in made.costs)
    return sorted(found, key=lambda name: [*COSTS, name].index(name))


def bill(made: Certificate) -> str:
    """The costs in nats, each rounded up, and their sum; the epsilon of a pure promise that they come from."""
    epsilon = made.inputs.get("epsilon")
    promise = "" if epsilon is None else f", epsilon {up_digits(float(epsilon), 4)}"
    if not made.costs:
        return f"none in nats{promise}"
    parts = " + ".join(f"{cost_name(cost.name)} {up_digits(cost.nats, 4)}" for cost in made.costs)
    return f"{parts} = {up_digits(made.total_nats, 4)} nats{promise}"
