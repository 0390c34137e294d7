"""Two processes that work together, forked from this one, which has imported everything already."""

import warnings

from torch import multiprocessing


def two_processes(function, args):
    """Call ``function`` as ranks 0 and 1; a warning is an error here alone, not in processes of a user's own."""
    multiprocessing.start_processes(_rank, args=(function, *args), nprocs=2, start_method="fork")


def _rank(rank, function, *args):
    warnings.simplefilter("default")
    function(rank, *args)
