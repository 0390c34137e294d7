"""Progress on a terminal, plain lines elsewhere; tables of certificates."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from bounds.numbers import confidence, down, up, up_digits
from pacdp.cli.figures.names import bound, label
from pacdp.cli.reading import Reading, bill
from pacdp.cli.runtime import Report
from pacdp.cli.serial import Values
from pacdp.cli.terminal import messages, table
from pacdp.predictions.report import COLUMNS
from pacdp.predictions.sentence import counted

_MOST = 60
_TRACES = {"r_hat": "R-hat", "effective_draws": "effective draws", "ks_p_value": "Kolmogorov-Smirnov p",
           "geweke_z": "Geweke z"}  # fmt: skip


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Yields advance(done, line=None): moves the bar to ``done`` and prints ``line`` above it."""
    with Progress(console=messages, disable=not messages.is_terminal, transient=True) as bar:
        task = bar.add_task(escape(description), total=total)

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


class Downloads:
    """Says of each file that the data package downloads that it does; nothing if nothing comes."""

    total: float | None = None
    _said = False

    def update(self, n: int, /) -> None:
        """Another ``n`` bytes have arrived."""
        if not self._said:
            messages.print(f"downloading {(self.total or 0.0) / 1e6:.1f} MB")
        self._said = True

    def reset(self) -> None:
        """Nothing starts again."""

    def close(self) -> None:
        """The file is there, or the mirror gave up."""
        self._said = False


def row_line(row: Values, steps: int) -> str:
    """One recorded row as one line."""
    if "picked" in row:
        errors = f"{row['errors']} error{'s' * (row['errors'] != 1)}"
        return f"round {row['step']}: {row['picked']} picked, {errors} left"
    said = f"step {row['step']}/{steps}"
    if "train_loss" not in row:
        return f"{said}, epsilon {up(row['epsilon'])}"
    said += f", epoch {row['epochs']:.1f}, train loss {row['train_loss']:.4f}"
    said += f", error train {row['train_error']:.4f} test {row['test_error']:.4f}"
    if "gibbs_train_error" in row:
        said += f", Gibbs train {row['gibbs_train_error']:.4f} test {row['gibbs_test_error']:.4f}"
        said += f", KL {row['kl_nats']:.1f} nats" + " (estimate below 0)" * (row["kl_raw_nats"] < 0)
    for name, status in (("dp_pac_bayes", "optimistic"), ("private_kl_chernoff", "rigorous")):
        if name in row.get("bounds", {}):
            said += f", bound {up(row['bounds'][name])} ({status})"
    return said


def told(report: Values) -> Iterator[str | Table]:
    """The headline, the certificates as a table, what each pays, and what each rests on."""
    found, details = Reading(report), report["details"]
    yield found.headline
    unit, examples = report["unit"], report["examples"]
    several = f"{counted(examples, 'example')} of " if unit != "example" and examples else ""
    yield several + counted(report["n"], unit)
    if privacy := report["privacy"]:
        record = privacy["record"]
        numbers = [
            f"{k} = {up_digits(value)}" for k, value in record.items() if isinstance(value, float)
        ]
        on_a_grid = "spacing" in record  # whose numbers say nothing of the loss
        notion = record["notion"] if on_a_grid else ", ".join(numbers) or record["notion"]
        yield f"privacy: {notion}; {privacy['adjacency']}, {privacy['status']}"
    if spent := details.get("accounted"):
        yield (
            f"privacy accounted for, converged or not: epsilon = {up_digits(spent['epsilon_add_remove'])} add-remove, "
            f"{up_digits(spent['epsilon_replace_one'])} replace-one, at delta = {spent['delta']:g}, over "
            f"{spent['mechanisms']} noisy steps; mu about {spent['mu_central_limit']:.4g} (central limit, no bound)"
        )
    held = f"each failing with probability at most {found.paid:g} by itself"
    if found.together is not None:
        held = f"all of which hold at once with {confidence(found.together)} confidence"
    if found.statements:
        rows = [
            (one["quantity"], one["of"], shown(one["measured"]), _end(one, "lower", down), _end(one, "upper", up),
             one["n"])
            for one in found.certified
        ]  # fmt: skip
        yield table(f"what is certified, {held}", COLUMNS, rows[:_MOST], numbers=COLUMNS[2:])
        if len(rows) > _MOST:
            yield f"{len(rows) - _MOST} more rows are in the report"
        yield from filter(None, [found.open])
        yield from found.leaderboard
    else:
        yield from found.measured
        rows = [
            (f"{label(made.name)}\n  {found.about(made)}", bound(made.value), made.status, shown(found.error(made)),
             found.cited(made))
            for made in found.certificates
        ]  # fmt: skip
        names = ("certificate", "at most", "status", "test error", "rests on")
        yield table(f"certificates, {held}", names, rows, numbers=names[1::2])
        paid = [(label(made.name), bill(made)) for made in found.certificates]
        yield table("what each pays", ("certificate", "costs"), paid)
    yield "rests on:"
    yield from (f"  {note}" for note in found.notes)
    yield from (f"remark: {line}" for line in found.remarks)
    yield from (
        f"not applicable: {one['name']}: {one['reason']}" for one in report["not_applicable"]
    )
    if report["diagnosis"]:
        yield from diagnosed(report["diagnosis"])
    if warning := details.get("private"):
        yield warning


def _end(row: Values, end: str, rounded: Callable[[float], str]) -> str:
    """An end of a row's interval, away from what was measured; a dash where it says nothing."""
    return "–" if row[end] in (None, row["range"][end == "upper"]) else rounded(row[end])


def diagnosed(diagnosis: Values) -> Iterator[str]:
    """What the chains' traces say of stationarity, a line a quantity, then every warning."""
    for name, seen in diagnosis["traces"].items():
        numbers = [
            f"{said} {seen[key]:.3g}" for key, said in _TRACES.items() if seen[key] is not None
        ]
        said = ", ".join(numbers) or "too short to judge"
        yield f"stationarity of the {name} ({seen['chains']} x {seen['steps']}): {said}"
    yield from (f"  warning: {warning}" for warning in diagnosis["warnings"])
    refuted = diagnosis["refuted"]
    yield f"  stationarity is {'refuted' if refuted else 'not refuted, which does not prove it'}"


def private(result: Values) -> Iterator[str]:
    """Accuracy, calibration and privacy of a private run."""
    spent, test = result["privacy"], result["test"]
    halted = f", halted by the budget before step {result['steps'] + 1}" if result["halted"] else ""
    yield (f"{result['algorithm']}: {result['steps']} steps{halted}, {result['parameters']} parameters, "
           f"{result['seconds']:.0f} s")  # fmt: skip
    auc, nll = (shown(test[name]) or "undefined" for name in ("macro_auc", "nll_nats"))
    yield (f"test ({result['n_test']} examples): accuracy {test['accuracy']:.4f}, AUC {auc}, ECE {test['ece']:.4f}, "
           f"NLL {nll}, Brier {test['brier']:.4f}")  # fmt: skip
    hidden = ", a number for your eyes alone" * (spent["units_are"] == "private")
    yield (f"privacy: epsilon <= {up(spent['upper'])} at delta {spent['delta']:g}, {spent['adjacency']} neighbours "
           f"(one {spent['unit']} among {spent['units']}{hidden}); {spent['status']}; "
           f"noise: {spent['noise']}")  # fmt: skip
    if '"LastAlone"' in json.dumps(spent["event"]):
        yield "  this is the epsilon of the last iterate alone, however many steps: earlier ones stay in the folder"
    if spent["units_are"] == "public":
        of = spent["of_budget"]
        yield (f"  sampling.public_size is 0, and so the weights tell n, which counts each {spent['unit']} once: only "
               f"data sets of equal size are neighbours; {up(of['epsilon'])} of the budget is spent, "
               f"{of['adjacency']}")  # fmt: skip
    if paper := spent.get("published_accounting"):
        yield f"  the paper's accounting of this run: {paper['epsilon']:.3f} (optimistic)"


def shown(value: float | None) -> str:
    """A measured number; nothing where there is none."""
    return "" if value is None else f"{value:.4f}"
