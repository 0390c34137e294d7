"""The command that writes what of a private run may be published: export."""

from pathlib import Path

import tyro

from pacdp.cli.runtime import Runtime, require_unset
from pacdp.cli.serial import record
from pacdp.cli.terminal import answer, messages, require_failure_prob, word


@record
class Export:
    """Write the only folder of a private run that may be published: weights, settings, certificates.

    The errors on the training data and their number are released with noise, which the ledger counts and the
    certificates carry. The same run exported again at the noise of the last time releases the same numbers; at another
    noise it releases others, for more epsilon.
    """

    run: tyro.conf.Positional[Path]
    """The folder of a finished private run."""
    out: tyro.conf.Positional[Path]
    """The folder to write, which must not exist."""
    ledger: Path | None = None
    """The privacy ledger that counts the run; by default the folder ledger beside RUN or, of one of several chains,
    beside the folder that holds them."""
    std_errors: float = 50.0
    """Standard deviation of the noise on the error count; of runs that hide people, on the sum of people's rates."""
    std_n: float = 50.0
    """Standard deviation of the noise on the number of examples, or of people."""
    failure_prob: float = 0.05
    """The probability with which the certificate may fail, a fiftieth of it for the noise; divided by --tried."""
    tried: int = 1
    """How many settings were tried on the run's examples before these were chosen."""
    correct: bool = False
    """Enter a run that was trained without a ledger into it, which cannot be undone."""
    json: bool = False
    """Print the report of certificates as JSON."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = Runtime()

    def __call__(self) -> None:
        """Write the run's folder for others."""
        require_failure_prob(self.failure_prob)
        require_unset(self.runtime, "batching", "bfloat16", "checkpoint_seconds",
                      by="by pacdp export, which evaluates in float32")  # fmt: skip
        from bounds.numbers import up_digits
        from pacdp.cli.exporting import export_run
        from pacdp.cli.reading import Reading

        report = export_run(self)
        cost = report["details"]["counts"]["with_the_run"]
        answer(report, [
            Reading(report).headline,
            f"privacy of all that is in {self.out}: epsilon <= {up_digits(cost['epsilon'])} at delta "
            f"{cost['delta']:g}, {cost['adjacency']}, per {report['unit']}",
        ], as_json=self.json)  # fmt: skip
        messages.print(
            f"{self.out} may be published, {self.run} may not; next: pacdp verify {word(self.out)}"
        )
