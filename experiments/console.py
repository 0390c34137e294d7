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

from experiments.figures.style import GAUSSIAN_BOUNDS, GIBBS_BOUNDS, NAMES
from experiments.terminal import messages, output


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Yields advance(done, line=None): moves the bar to ``done`` and prints ``line`` above it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=messages, disable=not messages.is_terminal, transient=True) as bar:
        task = bar.add_task(description, total=total)

        def advance(done: int, line: str | None = None) -> None:
            bar.update(task, completed=done)
            if line:
                messages.print(line)

        yield advance


class DownloadBar:
    """A download as the data package drives it: a bar on a terminal, one line elsewhere; nothing if nothing comes."""

    def __init__(self) -> None:
        self.total: float | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def update(self, n: int, /) -> None:
        """Another ``n`` bytes have arrived."""
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._bar = Progress(*columns, console=messages, disable=not messages.is_terminal, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("downloading", total=self.total)
            if not messages.is_terminal:
                messages.print(f"downloading {'' if self.total is None else f'{self.total / 1e6:.1f} MB'}")
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
    parts = [f"step {row['step']}/{steps}", f"epoch {row['epochs']:.1f}", f"train loss {row['train_loss']:.4f}",
             f"error train {row['train_error']:.4f} test {row['test_error']:.4f}"]  # fmt: skip
    if "gibbs_train_error" in row:
        parts.append(f"Gibbs train {row['gibbs_train_error']:.4f} test {row['gibbs_test_error']:.4f}")
    if "kl_nats" in row:
        parts.append(f"KL {row['kl_nats']:.1f} nats" + (" (estimate below 0)" if row["kl_raw_nats"] < 0 else ""))
    if "dp_pac_bayes" in row.get("bounds", {}):
        parts.append(f"bound {row['bounds']['dp_pac_bayes']:.4f} (optimistic)")
    if "private_kl_chernoff" in row.get("bounds", {}):
        parts.append(f"bound {row['bounds']['private_kl_chernoff']:.4f} (rigorous)")
    return ", ".join(parts)


def print_report(report: dict[str, Any]) -> None:
    """The certificates as a table on standard output, with the cost of each term."""
    out = output()
    mean, gibbs, privacy = report["mean_classifier"], report["gibbs_classifier"], report["privacy"]
    test = f", test {mean['test']['error']:.4f}" if mean["test"] else ""
    out.print(f"n = {report['n']} training examples")
    out.print(f"mean classifier (the weights): 0-1 error train {mean['train']['error']:.4f}{test}")
    if gibbs:
        out.print(
            f"Gibbs classifier: 0-1 error train {gibbs['error']:.4f}, test {gibbs['test_error']:.4f}, over "
            f"{gibbs['draws']} draws ({gibbs['effective_draws']:.0f} effective); KL {gibbs['kl_nats']:.2f} nats"
            + (f" (the estimate was negative, {gibbs['kl_raw_nats']:.2f}; 0 is used)" if gibbs["kl_clipped"] else "")
        )
    if privacy:
        out.print(f"privacy: epsilon = {privacy['epsilon']:.6g}, {privacy['adjacency']}, {privacy['status']}")
    if spent := report.get("accounted_privacy"):
        out.print(
            f"privacy accounted for, converged or not: epsilon = {spent['epsilon_add_remove']:.4g} add-remove, "
            f"{spent['epsilon_replace_one']:.4g} replace-one, at delta = {spent['delta']:g}, over "
            f"{spent['mechanisms']} noisy steps; mu about {spent['mu_central_limit']:.4g} (central limit, no bound)"
        )
    if gaussian := report.get("gaussian_classifier"):
        tested = f", test {gaussian['test']['mean']:.4f}" if gaussian["test"] else ""
        out.print(
            f"Gaussian classifier N(weights, {gaussian['std']:.4g}² I): 0-1 error train {gaussian['train']['mean']:.4f}"
            f"{tested}, over {gaussian['train']['terms']} draws; KL {gaussian['kl_nats']:.2f} nats"
        )
    table = Table(title=f"certificates, each failing with probability at most {report['failure_prob']:g} by itself")
    for column in ("certificate", "of", "status"):
        table.add_column(column)
    for column in ("risk <=", "empirical", "KL / n", "privacy and confidence / n", "test error"):
        table.add_column(column, justify="right")
    for certificate in report["certificates"]:
        table.add_row(*_cells(certificate, report))
    out.print(table)
    for refusal in report["not_applicable"]:
        out.print(f"not applicable: {refusal['name']}: {refusal['reason']}")
    if report.get("diagnosis"):
        print_diagnosis(report["diagnosis"])
    assumptions = dict.fromkeys(a for c in report["certificates"] for a in c["assumptions"])
    for assumption in assumptions:
        out.print(f"optimistic means: {assumption}")


def print_diagnosis(diagnosis: dict[str, Any]) -> None:
    """What the chains' traces say of stationarity, a line a quantity, then every warning."""
    out = output()
    for name, seen in diagnosis["traces"].items():
        numbers = ", ".join(
            f"{label} {seen[key]:.3g}" for label, key in (
                ("R-hat", "r_hat"), ("effective draws", "effective_draws"), ("Kolmogorov-Smirnov p", "ks_p_value"),
                ("Geweke z", "geweke_z"),
            ) if seen[key] is not None
        )  # fmt: skip
        out.print(f"stationarity of the {name} ({seen['chains']} x {seen['steps']}): {numbers or 'too short to judge'}")
    for warning in diagnosis["warnings"]:
        out.print(f"  warning: {warning}")
    verdict = (
        "stationarity is refuted" if diagnosis["refuted"] else "stationarity is not refuted, which does not prove it"
    )
    out.print(f"  {verdict}")


def _cells(certificate: dict[str, Any], report: dict[str, Any]) -> list[str]:
    name, terms, inputs = certificate["name"], certificate["terms"], certificate["inputs"]
    of, classifier = _spoken_of(name, report)
    of, measures = inputs.get("of", of), inputs.get("measures", "0-1 risk")
    if of == "randomised":
        classifier = {"error": report["test_risk"]}
    test = classifier.get("error", classifier.get("mean")) if measures == "0-1 risk" and of != "one draw" else None
    costs = sum(value for key, value in terms.items()
                if key.endswith("_per_example") and not key.startswith(("kl_", "total_")))  # fmt: skip
    kl = terms.get("kl_per_example", terms.get("worst_kl_nats", 0.0) / inputs["n"])
    vacuous = " (vacuous)" if certificate["value"] >= 1.0 else ""
    return [
        NAMES.get(name, str(name)), of if measures == "0-1 risk" else f"{of}, {measures}", str(certificate["status"]),
        f"{certificate['value']:.4f}{vacuous}", f"{terms['empirical_risk']:.4f}" if "empirical_risk" in terms else "",
        f"{kl:.6f}" if of in ("Gibbs", "Gaussian", "randomised") else "",
        f"{costs:.6f}" if costs else "", f"{test:.4f}" if test is not None else "",
    ]  # fmt: skip


def _spoken_of(name: str, report: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The classifier that a certificate is about, and its errors on the test set."""
    gibbs = report["gibbs_classifier"]
    if name in GIBBS_BOUNDS:
        return "Gibbs", {"error": gibbs["test_error"]} if gibbs else {}
    if name in GAUSSIAN_BOUNDS:
        return "Gaussian", (report.get("gaussian_classifier") or {}).get("test") or {}
    return "mean weights", report["mean_classifier"]["test"] or {}
