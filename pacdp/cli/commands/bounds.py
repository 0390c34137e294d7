"""The commands that ask `bounds` alone, and so start without torch: bound, privacy."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from pacdp.cli.serial import record
from pacdp.cli.terminal import answer


@record
class Bound:
    """A calculator: one bound from its ingredients, all that apply compared, or what a target takes.

    pacdp bound maurer --risk 0.02 --kl-nats 3000 --n 60000;  pacdp bound compare ... sorts every applicable bound and
    says what each pays and rests on;  pacdp bound plan --n 60000 --expected-error 0.02 says which route to take and
    how to split, before any training. What a bound needs and was not given, it says.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """A bound, or compare, or plan."""
    risk: float | None = None
    """Empirical risk in [0, 1]."""
    kl_nats: float | None = None
    """KL divergence of posterior from prior, in nats."""
    n: int | None = None
    """Independent records, called examples in the answer: people where the risk is a mean over people."""
    n_bound: int | None = None
    """For a prior that saw other examples freely: the examples that the bound uses."""
    failure_prob: float = 0.05
    """Probability that the bound fails."""
    epsilon: float | None = None
    """Pure differential privacy of what the records told prior or weights; with --delta, approximate."""
    delta: float | None = None
    adjacency: Literal["replace-one", "add-remove"] = "replace-one"
    """The adjacency of epsilon, mu and rho."""
    mu: float | None = None
    """Gaussian differential privacy."""
    rho: float | None = None
    """Zero-concentrated differential privacy."""
    lam: float | None = None
    """Lambda of the linear and Thiemann bounds."""
    inverse_temperature: float | None = None
    """Catoni's C, fixed before the examples were seen."""
    expected_error: float | None = None
    """To plan: how often a predictor that is trained on all n records is expected to err, in [0, 1]."""
    target: float | None = None
    """To plan: the value that the certificate should reach."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        """Compute a bound, or plan or compare bounds, and print the answer."""
        from pacdp.cli import calculator

        solve = {"compare": calculator.compare, "plan": calculator.plan}
        answer(*solve.get(self.name, calculator.single)(self), as_json=self.json)


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
    """Instead of these two, a file with one noise multiplier a step: a JSON list, or text with a number a line."""
    epsilon: float | None = None
    """A target, in nats: find the noise multiplier, or the factor on the schedule, that keeps to it."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        """Answer the question about privacy and print the answer."""
        from pacdp.cli import calculator

        answer(*calculator.answered(self), as_json=self.json)
