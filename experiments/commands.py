"""The commands that carry out studies and collect what they found: experiment, results."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from experiments import doc_numbers
from experiments.job_costs import cost_or_none
from experiments.registry import studies, study, titles
from experiments.results_page import PAGE, write_page
from experiments.runner import RESULTS, Plan, conduct, publish
from pacdp.cli.config import Runtime
from pacdp.cli.parsing import nearest, no_more
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.workers import Workers
from pacdp.cli.terminal import usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Carry out a study: its runs, then table, figure, verdict, configuration and provenance."""

    name: tyro.conf.Positional[str] = "list"
    """A study such as random-labels; all carries out every one, list says which there are."""
    scale: Scale = "smoke"
    workers: tyro.conf.OmitArgPrefixes[Workers] = field(default_factory=Workers)
    out: Path | None = None
    """Where the results go; by default experiments/results/NAME/SCALE. Of all studies, the folder of those folders."""
    runs: Path = Path("runs")
    """Where the runs' folders go; finished ones are not run again."""
    seed: int = 0
    json: bool = False
    """Print the verdict as JSON, a line for every study."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=lambda: Runtime(threads=1))
    dry_run: bool = False
    """Say which runs there would be and what they would cost, and carry out none."""

    def __call__(self, rest: list[str]) -> None:
        """Run the studies that are named, or list them, or say what they would cost."""
        no_more(rest)
        if self.name == "list":
            print(titles())
            return
        if self.name != "all" and self.name not in studies():
            usage(f"no experiment is called {self.name!r}: {nearest(self.name, ['all', *studies()])}")
        plans = [self._plan(name) for name in self._names()]
        if self.dry_run:
            for plan in plans:
                print(f"{plan.study.name} ({self.scale}): {len(plan.jobs)} runs, {cost_or_none(plan.jobs)}")
            return
        wrong = []
        for plan in conduct(plans, self.runtime, workers=self.workers):
            if plan.failed:
                wrong.append(f"{len(plan.failed)} of {len(plan.jobs)} runs of {plan.study.name} failed")
            try:
                verdict = publish(plan.study, plan.jobs, plan.folder, self._out(plan.study.name), scale=self.scale,
                                  device=self.runtime.device, seed=self.seed, failed=plan.failed)  # fmt: skip
            except (ValueError, RuntimeError, OSError) as error:
                wrong.append(str(error))
            else:
                self._say(plan, verdict)
        if wrong:
            raise RuntimeError("; ".join(wrong))

    def _names(self) -> list[str]:
        """Those of all studies with a plan at the scale."""
        if self.name != "all":
            return [self.name]
        return [name for name, found in studies().items() if self.scale in found.scales]

    def _plan(self, name: str) -> Plan:
        found = study(name)
        found.require(self.scale)
        return Plan(study=found, jobs=found.jobs(self.scale, self.seed), folder=self.runs / f"studies-{self.scale}")

    def _out(self, name: str) -> Path:
        if self.out is not None and self.name != "all":
            return self.out
        return (self.out or RESULTS) / name / self.scale

    def _say(self, plan: Plan, verdict: dict[str, Any]) -> None:
        if self.json:
            print(json.dumps(verdict, allow_nan=False))
            return
        counts = Counter(claim["holds"] for claim in verdict["claims"])
        done = len(plan.jobs) - len(plan.failed)
        print(f"{plan.study.name} ({self.scale}): {done} of {len(plan.jobs)} runs finished; "
              f"{counts[True]} claims hold, {counts[False]} do not hold, {counts[None]} cannot be told")  # fmt: skip
        for claim in verdict["claims"]:
            if claim["holds"] is False:
                print(f"  DOES NOT HOLD: {claim['sentence']} {claim['evidence']}")
        print(f"wrote table, figure, verdict, configuration and provenance to {self._out(plan.study.name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Judge the tables of all studies again and write the page about them."""

    results: Path = RESULTS
    """The folder of the studies' results."""
    out: Path = PAGE
    """Where the page goes."""

    def __call__(self, rest: list[str]) -> None:
        """Judge the committed rows again and write the page."""
        no_more(rest)
        if not self.results.is_dir():
            raise ValueError(f"{self.results} is no folder: give the folder of the studies' results by --results")
        print(f"wrote {write_page(self.results, self.out)}")
        if self.out.resolve() == doc_numbers.ROOT / PAGE:  # other pages there quote these results
            doc_numbers.main()
