"""The command that shows what all of it is for: demo."""

from pathlib import Path

import tyro

from pacdp.cli.runtime import Runtime
from pacdp.cli.serial import record


@record
class Demo:
    """Train a network on the embedded digits, certify its error on new ones, draw it beside Entropy-SGLD's bound."""

    out: Path = Path("runs/demo")
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = Runtime()

    def __call__(self) -> None:
        """Train and certify the demonstration's network and show its figure."""
        from pacdp.cli.console import progress
        from pacdp.cli.demo import demonstrate  # for which no other command waits

        with progress("training and certifying", 1000) as advance:
            found = demonstrate(
                self.out, self.runtime, lambda done, total: advance(1000 * done // total)
            )
        from pacdp.cli.figures.demo import draw

        sentence, *others = found.sentences()
        print(sentence)
        for path in draw(found, self.out / "figure"):
            print(f"wrote {path}")
        for line in others:
            print(line)
