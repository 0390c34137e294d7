"""The commands that choose thresholds and watch a deployed predictor, and so start without torch: control, monitor."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from pacdp.cli.serial import Values, record
from pacdp.cli.terminal import answer, refusing

if TYPE_CHECKING:
    import bounds

_CHOICES = ("promised", "promise_failure_prob", "failure_prob", "false_alarm_prob")
_USUAL: Values = {"failure_prob": 0.05, "false_alarm_prob": 0.01}
_ARGUMENTS = {"error": "losses", "loss": "losses", "score": "scores", "positive": "positives"}
_GRID = tuple(k / 20 for k in range(20))


@record
class Control:
    """Choose a threshold at which a risk stays below a target: when to answer, when to sound an alarm.

    pacdp control answers.csv --target 0.05, with the columns confidence and error (0 or 1) or loss (from 0 to 1), finds
    from which confidence on to answer; with the columns score and positive, from which score on a detector has to sound
    to miss at most 5% of the positives. docs/control.md explains both.
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """CSV with the columns confidence and error or loss, or score and positive; and group, if there are any."""
    target: float
    """What the risk is to stay below, from 0 to 1."""
    failure_prob: float = 0.05
    """Probability that the risk at the chosen threshold is above the target."""
    thresholds: tuple[float, ...] | None = None
    """Thresholds of confidence, fixed before the file was seen; by default 0, 0.05, ..., 0.95. Scores take none."""
    starts: int | None = None
    """How many thresholds of confidence the tests start from: 1 is a fixed sequence from the highest down; by default
    every one."""
    groups: Literal["together", "apart"] | None = None
    """One threshold that does for every group, or one for each."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        """Choose the thresholds and print what is certified of them."""
        import bounds
        from pacdp.cli.predicting.tables import read_columns
        from pacdp.predictions.sentence import headline

        columns: Values = read_columns(
            self.file, ("confidence", "error", "loss", "score", "positive", "group")
        )
        named = columns.pop("group", None)
        if (self.groups is None) != (named is None):
            raise ValueError(
                "give --groups together or apart exactly where the file has a column group: one threshold for all "
                "groups, or one for each"
            )
        settings: Values = {"target": self.target, "failure_prob": self.failure_prob}
        records = {_ARGUMENTS.get(name, name): column for name, column in columns.items()}
        match sorted(_ARGUMENTS.get(name, name) for name in columns):
            case ["confidence", "losses"]:
                control = bounds.control_selective_risk
                thresholds = _GRID if self.thresholds is None else self.thresholds
                settings |= {"thresholds": thresholds, "starts": self.starts}
            case ["positives", "scores"]:
                if self.thresholds is not None or self.starts is not None:
                    raise ValueError(
                        f"{self.file} holds scores, which are the thresholds: leave out --thresholds and --starts"
                    )
                control = bounds.control_false_negatives
            case _:
                raise ValueError(
                    f"{self.file} must have the columns confidence and error or loss, or score and positive, got "
                    f"{', '.join(sorted(columns))}: name the columns so"
                )
        if self.groups == "apart":
            made = bounds.control_groups(control, groups=named, records=records, **settings)
        else:
            made = {"all": control(**records, groups=named, **settings)}
        lines: list[str] = []
        for name, one in made.items():
            told = str(one)
            if one.qualifies:
                told = f"Threshold {one.threshold!r}. {headline(one.certificate)}"
            lines.append(f"{name}: {told}" if self.groups == "apart" else told)
            if one.qualifies:
                lines.append(f"  {one.share:.1%} of the records reach the threshold")
        answer({name: one.to_dict() for name, one in made.items()}, lines, as_json=self.json)


@record
class Watch:
    """Watch the losses of a deployed predictor: limits of its running risk, and an alarm above what was promised.

    pacdp monitor watch.json --losses monday.csv --promised 0.05 begins; pacdp monitor watch.json --losses tuesday.csv
    goes on. One may look, and stop, after every loss. docs/control.md says what order the losses may come in.
    """

    state: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="STATE")]
    """The file that holds what is known so far; it is made if it is not there."""
    losses: Path | None = None
    """CSV with the column error (0 or 1) or loss (from 0 to 1), and position where labels come late: the number of the
    example from 0, in the order in which the examples came. Without it, what is known is printed again."""
    promised: float | None = None
    """What the risk is to stay below, such as a certificate; needed to begin, and only then."""
    promise_failure_prob: float | None = None
    """Probability that the promise is no bound even for data of the same law, such as a certificate's; 0 by default."""
    failure_prob: float | None = None
    """Probability that the limits are wrong at any time; 0.05 by default."""
    false_alarm_prob: float | None = None
    """Probability that an alarm is ever raised while the risk stays below the promised one; 0.01 by default."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> None:
        """Bring the watch up to date with the losses and print its limits and any alarm."""
        from pacdp.store.files import Held, locked

        state = self.state.resolve()  # of a link, what it leads to
        state.parent.stat()  # of a folder that is not there, this names the folder
        try:
            lock = locked(state.with_name(f".{state.name}.lock"), timeout=30.0)
            with lock if self.losses else nullcontext():
                monitor = self._observed(state)
        except Held as ending:
            raise ValueError(f"another process is at work on {self.state}: {ending}") from ending
        limits = {"lower": monitor.lower, "upper": monitor.upper, "p_value": monitor.p_value}
        answer({**monitor.to_dict(), **limits}, [str(monitor)], as_json=self.json)

    def _observed(self, state: Path) -> "bounds.Monitor":
        """Read or begin the state, let it observe the losses, and keep what is new."""
        import bounds
        from pacdp.cli.predicting.tables import read_columns
        from pacdp.store.files import write_whole

        chosen: Values = {
            name: getattr(self, name) for name in _CHOICES if getattr(self, name) is not None
        }
        begun = state.exists()
        if begun:
            with refusing(f"{self.state} is no state of pacdp monitor"):
                monitor = bounds.Monitor.from_json(state.read_text(encoding="utf-8"))
            if chosen:
                flags = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
                raise ValueError(f"{self.state} has begun: leave out {flags}, or give another file")
        elif self.promised is None:
            raise ValueError(
                f"{self.state} is not there: give --promised to begin, what the risk is to stay below"
            )
        else:
            monitor = bounds.Monitor(**{**_USUAL, **chosen})
        if self.losses is not None:
            columns = read_columns(self.losses, ("error", "loss", "position"))
            if ("error" in columns) == ("loss" in columns):
                raise ValueError(
                    f"{self.losses} must have a column error or a column loss: keep one of them"
                )
            positions = columns.pop("position", None)
            (values,) = columns.values()
            monitor = monitor.observe(values, positions=positions)
        if self.losses is not None or not begun:
            write_whole(state, monitor.to_json().encode())
        return monitor
