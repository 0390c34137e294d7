"""The commands that carry out runs: train, compress."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from pacdp.cli.parsing import no_more
from pacdp.cli.runtime import Runtime, Scale, Training
from pacdp.cli.sweep.workers import Workers
from pacdp.cli.terminal import messages, usage, word


@dataclass(frozen=True, slots=True, kw_only=True)
class _Carried:
    """What is asked of every run."""

    out: Path | None = None
    """Folder of the run; by default runs/RECIPE-SCALE, or runs/compress-RECIPE-SCALE."""
    seed: int = 0
    resume: bool = False
    """Go on where the last checkpoint of --out stands."""
    force: bool = False
    """Overwrite the run in --out."""
    json: bool = False
    """Print result.json on standard output."""
    show: bool = False
    """Print the run's configuration and carry out nothing."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def how(self, **more: Any) -> Training:
        """How the run is trained, as far as the command line says."""
        from pacdp.cli.console import DownloadBar

        return Training.on(
            self.runtime,
            resume=self.resume,
            force=self.force,
            progressbar=DownloadBar(),
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(_Carried):
    """Train a recipe. Any field of its run can be set: --epochs 5 --sampler.tau 100 --problem.random-labels 1."""

    recipe: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RECIPE")] = None
    """ALGORITHM-DATASET, such as entropy-sgld-mnist2 or dp-sgld-mnist; left out, --resume takes it from --out."""
    scale: Scale = "smoke"
    """smoke: seconds; cpu: two cores; paper: the paper's settings, on a GPU."""
    chains: int = 1
    """Independent chains of the run, each with first weights, minibatches and noise of its own, in --out/chain-00 and
    so on; their diagnostics go to --out/diagnosis.json."""
    workers: tyro.conf.OmitArgPrefixes[Workers] = field(default_factory=Workers)
    ledger: Path | None = None
    """The privacy ledger that counts the steps of a private recipe, or of a chain with a clip norm, before their noise
    is drawn; by default the folder ledger beside --out. Data sets that share rows share a ledger."""
    no_ledger: bool = False
    """Count these steps nowhere."""
    fields: bool = False
    """List the fields of the recipe's run that can be set, with their values, and train nothing."""

    def __call__(self, rest: list[str]) -> None:
        """Train the recipe's run, or as many of them as there are chains."""
        from pacdp.cli.chains import chain_folder, train_chains
        from pacdp.cli.config import Run
        from pacdp.cli.console import print_diagnosis, print_private, showing
        from pacdp.cli.kinds import carried_out
        from pacdp.cli.serial import to_dict

        if self.chains == 1 and self.workers.limit is not None:
            usage(
                "--limit goes with --chains: one run is stopped by Ctrl-C, and goes on with --resume"
            )
        if self.recipe == "[]":  # which tyro makes of one that is missing or comes after fields
            usage("give the recipe first, then the fields of its run")
        config, out = self._asked(rest)
        if self.show:
            print(json.dumps(to_dict(config), indent=2))
            return
        alone = self.chains == 1 and self.workers.here
        if not (alone or isinstance(config, Run)):
            raise ValueError("a private recipe is one run: leave --chains, --workers and --dask; every further run on "
                             "the same data spends its own epsilon")  # fmt: skip
        how = self.how(ledger=self._counted_in(config, out))
        if isinstance(config, Run) and not alone:
            result = train_chains(config, out, how, self.chains, self.workers)
            out = chain_folder(out, 0)
            if result["diagnosis"] and not self.json:
                print_diagnosis(result["diagnosis"])
        else:
            with showing(config.title) as report:
                result = carried_out(config, out, how.heard(report))
        if self.json:
            print(json.dumps(result, allow_nan=False))
        elif "privacy" in result:
            print_private(result)
        if not config.promising:
            messages.print(f"finished {out}; next: pacdp certify {word(out)}")
            return
        counted = (
            "counted in no ledger"
            if how.ledger is None
            else f"counted in {how.ledger} (pacdp ledger show)"
        )
        messages.print(f"finished {out}, {counted}; the folder is private")
        messages.print(
            f"next: pacdp certify {word(out)} for your eyes, pacdp export {word(out)} OUT for what may be published"
        )

    def _asked(self, rest: list[str]) -> tuple[Any, Path]:
        """The run's configuration and where it goes."""
        from pacdp.cli.chains import chain_folder
        from pacdp.cli.kinds import config_in, recipe_of
        from pacdp.cli.overrides import overridden
        from pacdp.cli.private.recipes import PRIVATE_RECIPES
        from pacdp.cli.recipes import RECIPES

        if self.recipe is not None:
            made = recipe_of(self.recipe, scale=self.scale, seed=self.seed)
            config = overridden(made, ["--help"] if self.fields else rest)
            return config, self.out or Path("runs") / f"{self.recipe}-{self.scale}"
        if self.resume and self.out is not None:
            no_more(rest)
            return config_in(chain_folder(self.out, 0) if self.chains > 1 else self.out), self.out
        known = ", ".join(sorted({**RECIPES, **PRIVATE_RECIPES}))
        usage(f"give a recipe, or --resume with --out; recipes: {known}")

    def _counted_in(self, config: Any, out: Path) -> Path | None:
        """The folder of the ledger that counts the run's steps."""
        from pacdp.cli.private.books import beside, counted_beside

        if self.ledger is not None and self.no_ledger:
            raise ValueError("--ledger and --no-ledger contradict each other: give one of them")
        if config.promising and not self.no_ledger:
            return self.ledger or (counted_beside(out) if self.resume else beside(out))
        if not config.promising and (self.ledger is not None or self.no_ledger):
            raise ValueError(f"--ledger and --no-ledger go with runs that promise privacy: {config.algorithm} has no "
                             "clip norm")  # fmt: skip
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress(_Carried):
    """Run a learner on examples that it picks itself and certify it on all of them: no prior, nothing held out.

    Any field of the run can be set: --groups.sizes 5 --learner.steps 30 --problem.random-labels 1.
    """

    recipe: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RECIPE")] = None
    """LEARNER-DATASET, such as entropy-sgd-mnist2 or kernel-mnist; left out, --resume takes it from --out."""
    scale: Scale = "smoke"
    """smoke: seconds; cpu: two cores, minutes; paper: smaller groups."""

    def __call__(self, rest: list[str]) -> None:
        """Compress the sample, or go on with a run that was interrupted, and certify the network."""
        from bounds.sentence import up
        from pacdp.cli.compressing import run
        from pacdp.cli.console import showing
        from pacdp.cli.serial import to_dict

        config, out = self._asked(rest)
        if self.show:
            print(json.dumps(to_dict(config), indent=2))
            return
        with showing(config.title) as report:
            result = run(config, out, self.how().heard(report))
        if self.json:
            print(json.dumps(result, allow_nan=False))
        kept = (result["final"] or {}).get("kept", 0)
        messages.print(f"kept {kept} of {result['n']} records: error at most {up(result['value'])}")
        messages.print(f"finished {out}; next: pacdp certify {word(out)}")

    def _asked(self, rest: list[str]) -> tuple[Any, Path]:
        """The run's configuration and where it goes."""
        from pacdp.cli.compressing import Compression
        from pacdp.cli.compression_recipes import RECIPES, recipe
        from pacdp.cli.folder import Folder
        from pacdp.cli.overrides import overridden

        if self.recipe is not None:
            made = recipe(self.recipe, scale=self.scale, seed=self.seed)
            out = self.out or Path("runs") / f"compress-{self.recipe}-{self.scale}"
            return overridden(made, rest), out
        if self.resume and self.out is not None:
            no_more(rest)
            return Folder(self.out).config_of(Compression), self.out
        usage(f"give a recipe, or --resume with --out; recipes: {', '.join(RECIPES)}")
