"""What is watched in a training loop of one's own, so that every step is the mechanism that is accounted for.

The accountant assumes that one example moves the clipped sum by at most C. That holds if each example's contribution is
a function of the public weights and of that example alone. From a forward pass to its step the guard sees to this:

- The network is given the rows that were drawn, all of them and nothing else that changes from step to step.
- The loss is evaluated for one example at a time, by the record of how it was computed
  (:mod:`pacdp.opacus.recorded`), and the network's backward pass starts from these gradients. They must be those of the
  loss as written, of which ``loss_reduction`` says how it adds up the examples.
- No weight changes but by the private step, and no gradient that the backward pass left. The network is the one that
  was tried at set-up: its layers, their hooks, attributes and buffers.

Whatever differs is refused before anything computed from the batch is released. It sees tensors and the numbers that a
loss is computed with; what a loop computes from the data in NumPy or plain Python it sees only where it changes from
step to step.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.layers.random import (
    WithoutDraws,
    generators,
    own_draws,
    random_state,
    rewind,
    same_state,
)
from pacdp.opacus.loader import PoissonSampler
from pacdp.opacus.loss_by_example import LossByExample, Reduction, close
from pacdp.opacus.recorded import Record, Recorded, Tape, as_written, leave_uncompiled, one_of_them
from pacdp.step.sums import Sum
from pacdp.step.units import rows_at
from pacdp.trials import MOST, SIZES, Unmoved, moved_to, with_another
from pacdp.trials.reachable import contents, digest

Clipped = Callable[[Sequence[Tensor | None]], Sum]
"""From each example's gradients by the network's last outputs to the clipped sum of those by the weights."""
Look = Callable[[], object]
Draws = Callable[..., torch.Generator]
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OWN_HOOKS = ("pacdp.", "opacus.")
"""By which modules' hooks gradients are taken, and which hold nothing of a user's."""
_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OF_ALL_MODULES = tuple(f"_global{kind}" for kind in _HOOKS)
_OF_A_PASS = {"training", "activations", "max_batch_len", "_flat_weights", *vars(nn.Module())}
"""Attributes of layers that may change, as a layer's mode and what Opacus keeps from a forward pass to its backward, or
are looked at by themselves."""
_VALUES = (int, float, str, type(None))
_GRADIENTS = ("grad", "grad_sample", "summed_grad")


class Settled:
    """Something that may not change from one moment to another, and the sentence where it did.

    Args:
        look: gives what it is now; numbers, texts and identities that compare.
    """

    def __init__(self, look: Look, sentence: str) -> None:
        self.look, self.sentence = look, sentence
        self.kept: object = None

    def keep(self) -> None:
        """From now on it is what it is."""
        self.kept = self.look()

    def forget(self) -> None:
        """Let it change until it is kept again."""
        self.kept = None

    def require(self) -> None:
        """Refuse, by raising ValueError, what is not as it was kept."""
        if self.kept not in (None, self.look()):
            raise ValueError(self.sentence)


class Guard:
    """Refuses steps whose examples are not those drawn, or do not contribute each by itself.

    Args:
        module: the network, without wrapper.
        clipped: of the private module around it.
        next_batch: told that a step was made, and that what passes now is of another batch.
        loss_reduction: how the loss adds up the losses of the examples.
        sampler: what drew the batches; None where the caller draws them.
        draws: makes the generators that layers draw from; None where the caller's do, as all comes from a seed.
        probe: the positional inputs on which the network was tried.
    """

    def __init__(self, module: nn.Module, *, clipped: Clipped, next_batch: Look, loss_reduction: Reduction,
                 sampler: PoissonSampler | None, draws: Draws | None,
                 probe: Sequence[Any]) -> None:  # fmt: skip
        self.module, self.clipped, self.sampler = module, clipped, sampler
        self.next_batch = next_batch
        self.draws = draws
        self.set_up = Settled(
            partial(set_up, module),
            "the network was changed after make_private, which tried it as it was (a hook was added or reads another "
            "value, a parameter was frozen or unfrozen, or a parameter, layer, attribute or buffer is another): do so "
            "before make_private",
        )
        self.set_up.keep()
        self.gradients = Settled(
            partial(gradients, module),
            "gradients (grad, grad_sample, summed_grad) were written between backward and the end of the step, so "
            "that an example may add more than its own clipped gradient: put what changes them into the network or "
            "the loss, or, where it depends on no data, into data_free_gradient=",
        )
        self.weights = Unmoved(module, frozen=True)
        self.tried = {form_of(probe, {}): {*SIZES}}  # by pacdp.trials
        self.goes_back = self.stepped = self.fixed = False
        self.losses = LossByExample(loss_reduction, sampler)
        leave_uncompiled()
        self.tape, self.examples = Tape(self.backward), 0
        self.handed_over: Sum | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Guard":
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused to pickle, which would carry rows of the last batch."""
        raise TypeError(
            "a private module is not pickled as it stands, with what it keeps of a batch: save model.state_dict(), or "
            "write PrivateEngine.save_checkpoint or export"
        )

    @as_written
    def forward(
        self, run: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Run the network on a copy of a batch in training, into which no loop writes; its outputs are recorded."""
        if not self.fixed:  # where the weights start is the caller's
            self.keep()
        self.set_up.require()
        inputs, named = tree_map(
            lambda x: x.clone() if isinstance(x, Tensor) else x, (inputs, named)
        )
        n = self.examples = self._require_drawn(tree_leaves((inputs, named)))
        with own_draws(self.draws):
            new = n > 1 and n not in self.tried.get(form_of(inputs, named), ())
            before = random_state(self.module) if new else None
            outputs = run(*inputs, **named)
            self.require_unmoved("a forward pass of the network, or something before it,")
            if before is not None:
                draws = generators(self.module) or not same_state(before, random_state(self.module))
                self._require_alone(None if draws else outputs, inputs, named, n)
        self.tape = Tape(self.backward)
        for leaf in tree_leaves(outputs):
            if isinstance(leaf, Tensor) and leaf.requires_grad:
                leaf.register_hook(self._require_recorded)
        return self.tape.begin(outputs)

    def backward(self, loss: Recorded, **options: Any) -> None:
        """Check the loss, and keep the clipped sum of its gradients for the optimizer."""
        if options.get("inputs") is not None or loss.numel() != 1 or not loss.requires_grad:
            raise ValueError(
                "backward takes the loss of a batch, one number with a gradient, and no inputs="
            )
        self.set_up.require()
        record = Record(loss)
        if self.handed_over is not None or record.tape.used:
            raise ValueError(
                "backward ran a second time before a step: add up all losses of the batch and call backward once; in "
                "place of gradient accumulation, BatchMemoryManager cuts a batch into parts"
            )
        one_of_them({record.tape, self.tape})
        if any(x.requires_grad for x in record.others):
            raise ValueError(
                "the loss has a term that does not come from the network's outputs, such as a penalty on the weights: "
                "give make_private its gradient as data_free_gradient=, or put the layer that it comes from into module"
            )
        self.goes_back = True
        try:
            # which an autocast around backward would round
            with torch.autocast(loss.device.type, enabled=False):
                slopes = self.losses.slopes(loss, record) if self.examples else ()
                self.handed_over = self.clipped(slopes)
        finally:
            self.goes_back = False
        record.tape.used = True
        self.gradients.keep()

    def forget(self) -> None:
        """Forget the last backward pass."""
        self.handed_over, self.stepped = None, False

    def take(self) -> Sum:
        """Hand over the clipped sum of a batch, or of a part of one; no ``p.grad`` is there without noise.

        Raises:
            ValueError: no backward pass since the last step, or weights or gradients that something else wrote.
        """
        if self.handed_over is None or self.stepped:
            raise ValueError(
                "a step without gradients of its own: call zero_grad and backward before each step, of a loss of what "
                "the module gave in training mode (turn single layers to eval() before make_private)"
            )
        what = "something else than this optimizer, or the forward pass of the network,"
        self.require_unmoved(what, bit_by_bit=True)
        self.gradients.require()
        found, self.handed_over = self.handed_over, None
        if self.sampler is not None:
            self.sampler.take_back()
        return found

    def step_over(self) -> None:
        """Go on to the next batch: the weights have moved."""
        self.stepped = True
        self.next_batch()
        self.keep()

    def keep(self) -> None:
        """From now on nothing but a step may move the weights."""
        self.fixed = True
        self.weights.keep()

    def require_unmoved(self, what: str, *, bit_by_bit: bool = False) -> None:
        """Refuse weights and buffers that are not as they were kept, by raising ValueError; ``what`` moved them."""
        if self.weights.written() or (bit_by_bit and not self.weights.same_bits()):
            raise ValueError(
                f"{what} wrote into a parameter or a buffer between two private steps, which would release "
                "it without noise: use layers that write nothing (no nn.Embedding(max_norm=...)), and one private "
                "optimizer"
            )

    def _require_recorded(self, _: Tensor) -> None:
        if not self.goes_back:
            raise ValueError(
                "the backward pass did not begin at loss.backward(), so that the losses of single examples are not "
                "known: call backward of a loss that torch's functions compute from the module's outputs"
            )

    def _require_drawn(self, leaves: list[Any]) -> int:
        """Refuse inputs that are not the batch; return its number of examples."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if not tensors:
            raise ValueError(
                "a private module needs a tensor with a batch dimension among its inputs, got none"
            )
        n = len(tensors[0])
        if any(x.requires_grad for x in tensors):
            raise ValueError(
                "the network's inputs require a gradient, which would leave without noise: put what computes them into "
                "module, or detach them"
            )
        rows = {id(x): x for x in tensors if x.dim() > 0 and len(x) == n}
        if self.sampler is not None:
            self.sampler.require_rows([*rows.values()])
        plain = [_named(x) for x in leaves if not isinstance(x, Tensor)]
        rest = [x for x in tensors if id(x) not in rows]
        self.losses.constants.require("inputs of the network", plain, [])
        # what has one row looks like an example in a batch of one
        kind = "further inputs" if n > 1 else "further inputs for one example"
        self.losses.constants.require(kind, [], rest)
        return n

    def _require_alone(self, outputs: Any, inputs: Any, named: Any, n: int) -> None:
        """Refuse a network whose last examples have other outputs in a batch of a size that was not tried before, or
        in the first one that it is given with arguments of another form.

        Args:
            outputs: of the batch; None where they were drawn, and are computed again without draws.
        """
        form, now = form_of(inputs, named), random_state(self.module)
        tried = self.tried.get(form, {n // 2})
        beyond = n > max(tried)
        if outputs is None and not beyond and n > MOST:
            self.tried[form].add(n)  # unseen: a whole pass more at many steps would cost too much
            return
        # a size between two that were tried is compared with few examples, which cost little
        smaller = (k for k in tried if k < n and (beyond or k <= MOST))
        few = max(smaller, default=min(MOST, n // 2))
        with torch.no_grad(), WithoutDraws() if outputs is None else nullcontext():
            whole = self.module(*inputs, **named) if outputs is None else outputs
            # in another order, since what is read off the last place would be the same there
            last = torch.arange(n - few, n).flip(0)
            again, named_again, own = rows_at(last, (inputs, named, whole))
            moved = f"outputs of {few} examples are others in a batch of {n}"
            if _agree(own, self.module(*again, **named_again)):
                moved = ""
                if form not in self.tried and not self._blind_to_another(whole, inputs, named, n):
                    moved = "outputs of the others move when another example changes or moves"
        rewind(self.module, now)
        if moved:
            fix = "of the network"
            if form not in self.tried:
                fix = (
                    "of what the network does with these arguments, which make_private did not try"
                )
            elif beyond:
                fix += f", or keep to {few} with BatchMemoryManager"
            raise ValueError(
                f"the examples of a batch are not independent: {moved}; take batch statistics out {fix}"
            )
        if form in self.tried or n > 2:
            self.tried[form] = {*self.tried.get(form, ()), n}

    def _blind_to_another(self, whole: Any, inputs: Any, named: Any, n: int) -> bool:
        """Whether others keep their outputs ``whole`` where example 1 is made up, at its place, first, midway and last.

        A mask that happens to be alike in all examples, or nearly, shows no example that reads another's.
        """
        if n < 3:
            return True
        made_up = with_another((inputs, named), n)
        for place in (1, 0, n // 2, n - 1):
            order = moved_to(place, n)
            moved, by_name, own = rows_at(order, (*made_up, whole))
            with suppress(Exception):  # which a stranger's network may raise on what is made up
                found = self.module(*moved, **by_name)
                if not _agree(*rows_at(torch.arange(n)[order != 1], (own, found))):
                    return False
        return True


def _agree(one: Any, other: Any) -> bool:
    pairs = zip(tree_leaves(one), tree_leaves(other), strict=True)
    return all(close(a.detach(), b) for a, b in pairs if isinstance(a, Tensor))


def form_of(inputs: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Which arguments a network is called with: their names and nesting, and the value of what is no tensor."""
    given = [*inputs], dict(named)
    return repr(tree_map(lambda x: Tensor if isinstance(x, Tensor) else x, given))


def _named(x: object) -> str:
    """A number or a text itself; of anything else the kind, with a number made of all that it holds."""
    if isinstance(x, (*_VALUES, slice, range, torch.dtype, torch.device)):
        return repr(x)
    return f"{type(x).__name__} {zlib.crc32(repr(contents(x)).encode())}"


def gradients(module: nn.Module) -> list[Any]:
    """Which gradients each parameter has, and how often they were written."""
    found = [getattr(p, name, None) for p in module.parameters() for name in _GRADIENTS]
    return [(id(one), getattr(one, "_version", 0)) for one in found]


def set_up(module: nn.Module) -> list[Any]:
    """All layers with their classes, hooks, attributes and buffers, and torch's hooks of all modules; all parameters,
    which are trained, and hooked by what.

    Of attributes there are numbers and texts, which thing each other one is, and what such things, hooks and classes
    hold.
    """
    apart = {id(one) for one in (*module.modules(), *module.parameters(), *module.buffers())}
    found: list[Any] = [
        _hooks(nn.modules.module, _OF_ALL_MODULES),
        *((id(p), _hooks(p, _OF_PARAMETERS), p.requires_grad) for p in module.parameters()),
    ]
    kinds = dict.fromkeys(map(type, module.modules()))
    # whose attributes and closures the layers compute with
    further: list[Any] = [kind for kind in kinds if not kind.__module__.startswith("torch.")]
    for layer in module.modules():
        hooks = (hook for kind in _HOOKS for hook in (getattr(layer, kind) or {}).values())
        further += (hook for hook in hooks if not str(hook.__module__).startswith(_OWN_HOOKS))
        of_torch, plain = type(layer).__module__.startswith("torch."), dict[str, object]()
        for name, x in vars(layer).items():
            if name in _OF_A_PASS or (of_torch and name[0] == "_" and not isinstance(x, _VALUES)):
                continue
            plain[name] = x if isinstance(x, _VALUES) else id(x)
            if not _never_changes(x):
                further.append(x)
        buffers = [digest(x) for x in layer._buffers.values() if x is not None]
        found.append((id(layer), id(type(layer)), _hooks(layer, _HOOKS), plain, buffers))
    return [*found, contents(further, without=apart) if further else {}]


def _hooks(of: Any, kinds: tuple[str, ...]) -> list[tuple[int, ...]]:
    """The hooks of a layer, of a parameter or of all modules, by their numbers, kind for kind."""
    return [tuple(getattr(of, kind, None) or ()) for kind in kinds]


def _never_changes(x: Any) -> bool:
    """Whether nothing in it can change."""
    numbers = isinstance(x, tuple) and all(isinstance(one, _VALUES) for one in x)
    return numbers or isinstance(x, (*_VALUES, BuiltinFunctionType, nn.Module, nn.Parameter))
