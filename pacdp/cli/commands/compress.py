"""The command that certifies a learner on all of its data: compress."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from bounds.sentence import up
from pacdp.cli.compressing import Compression, run
from pacdp.cli.compression_recipes import RECIPES, recipe
from pacdp.cli.config import Runtime
from pacdp.cli.console import progress
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.overrides import overridden
from pacdp.cli.parsing import no_more
from pacdp.cli.recipes import Scale
from pacdp.cli.serial import from_dict, to_dict
from pacdp.cli.terminal import messages, usage, word
from pacdp.compress.run import Round

_PER_MILLE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress:
    """Run a learner on examples that it picks itself and certify it on all of them: no prior, nothing held out.

    Any field of the run can be set: --groups.sizes 5 --learner.steps 30 --problem.random-labels 1.
    """

    recipe: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RECIPE")] = None
    """LEARNER-DATASET, such as entropy-sgd-mnist2 or kernel-mnist; left out, --resume takes it from --out."""
    scale: Scale = "smoke"
    """smoke: seconds; cpu: two cores, minutes; paper: smaller groups."""
    out: Path | None = None
    """Folder of the run; by default runs/compress-RECIPE-SCALE."""
    seed: int = 0
    resume: bool = False
    """Go on where the last checkpoint of --out stands."""
    force: bool = False
    """Overwrite the run in --out."""
    json: bool = False
    """Print result.json on standard output."""
    show: bool = False
    """Print the run's configuration and run nothing."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=Runtime)

    def __call__(self, rest: list[str]) -> None:
        """Compress the sample, or go on with a run that was interrupted, and certify the network."""
        if self.recipe is not None:
            config = overridden(recipe(self.recipe, scale=self.scale, seed=self.seed), rest)
            out = self.out or Path("runs") / f"compress-{self.recipe}-{self.scale}"
        elif self.resume and self.out is not None:
            no_more(rest)
            config, out = from_dict(Compression, read_json(Folder(self.out).config)), self.out
        else:
            usage(f"give a recipe, or --resume with --out; recipes: {', '.join(RECIPES)}")
        if self.show:
            print(json.dumps(to_dict(config), indent=2))
            return
        with progress(
            f"{config.algorithm} on {config.problem.dataset}, compressed", _PER_MILLE
        ) as advance:
            first: list[int] = []

            def told(line: Round) -> None:
                first.append(line.errors)
                done = 1.0 - line.errors / max(1, *first)  # of the errors that there were
                said = f"round {line.number}: {line.picked} picked, {line.errors} errors left"
                advance(round(_PER_MILLE * done), said)

            result = run(
                config, out, self.runtime, resume=self.resume, force=self.force, report=told
            )
        if self.json:
            print(json.dumps(result, allow_nan=False))
        kept = (result["final"] or {}).get("kept", 0)
        messages.print(f"kept {kept} of {result['n']} records: error at most {up(result['value'])}")
        messages.print(f"finished {out}; next: pacdp certify {word(out)}")
