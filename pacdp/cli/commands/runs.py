"""The commands that train and certify: demo, train, certify."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from pacdp import Settings, load_checkpoint
from pacdp.cli import certifying
from pacdp.cli.compressing import certified, is_compression
from pacdp.cli.config import Run, Runtime
from pacdp.cli.console import DownloadBar, print_diagnosis, print_report, progress, row_line
from pacdp.cli.diagnosing import chain_folder, diagnose_checkpoints
from pacdp.cli.folder import Folder, read_json, write_json
from pacdp.cli.foreign import Foreign, certify_foreign
from pacdp.cli.overrides import overridden
from pacdp.cli.parsing import no_more
from pacdp.cli.private.books import beside, counted_beside
from pacdp.cli.private.command import (
    holds_private_run,
    is_private,
    tell_private,
    train_private_recipe,
)
from pacdp.cli.private.recipes import PRIVATE_RECIPES
from pacdp.cli.recipes import RECIPES, Scale, recipe
from pacdp.cli.replacing import require_replaceable, write_report
from pacdp.cli.run import train
from pacdp.cli.serial import from_dict, to_dict
from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import chains_kind
from pacdp.cli.sweep.workers import Workers
from pacdp.cli.terminal import messages, usage, word


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """Train a network on the embedded digits, certify its error on new ones, draw it beside Entropy-SGLD's bound."""

    out: Path = Path("runs/demo")
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def __call__(self, rest: list[str]) -> None:
        """Train and certify the demonstration's network and show its figure."""
        no_more(rest)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """Train a recipe. Any field of its run can be set: --epochs 5 --sampler.tau 100 --problem.random-labels 1."""

    recipe: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RECIPE")] = None
    """ALGORITHM-DATASET, such as entropy-sgld-mnist2 or dp-sgld-mnist; left out, --resume takes it from --out."""
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
    ledger: Path | None = None
    """The privacy ledger that counts the steps of a private recipe, or of a chain with a clip norm, before their noise
    is drawn; by default the folder ledger beside --out. Data sets that share rows share a ledger."""
    no_ledger: bool = False
    """Count these steps nowhere."""
    json: bool = False
    """Print result.json on standard output."""
    show: bool = False
    """Print the run's configuration and train nothing."""
    fields: bool = False
    """List the fields of the recipe's run that can be set, with their values, and train nothing."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def __call__(self, rest: list[str]) -> None:
        """Train the recipe's run, or as many of them as there are chains."""
        if self.chains == 1 and self.workers.limit is not None:
            usage(
                "--limit goes with --chains: one run is stopped by Ctrl-C, and goes on with --resume"
            )
        if (
            self.recipe == "[]"
        ):  # what tyro makes of a recipe that is missing or preceded by fields of its run
            usage("give the recipe first, then the fields of its run")
        if self.private:
            train_private_recipe(
                self.recipe, rest, scale=self.scale, out=self.out, seed=self.seed, runtime=self.runtime,
                resume=self.resume, force=self.force, as_json=self.json, show=self.show, fields=self.fields,
                alone=self.chains == 1 and self.workers == Workers(), ledger=self.ledger, uncounted=self.no_ledger,
            )  # fmt: skip
            return
        if self.recipe is not None:
            rest = ["--help"] if self.fields else rest
            run = overridden(recipe(self.recipe, scale=self.scale, seed=self.seed), rest)
            out = self.out or Path("runs") / f"{self.recipe}-{self.scale}"
        elif self.resume and self.out is not None:
            no_more(rest)
            one = chain_folder(self.out, 0) if self.chains > 1 else self.out
            run, out = from_dict(Run, read_json(Folder(one).config)), self.out
        else:
            known = ", ".join(sorted({**RECIPES, **PRIVATE_RECIPES}))
            usage(f"give a recipe, or --resume with --out; recipes: {known}")
        if self.show:
            print(json.dumps(to_dict(run), indent=2))
            return
        ledger = self._counted_in(run, out)
        if self.chains != 1 or not self.workers.here:
            result = _train_chains(run, out, self.runtime, self.chains, self.workers, resume=self.resume,
                                   force=self.force, ledger=ledger)  # fmt: skip
            out = chain_folder(out, 0)
            if result["diagnosis"] and not self.json:
                print_diagnosis(result["diagnosis"])
        else:
            result = _train(
                run, out, self.runtime, resume=self.resume, force=self.force, ledger=ledger
            )
        if self.json:
            print(json.dumps(result, allow_nan=False))
        if run.promising:
            tell_private(out, ledger)
        else:
            messages.print(f"finished {out}; next: pacdp certify {word(out)}")

    def _counted_in(self, run: Run, out: Path) -> Path | None:
        """The folder of the ledger that counts the run's steps."""
        if self.ledger is not None and self.no_ledger:
            raise ValueError("--ledger and --no-ledger contradict each other: give one of them")
        if run.promising:
            return (
                None
                if self.no_ledger
                else self.ledger or (counted_beside(out) if self.resume else beside(out))
            )
        if self.ledger is not None or self.no_ledger:
            raise ValueError(f"--ledger and --no-ledger go with runs that promise privacy: {run.algorithm} has no clip "
                             "norm")  # fmt: skip
        return None

    @property
    def private(self) -> bool:
        """Whether the recipe, or what --out holds, is a private run."""
        if self.recipe is not None:
            return self.recipe in PRIVATE_RECIPES
        return self.resume and self.out is not None and holds_private_run(self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certify:
    """Certify a checkpoint: every bound that applies, the optimistic ones labelled, and why the others do not.

    Weights that pacdp did not train: pacdp certify weights.safetensors --model package.module:factory --data
    package.module:bound_set, on examples that are new to them; and with --prior prior.safetensors --std 0.01 and how
    the prior was made, on examples that the weights may have seen.

    Predictions of any model, without its weights: pacdp certify --predictions FILE, whose options are listed by
    pacdp certify --predictions FILE --help.
    """

    path: tyro.conf.Positional[Path]
    """A checkpoint or the run folder that holds it."""
    out: Path | None = None
    """Where to write the report; by default certificates.json beside the checkpoint. An earlier report that differs is
    kept as NAME.1, NAME.2, ...; another file is not overwritten."""
    json: bool = False
    """Print the report as JSON instead of a table."""
    failure_prob: float | None = None
    """The probability with which each certificate may fail, before it is divided by --tried; by default the run's, or
    0.05."""
    tried: int = 1
    """How many settings were tried on the examples that the bound counts before these were chosen: certificates pay for
    each. Nothing is to be paid for settings that were chosen on other examples."""
    epochs: float | None = None
    """Length of the SGLD run on the Gibbs posterior, in passes over the data."""
    alpha: float | None = None
    """Weight of the newest draw in its averages; 0 weighs all alike."""
    burn_in: float | None = None
    """Share of that run thrown away."""
    prior_draws: int | None = None
    seed: int = 0
    foreign: tyro.conf.OmitArgPrefixes[Foreign] = field(default_factory=Foreign)
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def __call__(self, rest: list[str]) -> None:
        """Certify the run, or a network of a stranger's, and write the report."""
        no_more(rest)
        if self.failure_prob is not None and not 0.0 < self.failure_prob < 1.0:
            raise ValueError(
                f"--failure-prob must lie strictly between 0 and 1, got {self.failure_prob}: 0.05 is customary"
            )
        out = self.out or _beside(self.path)
        require_replaceable(out)
        with progress("certifying", 1000) as advance:
            report = self._report(lambda done, total: advance(1000 * done // total))
        write_report(out, report)
        if self.json:
            print(json.dumps(report, allow_nan=False))
        else:
            print_report(report)

    def _report(self, advance: Callable[[int, int], None]) -> dict[str, Any]:
        common: dict[str, Any] = {"seed": self.seed, "progress": advance}
        failure_prob = 0.05 if self.failure_prob is None else self.failure_prob
        if self.foreign.given:
            self.runtime.apply()
            return certify_foreign(
                self.path, self.foreign, failure_prob=failure_prob, device=self.runtime.device, tried=self.tried,
                **common,
            )  # fmt: skip
        if is_private(self.path):
            from pacdp.cli.private.certify import certify_private

            return certify_private(
                self.path,
                self.runtime,
                failure_prob=failure_prob,
                std=self.foreign.std,
                tried=self.tried,
                **common,
            )
        if is_compression(self.path):
            return certified(
                self.path, self.runtime, failure_prob=self.failure_prob, tried=self.tried
            )
        given = {
            name: getattr(self, name) for name in ("epochs", "alpha", "burn_in", "prior_draws")
        }
        effort = {name: value for name, value in given.items() if value is not None}
        return certifying.certify(
            self.path, self.runtime, failure_prob=self.failure_prob, effort=effort, unlisted=Settings.tried(self.tried),
            **common,
        )  # fmt: skip


def _train(
    run: Run,
    out: Path,
    runtime: Runtime,
    *,
    resume: bool,
    force: bool,
    ledger: Path | None = None,
) -> dict[str, Any]:
    with progress(f"{run.algorithm} on {run.problem.dataset}", 1000) as advance:

        def report(step: int, steps: int, row: dict[str, Any] | None) -> None:
            advance(1000 * step // steps, row_line(row, steps) if row else None)

        return train(
            run,
            out,
            runtime,
            resume=resume,
            force=force,
            report=report,
            progressbar=DownloadBar(),
            ledger=ledger,
        )


def _train_chains(
    run: Run,
    out: Path,
    runtime: Runtime,
    chains: int,
    workers: Workers,
    *,
    resume: bool,
    force: bool,
    ledger: Path | None,
) -> dict[str, Any]:
    """Chains 0, 1, ... of a run, each in its own folder, over the workers; then their diagnosis."""
    if chains < 1:
        raise ValueError(f"expected chains >= 1, got {chains}")
    runs = [replace(run, chain=chain) for chain in range(chains)]
    outs = [chain_folder(out, chain) for chain in range(chains)]
    if not (resume or force) and any(Folder(one).started for one in outs):
        raise ValueError(
            f"{out} holds chains: continue them with --resume, or overwrite them with --force"
        )
    require_replaceable(out / "diagnosis.json", "diagnosis")
    runtime = (
        runtime if runtime.threads else replace(runtime, threads=1)
    )  # the same numbers with any workers
    failed: dict[str, list[int]] = {}
    with progress(f"{chains} chains of {run.algorithm} on {run.problem.dataset}", 1000) as advance:

        def report(step: int, steps: int, row: dict[str, Any] | None) -> None:
            advance(1000 * step // steps, row_line(row, steps) if row else None)

        kind = chains_kind(force=force, report=report if workers.here else None, ledger=ledger)
        jobs = [
            Job(key=one.name, kind=kind, config=run) for one, run in zip(outs, runs, strict=True)
        ]
        for chain, error in carry_out(jobs, outs, runtime, workers=workers, force=force):
            if error:
                failed.setdefault(error, []).append(chain)
    if failed:
        raise RuntimeError("; ".join(
            error if len(which) == chains else f"chain {', '.join(map(str, sorted(which)))}: {error}"
            for error, which in failed.items()
        ))  # fmt: skip
    diagnosis = diagnose_checkpoints([load_checkpoint(one) for one in outs])
    found = diagnosis.to_dict() if diagnosis else None
    write_json(
        out / "diagnosis.json",
        {"format": "pacdp-diagnosis/1", "chains": chains, "diagnosis": found},
    )
    results = [read_json(Folder(one).result) for one in outs]
    return {"format": "pacdp-results/1", "chains": results, "diagnosis": found}


def _beside(path: Path) -> Path:
    """Where the report of a checkpoint or of its folder goes."""
    return (path if path.is_dir() else path.parent) / "certificates.json"
