"""When the run of a compression picks how many records, and when it stops: fixed beforehand, whatever the sample."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """How many records each round picks, by how many were picked before.

    Smaller groups need fewer records and more rounds. Nothing else may decide the size: a group that depended on how
    many errors are left would break the theorem.
    """

    sizes: tuple[int, ...] = (10,)
    """The sizes, in the order in which they take turns."""
    starts: tuple[int, ...] = (0,)
    """How many records are picked when each of them begins; the first begins at 0."""

    def __post_init__(self) -> None:
        if not self.sizes or any(
            isinstance(g, bool) or not isinstance(g, int) or g < 1 for g in self.sizes
        ):
            raise ValueError(
                f"expected sizes of groups that are whole numbers >= 1, got {self.sizes}"
            )
        if (
            len(self.starts) != len(self.sizes)
            or self.starts[0] != 0
            or list(self.starts) != sorted(set(self.starts))
        ):
            raise ValueError(
                f"expected one start for each of {self.sizes}, rising from 0, got {self.starts}"
            )

    def at(self, picked: int) -> int:
        """The size of the group that is picked when so many records are."""
        return next(
            g
            for g, start in zip(reversed(self.sizes), reversed(self.starts), strict=True)
            if start <= picked
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When the run ends.

    With ``no_errors_left`` it ends when the network errs on no record that it has not picked. With ``rounds`` it ends
    after the last of them, and each of them is an end that may be reported: those J ends share the failure probability.
    With both, whichever comes first.
    """

    no_errors_left: bool = True
    rounds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (self.no_errors_left or self.rounds):
            raise ValueError(
                "expected no_errors_left or rounds, got neither: the run would have no end"
            )
        if self.no_errors_left not in (True, False) or not isinstance(self.rounds, tuple | list):  # pyright: ignore
            raise ValueError(
                f"expected no_errors_left as True or False and rounds as a tuple, got {self}"
            )
        if list(self.rounds) != sorted({r for r in self.rounds if isinstance(r, int) and r >= 1}):
            raise ValueError(f"expected rounds that rise from 1 or more, got {self.rounds}")

    @property
    def ends(self) -> int:
        """J, how many ends share the failure probability."""
        return max(1, len(self.rounds))

    @property
    def last(self) -> float:
        """The last round; infinite where errors alone decide."""
        return float(self.rounds[-1]) if self.rounds else float("inf")
