"""Progress on a terminal, plain lines elsewhere; tables of certificates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from bounds.sentence import confidence, records, up, up_digits
from pacdp.cli.figures.names import label
from pacdp.cli.figures.numbers import bound
from pacdp.cli.reading import Reading, bill
from pacdp.cli.runtime import Report
from pacdp.cli.terminal import messages, output


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Yields advance(done, line=None): moves the bar to ``done`` and prints ``line`` above it."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=messages, disable=not messages.is_terminal, transient=True
    ) as bar:
        task = bar.add_task(description, total=total)

        def advance(done: int, line: str | None = None) -> None:
            bar.update(task, completed=done)
            if line:
                messages.print(line)

        yield advance


@contextmanager
def showing(description: str) -> Iterator[Report]:
    """Yields what tells of a run: a bar for its steps, a line for its rows."""
    with progress(description, 1000) as advance:
        yield lambda step, steps, row: advance(
            1000 * step // steps, row_line(row, steps) if row else None
        )


class DownloadBar:
    """A download as the data package drives it: a bar on a terminal, one line elsewhere; nothing if nothing comes."""

    def __init__(self) -> None:
        self.total: float | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def update(self, n: int, /) -> None:
        """Another ``n`` bytes have arrived."""
        if self._bar is None:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
            )
            self._bar = Progress(
                *columns, console=messages, disable=not messages.is_terminal, transient=True
            )
            self._bar.start()
            self._task = self._bar.add_task("downloading", total=self.total)
            if not messages.is_terminal:
                messages.print(
                    f"downloading {'' if self.total is None else f'{self.total / 1e6:.1f} MB'}"
                )
        self._bar.update(self._task, advance=n, total=self.total)

    def reset(self) -> None:
        """Start again from zero."""
        if self._bar is not None:
            self._bar.reset(self._task)

    def close(self) -> None:
        """The file is there, or the mirror gave up; the next file starts a new bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def row_line(row: dict[str, Any], steps: int) -> str:
    """One recorded row as one line."""
    if "picked" in row:
        return f"round {row['step']}: {row['picked']} picked, {row['errors']} errors left"
    if "train_loss" not in row:
        return f"step {row['step']}/{steps}, epsilon {up(row['epsilon'])}"
    parts = [
        f"step {row['step']}/{steps}",
        f"epoch {row['epochs']:.1f}",
        f"train loss {row['train_loss']:.4f}",
        f"error train {row['train_error']:.4f} test {row['test_error']:.4f}",
    ]
    if "gibbs_train_error" in row:
        parts.append(
            f"Gibbs train {row['gibbs_train_error']:.4f} test {row['gibbs_test_error']:.4f}"
        )
    if "kl_nats" in row:
        parts.append(
            f"KL {row['kl_nats']:.1f} nats"
            + (" (estimate below 0)" if row["kl_raw_nats"] < 0 else "")
        )
    if "dp_pac_bayes" in row.get("bounds", {}):
        parts.append(f"bound {up(row['bounds']['dp_pac_bayes'])} (optimistic)")
    if "private_kl_chernoff" in row.get("bounds", {}):
        parts.append(f"bound {up(row['bounds']['private_kl_chernoff'])} (rigorous)")
    return ", ".join(parts)


def print_report(report: dict[str, Any]) -> None:
    """The headline, the certificates as a table on standard output, what each pays, and what each rests on."""
    out, found, whole = output(), Reading.of(report), Reading.of(report).together

    def say(*lines: object) -> None:
        for line in lines:
            out.print(str(line))

    people = f"{report['n']} people" if report["unit"] == "person" else ""
    counted = f"{report['examples']} examples" if report["examples"] else ""
    say(found.headline, " of ".join(part for part in (counted, people) if part))
    say(*found.measured, *_privacy(report))
    held = f"each failing with probability at most {report['failure_prob']:g} by itself"
    if whole is not None:
        held = f"all of which hold at once with {confidence(whole)} confidence"
    table = Table(title=f"certificates, {held}")
    table.add_column("certificate", overflow="fold")
    for name in ("at most", "status", "test error"):
        table.add_column(name, justify="left" if name == "status" else "right", no_wrap=True)
    table.add_column("rests on", max_width=9)
    paid = Table(title="what each pays")
    paid.add_column("certificate")
    paid.add_column("costs")
    for made in found.certificates:
        error = found.error(made)
        about = ", ".join(part for part in (made.measures, made.of, records(made)) if part)
        shown = "" if error is None else f"{error:.4f}"
        cells = (
            f"{label(made.name)}\n  {about}",
            bound(made.value),
            made.status,
            shown,
            found.cited(made),
        )
        table.add_row(*map(Text, cells))
        paid.add_row(Text(label(made.name)), Text(bill(made)))
    out.print(table)
    out.print(paid)
    say("rests on:", *(f"  {note}" for note in found.notes))
    say(*(f"remark: {line}" for line in found.remarks))
    say(*(f"not applicable: {one['name']}: {one['reason']}" for one in report["not_applicable"]))
    if report["diagnosis"]:
        print_diagnosis(report["diagnosis"])
    if warning := report["details"].get("private"):
        say(warning)


def _privacy(report: dict[str, Any]) -> Iterator[str]:
    """What the certificates take for private, and what the steps of a chain spent, converged or not."""
    if privacy := report["privacy"]:
        numbers = ", ".join(
            f"{name} = {up_digits(value)}"
            for name, value in privacy["record"].items()
            if isinstance(value, float)
        )
        yield f"privacy: {numbers or privacy['record'].get('notion')}; {privacy['adjacency']}, {privacy['status']}"
    if spent := report["details"].get("accounted"):
        yield (
            f"privacy accounted for, converged or not: epsilon = {up_digits(spent['epsilon_add_remove'])} add-remove, "
            f"{up_digits(spent['epsilon_replace_one'])} replace-one, at delta = {spent['delta']:g}, over "
            f"{spent['mechanisms']} noisy steps; mu about {spent['mu_central_limit']:.4g} (central limit, no bound)"
        )


def print_diagnosis(diagnosis: dict[str, Any]) -> None:
    """What the chains' traces say of stationarity, a line a quantity, then every warning."""
    out = output()
    for name, seen in diagnosis["traces"].items():
        numbers = ", ".join(
            f"{label} {seen[key]:.3g}"
            for label, key in (
                ("R-hat", "r_hat"),
                ("effective draws", "effective_draws"),
                ("Kolmogorov-Smirnov p", "ks_p_value"),
                ("Geweke z", "geweke_z"),
            )
            if seen[key] is not None
        )
        out.print(
            f"stationarity of the {name} ({seen['chains']} x {seen['steps']}): {numbers or 'too short to judge'}"
        )
    for warning in diagnosis["warnings"]:
        out.print(f"  warning: {warning}")
    verdict = (
        "stationarity is refuted"
        if diagnosis["refuted"]
        else "stationarity is not refuted, which does not prove it"
    )
    out.print(f"  {verdict}")


def print_private(result: dict[str, Any]) -> None:
    """Accuracy, calibration and privacy of a private run, in lines on standard output."""
    out, spent, test = output(), result["privacy"], result["test"]
    halted = f", halted by the budget before step {result['steps'] + 1}" if result["halted"] else ""
    out.print(f"{result['algorithm']}: {result['steps']} steps{halted}, {result['parameters']} parameters, "
              f"{result['seconds']:.0f} s")  # fmt: skip
    out.print(f"test ({result['n_test']} examples): accuracy {test['accuracy']:.4f}, AUC {_number(test['macro_auc'])}, "
              f"ECE {test['ece']:.4f}, NLL {_number(test['nll_nats'])}, Brier {test['brier']:.4f}")  # fmt: skip
    out.print(f"privacy: epsilon <= {up(spent['upper'])} at delta {spent['delta']:g}, {spent['adjacency']} neighbours "
              f"(one {spent['unit']} among {spent['units']}); {spent['status']}; noise: {spent['noise']}")  # fmt: skip
    if spent["units_are"] == "public":
        of = spent["of_budget"]
        out.print(f"  sampling.public_size is 0, and so the weights tell n, which counts each {spent['unit']} once: "
                  f"only data sets of equal size are neighbours; {up(of['epsilon'])} of the budget is spent, "
                  f"{of['adjacency']}")  # fmt: skip
    if "published_accounting" in spent:
        out.print(
            f"  the paper's accounting of this run: {spent['published_accounting']['epsilon']:.3f} (optimistic)"
        )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
