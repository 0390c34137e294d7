"""The command that audits a private mechanism from the outside: audit."""

import sys
from typing import Annotated, Any, ClassVar

import tyro
from rich.text import Text

from pacdp.cli.runtime import Scale
from pacdp.cli.serial import record
from pacdp.cli.terminal import answer, messages, table, usage


@record
class Audit:
    """Audit the mechanism of a private recipe or run: noise, divisor, batches, sensitivity, accounts, resuming.

    The algorithm runs on made-up data of the same shape with its own rate, clip norm and noise, and what it releases is
    held against clipped sums that are computed anew. No private data are read and nothing is spent. Exit status 1 if a
    claim is refuted. Any field of the run can be set, as for pacdp train.
    """

    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE|FOLDER")]
    """A recipe, such as dp-sgd-mnist or entropy-sgld-clipped-mnist2, or the folder of a run."""
    scale: Scale = "smoke"
    """The scale of a recipe."""
    steps: int = 0
    """Steps that are watched; 0 takes as many as the network's size allows, at most 150."""
    canaries: int = 300
    """Units that the auditor knows how to find, in a further run; 0 leaves it out."""
    failure_prob: float = 0.01
    """Probability that a mechanism that is what it says is refuted."""
    seed: int = 0
    """The seed of the made-up data and of the auditor's own choices; noise and batches are the system's."""
    json: bool = False
    """Print JSON."""
    FIELDS: ClassVar[bool] = True

    def __call__(self, rest: list[str]) -> None:
        """Audit the mechanism and print what was found."""
        if min(self.steps, self.canaries) < 0:
            usage("--steps and --canaries must be 0 or more")
        from pacdp.cli.auditing import audit, configuration

        config = configuration(self.target, scale=self.scale, rest=rest)
        messages.print(f"auditing {config.algorithm} on made-up data")
        found = audit(config, self)
        rows: list[tuple[Any, ...]] = []
        for check in found.checks:
            held = Text("cannot be checked", style="yellow") if check.unchecked else Text("holds")
            verdict = Text("REFUTED", style="red") if found.is_refuted(check) else held
            p = "" if check.p_value is None else f"{check.p_value:.2g}"
            rows.append((check.name, check.claim, p, check.seen, verdict))
        count, unseen = len(found.refuted), sum(check.unchecked for check in found.checks)
        said = f"{count} claims refuted" if count else "nothing refuted, which is not a proof"
        if unseen:
            said += f", and {unseen} of {len(found.checks)} claims cannot be checked"
        title = f"{config.algorithm}: refuted at p <= {found.level:.1e}"
        names = ("check", "claim", "p-value", "seen", "")
        answer({"algorithm": config.algorithm, **found.to_dict()}, [
            table(title, names, rows, numbers=("p-value",)),
            f"{said}; a sound mechanism is refuted with probability at most {found.failure_prob:g}",
        ], as_json=self.json)  # fmt: skip
        if count:
            sys.exit(1)
