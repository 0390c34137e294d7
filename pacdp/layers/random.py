"""Layers that draw random numbers in their forward pass, and how to make them draw the same numbers again.

A random layer holds its own ``generator``. PyTorch's dropout draws from the global generators instead, which are
remembered here too, though checkpoints do not carry them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_LEAST = 2.0**-24
"""Of what ``torch.rand`` gives, but for zero."""


class RandomState(NamedTuple):
    """Where every generator that a forward pass may use stands."""

    layers: dict[str, Tensor]
    """By name of the layer."""
    cpu: Tensor
    cuda: list[Tensor]


def generators(module: nn.Module) -> dict[str, torch.Generator]:
    """The generators of the random layers inside ``module``, by the layers' names without wrappers' prefixes."""
    found = {name: getattr(layer, "generator", None) for name, layer in module.named_modules()}
    return {
        name.removeprefix("_module."): g
        for name, g in found.items()
        if isinstance(g, torch.Generator)
    }


def layer_states(module: nn.Module) -> dict[str, Tensor]:
    """The states of :func:`generators`."""
    return {name: generator.get_state() for name, generator in generators(module).items()}


def restore_layers(module: nn.Module, states: dict[str, Tensor]) -> None:
    """Set the states of :func:`generators`, and forget draws that no backward pass has used.

    Raises:
        ValueError: the states are those of other layers.
    """
    found = generators(module)
    if set(found) != set(states):
        raise ValueError(
            f"the saved run drew in layers {sorted(states)}, this network draws in {sorted(found)}"
        )
    for name, generator in found.items():
        generator.set_state(states[name])
    forget_draws(module)


def seed_layers(module: nn.Module, generator: Callable[[str], torch.Generator]) -> None:
    """Give the random layers the numbers of the generator that is made for each one's name."""
    for name, own in generators(module).items():
        own.manual_seed(generator(name).initial_seed())


@contextmanager
def own_draws(generator: Callable[..., torch.Generator] | None) -> Iterator[None]:
    """Within, torch's global generators stand where new ones do; afterwards where they stood.

    An example's mask depends on its place in the batch. Where a seed tells the masks, an example less gives all behind
    it others, by which a clipped sum moves more than by one example.

    Args:
        generator: makes a generator for a purpose and a device; None to leave the global ones alone.
    """
    devices = [*range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)]
    with torch.random.fork_rng(devices, enabled=generator is not None):
        if generator is not None:
            torch.set_rng_state(generator("draws").get_state())
            for place in devices:
                own = generator("draws", f"cuda:{place}").get_state()
                torch.cuda.set_rng_state(own, place)
        yield


def forget_draws(module: nn.Module) -> None:
    """Drop what Bayesian layers keep of draws for a backward pass by ghost clipping that never came."""
    for layer in module.modules():
        drawn = getattr(layer, "drawn", None)
        if isinstance(drawn, list):
            drawn.clear()


def random_state(module: nn.Module) -> RandomState:
    """Where all generators stand now."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return RandomState(layer_states(module), torch.get_rng_state(), cuda)


def same_state(one: RandomState, other: RandomState) -> bool:
    """Whether PyTorch's global generators stand where they stood: nothing was drawn from them in between."""
    return all(
        torch.equal(a, b)
        for a, b in zip((one.cpu, *one.cuda), (other.cpu, *other.cuda), strict=True)
    )


def rewind(module: nn.Module, state: RandomState) -> None:
    """Put all generators back to where they stood, so that the next forward pass draws the same numbers."""
    restore_layers(module, state.layers)
    torch.set_rng_state(state.cpu)
    if state.cuda:
        torch.cuda.set_rng_state_all(state.cuda)


class WithoutDraws(TorchDispatchMode):
    """Within, torch draws one half wherever it would draw real numbers, zero for whole ones, and drops nothing.

    So passes over batches of two sizes, whose random numbers could not be the same, can be compared.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and write over what it drew."""
        del types
        found = func(*args, **kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return found
        if func is torch.ops.aten.native_dropout.default:
            return args[0].clone(), torch.ones_like(found[1])
        for leaf in filter(lambda leaf: isinstance(leaf, Tensor), tree_leaves(found)):
            self.drawn(func, leaf)
        return found

    def drawn(self, func: Any, found: Tensor) -> None:
        """Write over a draw."""
        del func
        found.fill_(0.5 if found.is_floating_point() else 0)


class OneDraw(WithoutDraws):
    """Within, torch draws the least or the largest number wherever it draws a single real one, as a coin of a batch is.

    Args:
        largest: in place of the least.
    """

    def __init__(self, *, largest: bool) -> None:
        super().__init__()
        self.largest = float(largest)

    def drawn(self, func: Any, found: Tensor) -> None:
        """Write over a draw."""
        if found.is_floating_point() and found.numel() == 1:
            least = 0.0 if "bernoulli" in str(func) else _LEAST
            found.fill_(self.largest).clamp_(least, 1.0 - least)
