"""Two processes that work together, forked from one that has imported everything already."""

from torch import multiprocessing

from tests.file_faults import _context


def two_processes(function, args):
    """Call ``function``, which must be importable by name, as ranks 0 and 1."""
    _context()  # says what the process they are forked from imports
    multiprocessing.start_processes(function, args=args, nprocs=2, start_method="forkserver")
