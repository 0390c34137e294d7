"""The command about a data set's privacy ledger: what was released about its rows, and what it may cost."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from pacdp.cli.serial import record
from pacdp.cli.terminal import answer

_DEFAULT = Path("runs/ledger")


@record
class Show:
    """Verify a ledger and print its runs, what each cost by itself, and what all cost together."""

    path: tyro.conf.Positional[Path] = _DEFAULT
    """The ledger's folder."""
    delta: float | None = None
    """At which delta; by default the limit's."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        """Print what the data set has spent."""
        from pacdp.cli.ledger_text import shown
        from pacdp.store.ledger import Ledger as Book

        answer(*shown(Book.load(self.path), self.delta), as_json=self.json)


@record
class Limit:
    """Set the most that everything together may cost, or lower it; what would pass it is refused before it is drawn."""

    path: tyro.conf.Positional[Path] = _DEFAULT
    """The ledger's folder; a ledger is started there if there is none."""
    epsilon: float
    delta: float
    adjacency: Literal["replace-one", "add-remove"]
    unit: Literal["example", "person"] = "example"
    """Whose presence is hidden: that of one example, or of a person with all theirs."""
    raising: Annotated[bool, tyro.conf.arg(name="raise")] = False
    """Allow a limit that is not within the present one; the ledger keeps a record of it."""

    def __call__(self) -> None:
        """Set the limit."""
        from pacdp.cli.ledger_text import limit_line
        from pacdp.store.ledger import Ledger as Book
        from pacdp.store.ledger_entries import Limit as Most

        most = Most(
            epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, unit=self.unit
        )
        book = Book.open(self.path)
        book.set_limit(most, raising=self.raising)
        print(limit_line(book))


@record
class Ledger:
    """The privacy ledger of a data set: everything that was ever released about its rows, paid before it is drawn."""

    action: tyro.conf.OmitSubcommandPrefixes[
        Annotated[Show, tyro.conf.subcommand("show")]
        | Annotated[Limit, tyro.conf.subcommand("limit")]
    ]

    def __call__(self) -> None:
        """Carry out the action that was named."""
        self.action()
