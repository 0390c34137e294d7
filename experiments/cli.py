"""The command `pacdp`."""

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import polars as pl
import tyro

from experiments import calculator, certifying, random_labels
from experiments.calculator_tables import print_certificate, print_comparison, print_plan
from experiments.config import Run, Runtime
from experiments.console import DownloadBar, messages, print_diagnosis, print_report, progress, row_line
from experiments.diagnosing import chain_folder, diagnose_checkpoints
from experiments.fleet import Workers, carry_out
from experiments.folder import Folder, read_json, write_json
from experiments.recipes import RECIPES, Scale, recipe
from experiments.run import train
from pacdp import load_checkpoint
from pacdp.data import NAMES, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """Train Entropy-SGLD on the embedded digits, certify its checkpoint, draw bound against test error."""

    out: Path = Path("runs/demo")
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def __call__(self, rest: list[str]) -> None:
        _no_more(rest)
        run = recipe("entropy-sgld-digits2", scale="smoke")
        _train(run, self.out, self.runtime, resume=False, force=True)
        report = _certify(self.out, self.runtime)
        print_report(report)
        for path in certifying.plot(Folder(self.out)):
            print(f"wrote {path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """Train a recipe. Any field of its run can be set: --epochs 5 --sampler.tau 100 --problem.random-labels 1."""

    recipe: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RECIPE")] = None
    """ALGORITHM-DATASET, such as entropy-sgld-mnist2; left out, --resume takes it from --out."""
    scale: Scale = "smoke"
    """smoke: seconds; cpu: two cores; paper: the paper's settings, on a GPU."""
    out: Path | None = None
    """Folder of the run; by default runs/RECIPE-SCALE."""
    seed: int = 0
    resume: bool = False
    """Go on where the last checkpoint of --out stands."""
    force: bool = False
    """Overwrite the run in --out."""
    chains: int = 1
    """Independent chains of the run, each with first weights, minibatches and noise of its own, in --out/chain-00 and
    so on; their diagnostics go to --out/diagnosis.json."""
    workers: tyro.conf.OmitArgPrefixes[Workers] = field(default_factory=Workers)
    json: bool = False
    """Print result.json on standard output."""
    show: bool = False
    """Print the run's configuration and train nothing."""
    fields: bool = False
    """List the fields of the recipe's run that can be set, with their values, and train nothing."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def __call__(self, rest: list[str]) -> None:
        if self.recipe == "[]":  # what tyro makes of a recipe that is missing or preceded by fields of its run
            _usage("give the recipe first, then the fields of its run")
        if self.recipe is not None:
            rest = ["--help"] if self.fields else rest
            run = _overridden(recipe(self.recipe, scale=self.scale, seed=self.seed), rest)
            out = self.out or Path("runs") / f"{self.recipe}-{self.scale}"
        elif self.resume and self.out is not None:
            _no_more(rest)
            one = chain_folder(self.out, 0) if self.chains > 1 else self.out
            run, out = Run.from_dict(read_json(Folder(one).config)), self.out
        else:
            _usage(f"give a recipe, or --resume with --out; recipes: {', '.join(sorted(RECIPES))}")
        if self.show:
            print(json.dumps(run.to_dict(), indent=2))
            return
        if self.chains != 1 or self.workers.workers > 1 or self.workers.backend != "processes":
            result = _train_chains(run, out, self.runtime, self.chains, self.workers, resume=self.resume,
                                   force=self.force)  # fmt: skip
            out = chain_folder(out, 0)
            if result["diagnosis"] and not self.json:
                print_diagnosis(result["diagnosis"])
        else:
            result = _train(run, out, self.runtime, resume=self.resume, force=self.force)
        if self.json:
            print(json.dumps(result, allow_nan=False))
        messages.print(f"finished {out}; next: pacdp certify {out}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certify:
    """Certify a checkpoint: every bound that applies, the optimistic ones labelled, and why the others do not."""

    path: tyro.conf.Positional[Path]
    """A checkpoint or the run folder that holds it."""
    out: Path | None = None
    """Where to write the report; by default certificates.json beside the checkpoint."""
    json: bool = False
    """Print the report as JSON instead of a table."""
    failure_prob: float | None = None
    """Of each certificate; by default the run's."""
    epochs: float | None = None
    """Length of the SGLD run on the Gibbs posterior, in passes over the data."""
    alpha: float | None = None
    """Weight of the newest draw in its averages; 0 weighs all alike."""
    burn_in: float | None = None
    """Share of that run thrown away."""
    prior_draws: int | None = None
    seed: int = 0
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def __call__(self, rest: list[str]) -> None:
        _no_more(rest)
        given = {name: getattr(self, name) for name in ("epochs", "alpha", "burn_in", "prior_draws")}
        report = _certify(self.path, self.runtime, failure_prob=self.failure_prob, out=self.out, seed=self.seed,
                          effort={name: value for name, value in given.items() if value is not None})  # fmt: skip
        if self.json:
            print(json.dumps(report, allow_nan=False))
        else:
            print_report(report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A calculator: one bound from its ingredients, all that apply compared, or what a target takes.

    pacdp bound maurer --risk 0.02 --kl-nats 3000 --n 60000;  pacdp bound compare ... sorts every applicable bound and
    says what each assumes;  pacdp bound plan --target 0.05 ... says how many examples or draws that takes.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """A bound, or compare, or plan; its own options: pacdp bound NAME --options."""
    json: bool = False
    """Print JSON."""
    options: bool = False
    """List what can be given, and compute nothing."""

    def __call__(self, rest: list[str]) -> None:
        rest = ["--help"] if self.options else rest
        kind = calculator.Goal if self.name == "plan" else calculator.Given
        given = tyro.cli(kind, args=rest, prog=f"pacdp bound {self.name} --options")
        match self.name:
            case "compare":
                print_comparison(*calculator.compare(given), json_only=self.json)
            case "plan":
                assert isinstance(given, calculator.Goal)
                print_plan(given, json_only=self.json)
            case name:
                print_certificate(calculator.compute(name, given), json_only=self.json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Draw the figure of a run (training and certificates) or of an experiment's table, into its folder."""

    path: tyro.conf.Positional[Path]
    """A run folder, or the folder of an experiment's results."""

    def __call__(self, rest: list[str]) -> None:
        _no_more(rest)
        if (self.path / "table.csv").is_file():
            table = pl.read_csv(self.path / "table.csv", infer_schema_length=None)
            written = random_labels.draw(table, self.path)
        else:
            written = certifying.plot(Folder(self.path))
        for path in written:
            print(f"wrote {path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Find, verify and if need be download data sets; print what they are."""

    names: tyro.conf.Positional[tuple[str, ...]] = NAMES
    root: str | None = None
    """Folder to look in first; then PACDP_DATA, the user's cache, the mirrors."""
    json: bool = False

    def __call__(self, rest: list[str]) -> None:
        _no_more(rest)
        found: list[dict[str, Any]] = []
        for name in self.names:
            for role, data in zip(
                ("train", "test"), load(name, root=self.root, progressbar=DownloadBar()), strict=True
            ):
                shape = "x".join(str(size) for size in data.inputs.shape[1:])
                found.append({"name": name, "role": role, "n": data.n, "shape": shape, "classes": data.classes,
                              "sha256": data.hash})  # fmt: skip
        if self.json:
            print(json.dumps(found))
            return
        for row in found:
            size = f"{row['n']:6} examples of {row['shape']:8} {row['classes']:3} classes"
            print(f"{row['name']:8} {row['role']:6} {size} sha256 {row['sha256'][:16]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Carry out an experiment: its runs, figure, table, configuration and provenance."""

    name: tyro.conf.Positional[str]
    """random-labels"""
    scale: Scale = "smoke"
    workers: tyro.conf.OmitArgPrefixes[Workers] = field(default_factory=Workers)
    out: Path | None = None
    """Where figure and table go; by default experiments/results/NAME/SCALE."""
    runs: Path = Path("runs")
    """Where the runs' folders go; finished ones are not run again."""
    seed: int = 0
    json: bool = False
    """Print the summary as JSON."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=lambda: Runtime(threads=1))

    def __call__(self, rest: list[str]) -> None:
        _no_more(rest)
        if self.name != "random-labels":
            _usage(f"no experiment is called {self.name!r}; there is random-labels")
        out = self.out or Path("experiments/results") / self.name / self.scale
        plan = random_labels.cells(self.scale, self.seed)
        folder = self.runs / f"{self.name}-{self.scale}"
        failed = []
        with progress(f"{self.name} ({self.scale})", len(plan)) as advance:
            for done, (cell, error) in enumerate(
                random_labels.conduct(plan, folder, self.runtime, workers=self.workers), start=1
            ):
                label = f"{cell.run.algorithm} noise {cell.thermal_noise:.3g} {cell.labels} labels"
                rows = Folder(folder / cell.run.key).rows()
                state = f"FAILED: {error}" if error else row_line(rows[-1], rows[-1]["step"])
                advance(done, f"[{done}/{len(plan)}] {label}: {state}")
                failed += [cell] if error else []
        summary = random_labels.publish(plan, folder, out, scale=self.scale, device=self.runtime.device, seed=self.seed)
        if self.json:
            print(json.dumps(summary, allow_nan=False))
        else:
            print(f"{summary['rows']} rows, {summary['bounds_compared']} bounds compared with test errors, "
                  f"{len(summary['violations'])} below them")  # fmt: skip
            for row in summary["violations"]:
                print(f"  bound below test error: {row}")
            print(f"wrote figure, table, configuration and provenance to {out}")
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(plan)} runs failed, as said above; the rest is written")


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Certify, tyro.conf.subcommand("certify")]
    | Annotated[Bound, tyro.conf.subcommand("bound")]
    | Annotated[Plot, tyro.conf.subcommand("plot")]
    | Annotated[Data, tyro.conf.subcommand("data")]
    | Annotated[Experiment, tyro.conf.subcommand("experiment")]
)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit status: 0 success, 1 an error (one sentence on standard error), 2 usage, 130 Ctrl-C."""
    command, rest = tyro.cli(
        Command,  # type: ignore[arg-type]
        args=arguments, prog="pacdp", return_unknown_args=True,
        config=(tyro.conf.FlagCreatePairsOff,),
        description="Risk certificates for trained networks, and what their training reveals.",
    )  # fmt: skip
    try:
        command(rest)
    except (ValueError, RuntimeError, OSError) as error:
        messages.print(f"pacdp: {error}", style="red" if messages.is_terminal else None, markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        messages.print("pacdp: stopped; a training run goes on with --resume from its last checkpoint")
        sys.exit(130)


def _train(run: Run, out: Path, runtime: Runtime, *, resume: bool, force: bool) -> dict[str, Any]:
    with progress(f"{run.algorithm} on {run.problem.dataset}", 1000) as advance:

        def report(step: int, steps: int, row: dict[str, Any] | None) -> None:
            advance(1000 * step // steps, row_line(row, steps) if row else None)

        return train(run, out, runtime, resume=resume, force=force, report=report, progressbar=DownloadBar())


def _train_chains(
    run: Run, out: Path, runtime: Runtime, chains: int, workers: Workers, *, resume: bool, force: bool
) -> dict[str, Any]:
    """Chains 0, 1, ... of a run, each in its own folder, over the workers; then their diagnosis."""
    if chains < 1:
        raise ValueError(f"expected chains >= 1, got {chains}")
    runs = [replace(run, chain=chain) for chain in range(chains)]
    outs = [chain_folder(out, chain) for chain in range(chains)]
    if not (resume or force) and any(Folder(one).started for one in outs):
        raise ValueError(f"{out} holds chains: continue them with --resume, or overwrite them with --force")
    runtime = runtime if runtime.threads else replace(runtime, threads=1)  # the same numbers with any workers
    failed: dict[str, list[int]] = {}
    with progress(f"{chains} chains of {run.algorithm} on {run.problem.dataset}", 1000) as advance:

        def report(step: int, steps: int, row: dict[str, Any] | None) -> None:
            advance(1000 * step // steps, row_line(row, steps) if row else None)

        for chain, error in carry_out(runs, outs, runtime, workers=workers, force=force, report=report):
            if error:
                failed.setdefault(error, []).append(chain)
    if failed:
        raise RuntimeError("; ".join(
            error if len(which) == chains else f"chain {', '.join(map(str, sorted(which)))}: {error}"
            for error, which in failed.items()
        ))  # fmt: skip
    diagnosis = diagnose_checkpoints([load_checkpoint(one) for one in outs])
    found = diagnosis.to_dict() if diagnosis else None
    write_json(out / "diagnosis.json", {"format": "pacdp-diagnosis/1", "chains": chains, "diagnosis": found})
    results = [read_json(Folder(one).result) for one in outs]
    return {"format": "pacdp-results/1", "chains": results, "diagnosis": found}


def _certify(
    path: Path, runtime: Runtime, *, failure_prob: float | None = None, out: Path | None = None, seed: int = 0,
    effort: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    with progress("certifying", 1000) as advance:
        report = certifying.certify(
            path, runtime, failure_prob=failure_prob, effort=effort or {}, seed=seed,
            progress=lambda done, total: advance(1000 * done // total),
        )  # fmt: skip
    write_json(out or (path if path.is_dir() else path.parent) / "certificates.json", report)
    return report


def _overridden(run: Run, rest: list[str]) -> Run:
    if not rest:
        return run
    return tyro.cli(
        Run, default=run, args=rest, prog="pacdp train RECIPE --fields", config=(tyro.conf.AvoidSubcommands,)
    )


def _no_more(rest: list[str]) -> None:
    if rest:
        _usage(f"unknown arguments: {' '.join(rest)}")


def _usage(sentence: str) -> NoReturn:
    messages.print(f"pacdp: {sentence}", markup=False)
    sys.exit(2)


if __name__ == "__main__":
    main()
