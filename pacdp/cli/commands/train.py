"""The commands that carry out runs: train, compress."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from pacdp.cli.runtime import Scale, Training, require_unset
from pacdp.cli.serial import Values, record
from pacdp.cli.sweep.workers import Workers, serve
from pacdp.cli.terminal import messages, usage, word


@record
class _Carried:
    """What is asked of every run."""

    recipe: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RECIPE")] = None
    """What learns, and from what: entropy-sgld-mnist2 or dp-sgd-mnist to train, entropy-sgd-mnist2 or kernel-mnist to
    compress; left out, --resume takes it from --out."""
    scale: Scale = "smoke"
    """smoke: seconds; cpu: two cores; paper: the paper's settings on a GPU, or smaller groups of a compression."""
    out: Path | None = None
    """Folder of the run; by default runs/RECIPE-SCALE, or runs/compress-RECIPE-SCALE."""
    seed: int = 0
    no_ledger: bool = False
    """Count the steps of a run that promises privacy nowhere."""
    json: bool = False
    """Print result.json on standard output."""
    show: bool = False
    """Print the run's configuration and carry out nothing."""
    fields: bool = False
    """List the fields of the recipe's run that can be set, with their values, and carry out nothing."""
    how: tyro.conf.OmitArgPrefixes[Training] = Training()
    FIELDS: ClassVar[bool] = True

    def __call__(self, words: list[str]) -> None:
        """Carry out the recipe's run, or go on with the one in --out."""
        from pacdp.cli.console import Downloads
        from pacdp.cli.serial import to_dict

        if self.recipe == "[]":  # which tyro makes of one that is missing or comes after fields
            usage("give the recipe first, then the fields of its run")
        config, out = self._asked(words)
        if self.show:
            print(json.dumps(to_dict(config), indent=2))
            return
        if self.how.resume and not out.exists():
            messages.print(
                f"{out} is not there, so that there is nothing to go on with: a new run begins"
            )
        how = replace(self.how, ledger=self._counted_in(config, out), progressbar=Downloads)
        result = self.carried(config, out, how)
        if self.json:
            print(json.dumps(result, allow_nan=False))

    def _asked(self, words: list[str]) -> tuple[Any, Path]:
        """The run's configuration and where it goes."""
        from pacdp.cli.certifying import chain_folder
        from pacdp.cli.kinds import config_in, overridden, recipe_of, recipes

        compressed = isinstance(self, Compress)
        if self.recipe is not None:
            config = recipe_of(self.recipe, compressed=compressed, scale=self.scale, seed=self.seed)
            named = f"{'compress-' * compressed}{self.recipe}-{self.scale}"
            out = self.out or Path("runs") / named
        elif self.how.resume and self.out is not None:
            require_unset(self, "seed", "scale", by="to go on with a run, whose folder says both")
            out, several = self.out, isinstance(self, Train) and self.chains > 1
            config = config_in(chain_folder(out, 0) if several else out)
            if compressed and config.KIND != "compression":  # which no ledger would count
                raise ValueError(f"{out} holds no compression: go on with it by pacdp train")
        else:
            known = ", ".join(recipes(compressed=compressed))
            usage(f"give a recipe, or --resume with --out; recipes: {known}")
        return overridden(config, ["--help"] if self.fields else words), out

    def carried(self, config: Any, out: Path, how: Training) -> Values:
        """Carry out one run and show how it goes."""
        from pacdp.cli.console import showing
        from pacdp.cli.kinds import carried_out

        with showing(config.title) as report:
            return carried_out(config, out, replace(how, report=report))

    def _counted_in(self, config: Any, out: Path) -> Path | None:
        """The folder of the ledger that counts the run's steps."""
        from pacdp.cli.private.books import beside, counted_beside

        named = self.how.ledger
        if named is not None and self.no_ledger:
            raise ValueError("--ledger and --no-ledger contradict each other: give one of them")
        if not config.promising:
            if named is not None or self.no_ledger:
                raise ValueError(f"--ledger and --no-ledger go with runs that promise privacy: {config.algorithm} has "
                                 "no clip norm")  # fmt: skip
            return None
        if self.no_ledger:
            return None
        return named or (counted_beside(out) if self.how.resume else beside(out))


@record
class Train(_Carried):
    """Train a recipe. Any field of its run can be set: --epochs 5 --sampler.tau 100 --problem.random-labels 1."""

    chains: int = 1
    """Independent chains of the run, each with first weights, minibatches and noise of its own, in --out/chain-00 and
    so on; their diagnostics go to --out/diagnosis.json."""
    workers: tyro.conf.OmitArgPrefixes[Workers] = Workers()

    def __call__(self, words: list[str]) -> None:
        """Carry out the recipe's run, or go on with the one in --out."""
        told = self.show or self.fields
        if not (told or self.workers.here or self.workers.dask):
            serve(self.workers.workers)  # it imports beside this process
        _Carried.__call__(self, words)

    def carried(self, config: Any, out: Path, how: Training) -> Values:
        """Train the recipe's run, or as many of them as there are chains."""
        from pacdp.cli.certifying import chain_folder, train_chains
        from pacdp.cli.config import Run
        from pacdp.cli.console import diagnosed, private
        from pacdp.cli.folder import Folder

        if self.chains == 1 and self.workers.here:
            if any(out.glob("chain-*/config.json")) and not Folder(out).started:
                raise ValueError(
                    f"{out} holds chains: give --chains as before, or choose another --out"
                )
            result = _Carried.carried(self, config, out, how)
        elif isinstance(config, Run):
            if self.chains == 1 and self.workers.limit is not None:
                usage(
                    "--limit goes with --chains: one run is stopped by Ctrl-C, and goes on with --resume"
                )
            result = train_chains(config, out, how, self.chains, self.workers)
            out = chain_folder(out, 0)
            if result["diagnosis"] and not self.json:
                print(*diagnosed(result["diagnosis"]), sep="\n")
        else:
            raise ValueError("a private recipe is one run: leave --chains, --workers and --dask; every further run on "
                             "the same data spends its own epsilon")  # fmt: skip
        if "privacy" in result and not self.json:
            print(*private(result), sep="\n")
        place = word(out)
        if not config.promising:
            messages.print(f"finished {out}; next: pacdp certify {place}")
            return result
        counted = (
            f"counted in {how.ledger} (pacdp ledger show)" if how.ledger else "counted in no ledger"
        )
        messages.print(f"finished {out}, {counted}; the folder is private")
        messages.print(
            f"next: pacdp certify {place} for your eyes, pacdp export {place} OUT for what may be published"
        )
        return result


@record
class Compress(_Carried):
    """Run a learner on examples that it picks itself and certify it on all of them: no prior, nothing held out.

    Any field of the run can be set: --groups.sizes 5 --learner.steps 30 --problem.random-labels 1.
    """

    def carried(self, config: Any, out: Path, how: Training) -> Values:
        """Compress the sample, or go on with a run that was interrupted, and certify the network."""
        from bounds.numbers import up

        result = _Carried.carried(self, config, out, how)
        kept = (result["final"] or {}).get("kept", result["n"])
        messages.print(f"kept {kept} of {result['n']} records: error at most {up(result['value'])}")
        messages.print(f"finished {out}; next: pacdp certify {word(out)}")
        return result
