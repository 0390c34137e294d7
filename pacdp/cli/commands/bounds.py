"""The commands that ask `bounds` alone, and so start without torch: bound, privacy."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pacdp.cli.parsing import no_more, parsed
from pacdp.cli.serial import record
from pacdp.cli.terminal import answer


@record
class Bound:
    """A calculator: one bound from its ingredients, all that apply compared, or what a target takes.

    pacdp bound maurer --risk 0.02 --kl-nats 3000 --n 60000;  pacdp bound compare ... sorts every applicable bound and
    says what each pays and rests on;  pacdp bound plan --n 60000 --expected-error 0.02 says which route to take and
    how to split, before any training.
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

        asked: dict[str, tuple[Any, Any]] = {
            "compare": (calculator.Given, calculator.compare),
            "plan": (calculator.RouteQuestion, calculator.plan),
        }
        single = calculator.Given, partial(calculator.single, self.name)
        kind, solve = asked.get(self.name, single)
        words = ["--help"] if self.options else rest
        given, unknown = parsed(kind, words, prog=f"pacdp bound {self.name}")
        no_more(unknown)
        answer(*solve(given), as_json=self.json)


@record
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
        answer(*privacy.answered(self), as_json=self.json)
