"""A Dask cluster for the tests of sweeps."""

import warnings

import pytest


@pytest.fixture(scope="session")
def cluster():
    """A scheduler and two worker processes, which are started again when they die."""
    distributed = pytest.importorskip("distributed")
    import dask

    with warnings.catch_warnings(), dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        warnings.simplefilter("ignore")  # what Dask says of itself
        local = distributed.LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None)
    yield local
    local.close()
