"""A Dask cluster for the tests of sweeps."""

import warnings
from contextlib import contextmanager

import pytest


@pytest.fixture(scope="session")
def cluster():
    """A scheduler and two worker processes, which are started again when they die."""
    with _local(processes=True) as local:
        yield local


@pytest.fixture
def threads():
    """The same with workers that are threads of this process, which start at once."""
    with _local(processes=False) as local:
        yield local


@contextmanager
def _local(*, processes):
    distributed = pytest.importorskip("distributed")
    import dask

    with warnings.catch_warnings(), dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        warnings.simplefilter("ignore")  # what Dask says of itself
        local = distributed.LocalCluster(n_workers=2, processes=processes, threads_per_worker=1,
                                         dashboard_address="127.0.0.1:0")  # fmt: skip
    yield local
    local.close()
