"""How far rows move on another processor: some runs again with the oldest instruction sets, ``python -m
experiments.processors``.

The environment decides which kernels torch and oneDNN take, before they are imported; so each study goes in a process
of its own. What it leaves is results/NAME/table-sse.csv, from which the page says by how much its numbers move.
"""

import os
import subprocess
import sys
from pathlib import Path

from experiments.registry import studies
from experiments.runner import RESULTS, Plan, conduct
from pacdp.cli.runtime import Training
from pacdp.cli.sweep.workers import Workers
from pacdp.store.files import replacing

OLDEST = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
AGAIN = {"knolle-table-2": 0, "private-priors": 0, "dp-bnn-regression": 2}
"""Studies whose first seeds are run again, up to this one."""


def again(name: str, runs: Path) -> None:
    """Carry out the jobs of a study that are listed, and write their table."""
    found = studies()[name]
    jobs = [job for job in found.jobs(False, 0) if job.tags["seed"] <= AGAIN[name]]
    for plan in conduct([Plan(study=found, jobs=jobs, folder=runs)], Training(threads=1), workers=Workers()):
        with replacing(RESULTS / name / "table-sse.csv") as file:
            found.table(plan.jobs, plan.folder).write_csv(file)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        again(sys.argv[1], Path("runs/processors"))
    else:
        for one in AGAIN:
            subprocess.run([sys.executable, "-m", "experiments.processors", one], env=os.environ | OLDEST, check=True)
