"""The commands that ask `bounds` alone, and so start without torch: bound, privacy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pacdp.cli.parsing import no_more, parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A calculator: one bound from its ingredients, all that apply compared, or what a target takes.

    pacdp bound maurer --risk 0.02 --kl-nats 3000 --n 60000;  pacdp bound compare ... sorts every applicable bound and
    says what each pays and rests on;  pacdp bound plan --target 0.05 ... says how many examples or draws that takes;
    pacdp bound plan --n 60000 --expected-error 0.02 says which route to take and how to split, before any training.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """A bound, or compare, or plan; its own options: pacdp bound NAME --help."""
    json: bool = False
    """Print JSON."""
    options: bool = False
    """List what can be given, and compute nothing."""

    def __call__(self, rest: list[str]) -> None:
        """Compute a bound, or plan or compare bounds, and print the answer."""
        from pacdp.cli import calculator
        from pacdp.cli.calculator_tables import (
            print_certificate,
            print_comparison,
            print_plan,
            print_routes,
        )

        rest = ["--help"] if self.options else rest
        if self.name == "plan" and any(
            word.startswith(("--expected-error", "--expected_error")) for word in rest
        ):
            question, unknown = parsed(calculator.RouteQuestion, rest, prog="pacdp bound plan")
            no_more(unknown)
            print_routes(question.plan(), json_only=self.json)
            return
        kind = calculator.Goal if self.name == "plan" else calculator.Given
        given, unknown = parsed(kind, rest, prog=f"pacdp bound {self.name}")
        no_more(unknown)
        match self.name:
            case "compare":
                print_comparison(*calculator.compare(given), json_only=self.json)
            case "plan":
                assert isinstance(given, calculator.Goal)
                print_plan(given, json_only=self.json)
            case name:
                print_certificate(calculator.compute(name, given), json_only=self.json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """An accountant: the epsilon of noisy steps on Poisson batches, or the noise that a target epsilon takes.

    pacdp privacy --noise-multiplier 1.1 --sample-rate 0.00427 --steps 3516 --delta 1e-5 --adjacency add-remove;  with
    --epsilon 1 in the place of --noise-multiplier, the noise multiplier that keeps to it.
    """

    adjacency: Literal["replace-one", "add-remove"]
    """Neighbouring data sets: one record more or less (add-remove), or another record in its place (replace-one)."""
    delta: float
    """Between 0 and 1; well below one over the number of records."""
    sample_rate: float
    """Probability with which a record takes part in a step; 1 for all records in every step."""
    noise_multiplier: float | None = None
    """Standard deviation of the noise over the clip norm, the same in every step."""
    steps: int | None = None
    """Number of noisy steps."""
    schedule: Path | None = None
    """Instead of these two, a file with one noise multiplier a step: a JSON list, or CSV with a number a line (or a
    column noise_multiplier)."""
    epsilon: float | None = None
    """A target, in nats: find the noise multiplier, or the factor on the schedule, that keeps to it."""
    json: bool = False
    """Print JSON."""

    def __call__(self, rest: list[str]) -> None:
        """Answer the question about privacy and print the answer."""
        from pacdp.cli import privacy

        no_more(rest)
        answer = privacy.answer(self)
        print(
            json.dumps(answer.to_dict(), allow_nan=False) if self.json else privacy.describe(answer)
        )
