"""What the processes of one run tell each other: sums, the first process's numbers, whether they agree.

Thin over ``torch.distributed``'s default group. Every function here must be called by all processes, in the same order;
nothing is pickled. Tensors travel on their own device, short messages on the CPU unless the group knows NCCL only.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import Dataset, Subset, TensorDataset

from pacdp.errors import PeerLost, said
from pacdp.step.clip import Weights
from pacdp.step.identity import identity
from pacdp.step.noise import Randomness, SystemRandomness, add_noise, share
from pacdp.step.units import size

_ROWS = 1024


def process_count() -> int:
    """Processes in the default group; 1 without one."""
    return distributed.get_world_size() if _has_group() else 1


def process_rank() -> int:
    """This process's place among them, from 0."""
    return distributed.get_rank() if _has_group() else 0


def _has_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def _with_all() -> Iterator[None]:
    """What torch says where another process is gone comes with what to do.

    Raises:
        PeerLost: it is; the step's sum was not returned to anybody.
    """
    try:
        yield
    except RuntimeError as error:
        raise PeerLost(
            f"another process of this run ended or cannot be reached, and nothing of this step is released: see why it "
            f"ended, and start all {process_count()} again, from the last checkpoint if there is one ({said(error)})"
        ) from error


@_with_all()
@torch.no_grad()
def _made_the_same(tensors: Iterable[Tensor], *, added: bool = False) -> None:
    """All processes' ``tensors`` become the first's, bit for bit, or with ``added`` the sums over all."""
    alike = defaultdict[tuple[torch.dtype, torch.device], list[Tensor]](list)
    for tensor in tensors:
        alike[tensor.dtype, tensor.device].append(tensor)
    for group in (
        alike.values()
    ):  # those that can travel as one vector, in an order that all processes share
        flat = torch.cat([t.reshape(-1) for t in group])
        if added:
            distributed.reduce(flat, dst=0)
        distributed.broadcast(flat, src=0)
        for tensor, part in zip(group, flat.split([t.numel() for t in group]), strict=True):
            tensor.copy_(part.view_as(tensor))


@_with_all()
def totals(numbers: Sequence[float], device: torch.device) -> list[float]:
    """Sums over the processes, at each of them."""
    flat = torch.tensor(list(numbers), dtype=torch.float64, device=_meeting_place(device))
    distributed.all_reduce(flat)
    return flat.tolist()


@_with_all()
def gathered(message: Tensor, device: torch.device) -> list[Tensor]:
    """Every process's ``message`` (bytes, as many at each), by rank, on the CPU."""
    here = message.to(_meeting_place(device))
    messages = [torch.empty_like(here) for _ in range(process_count())]
    distributed.all_gather(messages, here)
    return [m.cpu() for m in messages]


def require_agreement(
    claims: Mapping[str, object], device: torch.device, *, error: type[Exception] = ValueError
) -> None:
    """Refuse, at every process, what is not the same at all of them.

    Args:
        claims: names for the message, with values whose ``repr`` is compared by its hash.

    Raises:
        ValueError: or ``error``, naming the first claim that differs.
    """
    hashes = b"".join(hashlib.sha256(repr(value).encode()).digest() for value in claims.values())
    message = torch.frombuffer(bytearray(hashes), dtype=torch.uint8).reshape(len(claims), -1)
    first, *others = gathered(message, device)
    for index, name in enumerate(claims):
        if any(not torch.equal(first[index], other[index]) for other in others):
            raise error(
                f"the processes of this run disagree on {name}: give all {process_count()} of them the same"
            )


def _meeting_place(device: torch.device) -> torch.device:
    return device if distributed.get_backend() == "nccl" else torch.device("cpu")


class RankRandomness:
    """One process's part in a run's randomness: batches of its own examples, and its share of the noise.

    The operating system's generators are independent of each other, and every process draws its share. Seeded ones
    are equal, so that the first process draws all.

    ``batch`` and ``places`` draw for all examples and keep those that the process owns, so that processes with equal
    seeds share one batch and processes with independent generators own independent parts of one: both have the exact
    law.
    """

    def __init__(self, base: Randomness) -> None:
        self.base, self.rank, self.count = base, process_rank(), process_count()

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """``total`` with this process's share of independent N(0, std²).

        With several processes it is in double precision, so that sums over the processes stay exact on the grid.
        """
        kind = torch.float64 if self.count > 1 else total.dtype
        if isinstance(self.base, SystemRandomness):
            return add_noise(total.to(kind), std=share(std, self.count), randomness=self.base)
        part = add_noise(total, std=std, randomness=self.base) if self.rank == 0 else total
        return part.to(kind)

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """The part of a Poisson batch that belongs to this process; possibly empty."""
        drawn = self.base.batch(n, sample_rate)
        return drawn[drawn % self.count == self.rank]

    def places(self, n: int, batches: int) -> Tensor:
        """The batch of each record that belongs to this process; that of others is -1."""
        drawn = self.base.places(n, batches)
        return drawn.masked_fill(torch.arange(n) % self.count != self.rank, -1)

    def generator(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A fresh generator, another one at every process; the first process's is that of a single-process run."""
        return self.base.generator(f"{stream}/process {self.rank}" if self.rank else stream, device)

    def state(self) -> Mapping[str, Tensor]:
        """The whole run's: of the noise stream only the first process knows it."""
        return self.base.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the first process's state."""
        self.base.restore(state)


def rank_randomness(randomness: Randomness | None) -> RankRandomness:
    """This process's part of ``randomness``, of the operating system's generator by default."""
    if isinstance(randomness, RankRandomness):
        return randomness
    return RankRandomness(SystemRandomness() if randomness is None else randomness)


def of_all(randomness: Any) -> Any:
    """The whole run's randomness, of which a process may hold its part."""
    return randomness.base if isinstance(randomness, RankRandomness) else randomness


def _noisy(values: Weights, std: float, randomness: Randomness) -> Weights:
    return {name: add_noise(one, std=std, randomness=randomness) for name, one in values.items()}


class Together:
    """What the processes of one run do with a sum: alone, or with the others of the default group.

    Every process has the clipped sum of its own part of the sample and adds its share of the noise before anything
    travels; sums on the noise's grid are exact, so that only the whole counts, in whatever order it is taken. The
    divisor and gradients that depend on no data enter after it, at every process alike.
    """

    def __init__(self, *, several: bool) -> None:
        self.several = several

    def noised(self, total: Weights, std: float, randomness: Randomness) -> Weights:
        """The sum over all processes with independent N(0, std²) on every coordinate, the same at each."""
        made = _noisy(total, std, randomness)
        if self.several:
            _made_the_same(made.values(), added=True)
        return {name: value.to(total[name].dtype) for name, value in made.items()}

    def noisier(self, released: Weights, std: float, randomness: Randomness) -> Weights:
        """What was released, the same at each process, with independent N(0, std²) from the first one."""
        made = _noisy(released, std, of_all(randomness))
        if self.several:
            _made_the_same(made.values())
        return made

    def sums(self, numbers: Tensor) -> Tensor:
        """Sums over the processes, at each of them."""
        if not self.several:
            return numbers
        return torch.tensor(totals(numbers.tolist(), numbers.device), dtype=numbers.dtype)

    def first_does(
        self,
        action: Callable[[], object],
        device: torch.device,
        *,
        otherwise: Exception,
        said: bool = False,
        differ: Exception | None = None,
    ) -> None:
        """Do something at the first process; where that fails, fail at each of them.

        Args:
            said: what all must say alike; where some do not, ``differ`` is raised at each.
        """
        failure: Exception | None = None
        if not self.several or process_rank() == 0:
            try:
                action()
            except Exception as error:  # the others wait to hear of it, whatever it is
                failure = error
        if self.several:
            failures, yes = totals([float(failure is not None), float(said)], device)
            if failures:
                failure = failure or otherwise
            elif yes not in (0.0, process_count()):
                failure = differ
        if failure is not None:
            raise failure

    def first_says(self, number: int) -> int:
        """The first process's number, at each of them."""
        return (
            int(gathered(torch.tensor([number]), torch.device("cpu"))[0])
            if self.several
            else number
        )


def require_one_run(public: Mapping[str, object], dataset: Dataset[Any], randomness: RankRandomness,
                    device: torch.device) -> None:  # fmt: skip
    """Refuse processes that would not compute one mechanism on one data set.

    Of the data their number is compared, which examples a Subset takes, and of tensor data sets up to 1024 evenly
    spaced examples.

    Raises:
        ValueError: what differs.
    """
    base = randomness.base  # of which a seed, if there is one, shows in every stream
    seed = base.generator("agreement").initial_seed() if base.state() else None
    claims = {
        **public,
        "randomness (its kind and its seed)": (type(base).__name__, seed),
        "the number of examples": size(dataset),
        "the order of the examples": _fingerprint(dataset),
    }
    require_agreement(claims, device)


def join(
    together: Together,
    module: nn.Module,
    dataset: Dataset[Any],
    randomness: Randomness,
    settings: dict[str, Any],
    people: Tensor | None,
) -> None:
    """Processes of one run agree on what they do, and start where the first one starts."""
    if not together.several and process_count() > 1:
        raise ValueError(
            f"{process_count()} processes run together, but nothing says that they train one network: give train("
            "distributed=True)"
        )
    if not together.several:
        return
    if not _has_group():
        raise ValueError(
            "distributed=True needs a process group: start the script with torchrun and call "
            "torch.distributed.init_process_group before train"
        )
    device = next(module.parameters()).device
    shapes = {name: (tuple(v.shape), v.dtype) for name, v in module.state_dict().items()}
    what = {
        "the algorithm's settings, whether there is a ledger, or when checkpoints are written": settings,
        "the network's shapes": shapes,
        "people, which say at which process a record is": identity(people),
    }
    require_one_run(what, dataset, rank_randomness(randomness), device)
    _made_the_same([*(p.data for p in module.parameters()), *module.buffers()])


def _fingerprint(dataset: Dataset[Any]) -> str | None:
    """Of what a data set gives, as far as it can be told without reading it."""
    if type(dataset) is Subset:
        return identity([*map(int, dataset.indices)], _fingerprint(dataset.dataset))
    if type(dataset) is not TensorDataset:
        return None
    return identity([t[:: -(-size(dataset) // _ROWS)] for t in dataset.tensors])
