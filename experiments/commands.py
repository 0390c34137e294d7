"""The commands that carry out studies and collect what they found: experiment, results."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from experiments import registry
from experiments.registry import PAGE, RESULTS
from pacdp.cli.runtime import Runtime, Training
from pacdp.cli.sweep.workers import Workers
from pacdp.cli.terminal import nearest, usage

if TYPE_CHECKING:
    from experiments.runner import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Carry out a study: its runs, then table, figures and what made them."""

    name: tyro.conf.Positional[str] = "list"
    """A study such as random-labels; all carries out every one, list says which there are."""
    smoke: bool = False
    """In seconds, on small data that come with the package, to see that everything works; the numbers say nothing."""
    workers: tyro.conf.OmitArgPrefixes[Workers] = field(default_factory=Workers)
    out: Path | None = None
    """Where the results go; by default experiments/results/NAME, with --smoke runs/smoke/NAME. Of all studies, the
    folder of those folders."""
    runs: Path = Path("runs")
    """Where the runs' folders go; finished ones are not run again."""
    seed: int = 0
    json: bool = False
    """Print what became of each sentence as JSON, a line for every study."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=lambda: Runtime(threads=1))
    dry_run: bool = False
    """Print the runs there would be, with their configurations as JSON, and carry out none."""

    def __call__(self) -> None:
        """Run the studies that are named, or list them, or say which runs there would be."""
        if self.name == "list":
            titles = registry.titles()
            width = max(map(len, titles))
            print("\n".join(f"  {name:{width}}  {title} ({paper})" for name, (title, paper) in titles.items()))
            return
        from experiments.registry import studies
        from experiments.runner import Plan, conduct, publish, require_own
        from pacdp.cli.serial import to_dict

        if self.name != "all" and self.name not in studies():
            usage(f"no experiment is called {self.name!r}: {nearest(self.name, ['all', *studies()])}")
        folder = self.runs / ("studies-smoke" if self.smoke else "studies")
        asked = studies().values() if self.name == "all" else [studies()[self.name]]
        plans = [Plan(study=one, jobs=one.jobs(self.smoke, self.seed), folder=folder) for one in asked]
        if self.dry_run:
            for plan in plans:
                planned = {job.key: {"config": to_dict(job.config), "tags": dict(job.tags)} for job in plan.jobs}
                print(json.dumps({"study": plan.study.name, "jobs": planned}))
            return
        for plan in plans:
            require_own(plan.study, self._out(plan.study.name), smoke=self.smoke)
        wrong = []
        for plan in conduct(plans, Training(**asdict(self.runtime)), workers=self.workers):
            if plan.failed:
                wrong.append(f"{len(plan.failed)} of {len(plan.jobs)} runs of {plan.study.name} failed")
            out = self._out(plan.study.name)
            try:
                publish(plan, out, smoke=self.smoke, device=self.runtime.device, seed=self.seed)
            except (ValueError, RuntimeError, OSError) as error:
                wrong.append(str(error))
            else:
                self._say(plan, out)
        if wrong:
            raise RuntimeError("; ".join(wrong))

    def _out(self, name: str) -> Path:
        if self.out is not None and self.name != "all":
            return self.out
        return (self.out or (self.runs / "smoke" if self.smoke else RESULTS)) / name

    def _say(self, plan: "Plan", out: Path) -> None:
        from experiments.claims import HOLDS
        from experiments.runner import read_table

        found = plan.study.judged(read_table(out))
        if self.json:
            asked = [
                {name: getattr(one.sentence, name) for name in ("place", "printed", "why")}
                | {"holds": one.holds, "said": one.said, "evidence": one.evidence}
                for one in found
            ]
            print(json.dumps({"study": plan.study.name, "sentences": asked}))
            return
        counts, done = Counter(one.holds for one in found), len(plan.jobs) - len(plan.failed)
        told = ", ".join(f"{counts[holds]} {said}" for holds, said in HOLDS.items())
        print(f"{plan.study.name}: {done} of {len(plan.jobs)} runs finished; of its sentences {told}")
        for one in found:
            print(f"  {one.word}: {one.sentence.printed} {one.said} [{one.evidence}]")
        print(f"wrote table, figures and what made them to {out}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Judge the tables of all studies and write the page about them."""

    results: Path = RESULTS
    """The folder of the studies' results."""
    out: Path = PAGE
    """Where the page goes."""

    def __call__(self) -> None:
        """Judge the committed rows and write the page."""
        from experiments.page import render
        from pacdp.store.files import replacing

        if not self.results.is_dir():
            raise ValueError(f"{self.results} is no folder: give the folder of the studies' results by --results")
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.out) as file:
            file.write(render(self.results, self.out.parent).encode())
        print(f"wrote {self.out}")
