"""The checkpoint, its configuration, its steps and its rows say the same."""

from pacdp.verify.claim import Unchecked, Wrong
from pacdp.verify.files import content_hash, digest
from pacdp.verify.folder.plan import length
from pacdp.verify.folder.private_plan import planned_steps
from pacdp.verify.folder.read import Folder


def check_content(f: Folder) -> None:
    """The checkpoint's bytes have the hash that its header says."""
    if "content_hash" not in f.header:
        raise Unchecked("it has no hash of its content")
    if content_hash(f.stored) != f.header.content_hash:
        raise Wrong("its content has another hash than its header says")


def check_run(f: Folder) -> None:
    """Header and config.json name one configuration."""
    if f.run is None:
        raise Unchecked("the header names no configuration")
    if f.config is not None and f.run != f.config:
        raise Wrong("the header's run is not that of config.json")
    if f.header.get("config_hash", digest(f.run)) != digest(f.run):
        raise Wrong("the header's run has another hash than it says")
    for name in ("problem", "sampler", "seed", "chain"):
        if not f.private and f.header.get(name, 0) != f.run.get(name, 0):
            raise Wrong(f"the header's {name} is not that of its run")


def check_steps(f: Folder) -> None:
    """As many steps as the configuration plans, and a private run's mechanisms."""
    header, run = f.header, f.run
    if f.private and run:
        planned_steps(header, run, f.report.get("n"))
    if "planned_steps" not in header:
        return
    planned = length(run, header.n)
    if header.planned_steps != planned or not 0 <= header.step <= planned:
        raise Wrong(
            f"it says step {header.step} of {header.planned_steps}, and the run has {planned}"
        )
    marks = {
        round(k * planned / run.records) for k in range(1, run.records + 1)
    }
    listed = sorted(marks - {0})
    if header.get("listed_steps", listed) != listed:
        raise Wrong("the listed steps are not those at which the run records")
    if header.get("stopping", "planned") != run.get("stopping", "planned"):
        raise Wrong("the header stops otherwise than its run")


def check_metrics(f: Folder) -> None:
    """The rows of metrics.jsonl are of rising steps, none beyond the checkpoint's."""
    steps = [row.step for row in f.rows]
    beyond = f.header and steps and steps[-1] > f.header.step
    if beyond or steps != sorted(set(steps)):
        raise Wrong(f"its rows are of the steps {steps}")
