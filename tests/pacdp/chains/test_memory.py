import psutil
import pytest
import torch

from pacdp.chains import require_memory
from pacdp.chains.memory import VECTORS
from pacdp.errors import OutOfMemory

CPU = torch.device("cpu")


def test_what_fits_passes_and_one_more_is_refused_with_the_number_that_fits() -> None:
    dim, free = 1_000_000, 10**9
    fits = int(0.9 * free // (VECTORS * 4 * dim))
    require_memory(chains=fits, dim=dim, device=CPU, free_bytes=free)
    sentence = rf"{fits + 1} chains of 1,000,000 weights need .* GB and 1 GB are free on cpu: {fits} chains fit"
    with pytest.raises(OutOfMemory, match=sentence):
        require_memory(chains=fits + 1, dim=dim, device=CPU, free_bytes=free)


def test_it_is_a_memory_error_and_a_value_error() -> None:
    for kind in (MemoryError, ValueError):
        with pytest.raises(kind):
            require_memory(chains=1, dim=10, device=CPU, free_bytes=1)


def test_the_machines_own_memory_is_asked() -> None:
    require_memory(chains=1, dim=10, device=CPU)
    with pytest.raises(OutOfMemory, match="free on cpu"):
        require_memory(chains=psutil.virtual_memory().total, dim=10, device=CPU)
