"""Small jobs carried out, and what they leave; workers import ``small_jobs`` alone, which is light."""

from cli_tools import read
from small_jobs import outs, pids
from tiny_runs import RUNTIME

from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.workers import Workers


def ended(jobs, root, workers=None):
    """How each job ended: None, or what was wrong."""
    return dict(carry_out(jobs, outs(jobs, root), RUNTIME, workers=workers or Workers()))


def values(jobs, root):
    """What was computed."""
    return [read(out / "result.json")["value"] for out in outs(jobs, root)]


def tries(jobs, root):
    """How often each job was begun."""
    return [len(pids(out)) for out in outs(jobs, root)]


def two_workers(request, **given):
    """Two workers, of a Dask cluster where a fixture's parameter says so."""
    if request.param == "dask":
        address = request.getfixturevalue("cluster").scheduler_address
        given |= {"dask": address}
    return Workers(workers=2, **given)
