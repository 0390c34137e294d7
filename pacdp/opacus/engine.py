"""Opacus's privacy engine, with public rates, fixed divisors, noise schedules and an event.

    engine = PrivateEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0,
        sample_rate=0.01, expected_batch_size=256)
    for inputs, targets in loader:                    # the loop of Opacus, unchanged
        optimizer.zero_grad()
        criterion(model(inputs), targets).backward()
        optimizer.step()
    engine.event, engine.get_epsilon(delta=1e-5)
    engine.certify()                                  # from the very examples that trained it

Sample rate and expected batch size are public numbers that the caller chooses, because add-remove privacy hides the
number of examples. Without a sample rate the loader says it, as in Opacus; then the number of examples is public, and
epsilon is for replace-one neighbours. A network wrapped in Opacus's ``DifferentiallyPrivateDistributedDataParallel`` is
trained by all processes of the default group together; see :mod:`pacdp.opacus.distributed`. Everything else is Opacus:
its modules, optimizers, samplers and batch memory manager, through its own extension points.
"""

import math
import warnings
from functools import cache, partial
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from opacus.validators.errors import UnsupportedModuleError
from torch import Tensor, nn, optim
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Dataset, default_collate

from bounds import _check
from bounds.accounting import Event
from bounds.privacy import Adjacency
from pacdp.certify import Assessment, Private, Settings, certify
from pacdp.certify import Network as Predictor
from pacdp.certify.batches import bound_set
from pacdp.certify.evidence import rows_of
from pacdp.errors import CheckpointError, require_finite, require_fraction
from pacdp.opacus.account import Account, Counts
from pacdp.opacus.accountant import NAME, EventAccountant
from pacdp.opacus.arguments import (
    PUBLIC_SIZE,
    mode_of,
    require_accountant,
    require_sound,
    sampling_of,
)
from pacdp.opacus.criterion import PrivateCriterion
from pacdp.opacus.distributed import unwrapped
from pacdp.opacus.ghost import GhostModule, GhostSums
from pacdp.opacus.guard import Guard, set_up
from pacdp.opacus.loader import PoissonLoader, PoissonSampler
from pacdp.opacus.modules import PrivateModule, ReferenceModule, network
from pacdp.opacus.optimizers import DataFreeGradient, PrivateOptimizer
from pacdp.resume import RunState, export_weights, load_run, save_run
from pacdp.schedules import Schedule, as_schedule
from pacdp.step import event as events
from pacdp.step.accountant import privacy_claim
from pacdp.step.agreement import chosen_mode
from pacdp.step.budget import calibrated
from pacdp.step.event import ADJACENCY
from pacdp.step.mechanism import GradSampleMode
from pacdp.step.noise import Randomness, SystemRandomness
from pacdp.step.processes import Together, process_rank, rank_randomness, require_one_run
from pacdp.step.units import Network
from pacdp.store.ledger import Ledger
from pacdp.trials import made_up_batch, require_independent_examples

_LOOP = "whoever wrote the loop, in which the private optimizer alone moves the weights"


class PrivateEngine(PrivacyEngine):
    """One engine keeps one account: several calls of ``make_private`` (several chains) on the same data compose.

    Formal guarantee: what the optimizers' steps release is the composition of the Poisson-sampled Gaussian mechanisms
    in ``event``, under add-remove adjacency, provided that the caller releases nothing else computed from the data
    (losses, gradient norms, batch sizes, the choice of a stopping time) and takes batches from the returned loader
    only.

    Args:
        accountant: "pld"; "prv" and "rdp" stand for it too, which is a proved upper bound of epsilon.
        secure_mode: noise is secure anyway, unless it comes from a seed.
        randomness: the operating system's generator by default; see :mod:`pacdp.step.noise`.
    """

    def __init__(
        self,
        *,
        accountant: str = NAME,
        secure_mode: bool = False,
        randomness: Randomness | None = None,
    ) -> None:
        require_accountant(accountant)
        self.randomness = SystemRandomness() if randomness is None else randomness
        if secure_mode and not isinstance(self.randomness, SystemRandomness):
            raise ValueError("secure_mode=True and noise from a seed do not go together: give one")
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # Opacus warns that its own secure generator is off; ours is used
            super().__init__(accountant=NAME)
        self.accountant: EventAccountant = EventAccountant()
        self._counts = Counts(accountant=self.accountant)
        self._most_examples = 0
        self._made: tuple[nn.Module, Dataset[Any]] | None = None

    @property
    def event(self) -> Event | None:
        """The mechanisms that ran; None before the first step."""
        return self.accountant.event

    def get_epsilon(self, delta: float, *, adjacency: Adjacency | None = None) -> float:
        """See :func:`pacdp.private.epsilon`; :func:`pacdp.private.privacy_spent` of ``event`` has the lower end.

        It is for the neighbours of ``accountant.adjacency`` unless others are named.

        A delta above 1/n is remarked upon: it allows that some example is published as it is.
        """
        if delta * self._most_examples > 1.0:
            warnings.warn(
                f"delta {delta} is larger than 1/n for {self._most_examples} examples, and would allow that some of "
                "them are published as they are: choose it well below 1/n",
                stacklevel=2,
            )
        return self.accountant.get_epsilon(delta, adjacency=adjacency)

    def make_private(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        module: nn.Module,
        optimizer: optim.Optimizer,
        noise_multiplier: Schedule | float,
        max_grad_norm: float,
        data_loader: DataLoader[Any] | None = None,
        dataset: Dataset[Any] | None = None,
        sample_rate: float | None = None,
        expected_batch_size: float | None = None,
        criterion: Any = None,
        loss_reduction: str = "mean",
        grad_sample_mode: str | None = None,
        steps: int | None = None,
        pre_noise: float = 0.0,
        data_free_gradient: DataFreeGradient | None = None,
        probe: tuple[Any, ...] | None = None,
        batches: Literal["loader", "own"] = "loader",
        **of_opacus: Any,
    ) -> Any:
        """Make network, optimizer and data private.

        Args:
            module: the network, or a ``DifferentiallyPrivateDistributedDataParallel`` of it, which is taken off: then
                all processes must make the same calls, and the loader gives each its own, possibly empty, part of
                every batch.
            noise_multiplier: σ, or σ_t as a function of the logical step.
            max_grad_norm: C, the norm to which each example's gradient is clipped.
            data_loader: of which dataset, collate function and workers are taken; or ``dataset`` alone.
            sample_rate: q; public. Without it, one over the number of batches of ``data_loader``: then the number of
                examples is public, and epsilon is for replace-one neighbours.
            expected_batch_size: the divisor of every sum; public; a constant such as q times a rough size of the data.
                Without it, the batch size that ``data_loader`` was given.
            criterion: a loss whose reduction is to be taken over the examples alone; it comes back as one, and the
                loop calls that. Without it the loop calls whatever it likes.
            loss_reduction: how the loss of the caller's loop adds up the examples, "mean" or "sum". It is undone; the
                gradient is always Σ/expected_batch_size. A loss that adds them up otherwise is refused at its backward
                pass (:mod:`pacdp.opacus.guard`).
            grad_sample_mode: see :class:`pacdp.step.mechanism.Mechanism`; Opacus's "hooks", "functorch" and "ew" stand
                for its None.
            steps: batches in one pass of the loader; by default those of ``data_loader``, or 1/q where q is given.
            pre_noise: see :class:`pacdp.step.sums.ByExample`.
            data_free_gradient: called after the noise; adds a gradient that depends on no data to ``p.grad``.
            probe: the network's positional inputs for the tests of independence and of the mode: a tuple of tensors
                of at least 3 examples, or of dicts and tuples of such; without it numbers in the shape of the data's
                first field are made up.
            batches: "own" declares that every batch is a Poisson sample at ``sample_rate`` that the caller draws;
                otherwise a forward pass in training on anything but the rows of the returned loader's next batch is
                refused. A row then stands in one step alone, which has no parts.
            of_opacus: further arguments of Opacus's, such as ``poisson_sampling=True``, at the values that are sound
                here (:mod:`pacdp.opacus.arguments`).

        Returns:
            (module, optimizer, loader), and with a criterion (module, optimizer, criterion, loader), as in Opacus.

        Raises:
            ValueError: a public number out of range; examples that depend on each other; ghost clipping that
                was asked for and cannot be used; an optimizer with parameters of another
                network, or without some trainable parameter of this one; a collate function that mixes examples;
                processes that differ in what they are given.
        """
        require_sound(of_opacus)
        schedule, mode = cache(as_schedule(noise_multiplier)), mode_of(grad_sample_mode)
        sample_rate, expected_batch_size, steps = self._sampling(
            data_loader, dataset, sample_rate, expected_batch_size, steps
        )
        _check_numbers(max_grad_norm, sample_rate, expected_batch_size, pre_noise)
        if steps is not None:
            _check.count(steps=steps)
        _check_words(loss_reduction, batches)
        module, several = unwrapped(module)
        _check_ownership(module, optimizer)
        randomness = rank_randomness(self.randomness) if several else self.randomness
        loader = _loader(dataset, data_loader, sample_rate, steps, randomness)
        self._most_examples = max(self._most_examples, loader.poisson.num_samples)
        device = next(module.parameters()).device
        if several:
            public = {"noise_multiplier": schedule(0), "max_grad_norm": max_grad_norm, "sample_rate": sample_rate,
                      "expected_batch_size": expected_batch_size, "grad_sample_mode": mode,
                      "pre_noise": pre_noise, "steps": loader.batch_sampler.steps}  # pyright: ignore  # fmt: skip
            require_one_run(public, loader.dataset, rank_randomness(randomness), device)
        inputs = probe if probe is not None else (_made_up_input(loader).to(device),)
        try:
            require_independent_examples(module, inputs)
        except (ValueError, RuntimeError) as error:
            raise UnsupportedModuleError(str(error).splitlines()[0]) from error
        generator = randomness.generator("pre-noise", device) if pre_noise > 0.0 else None
        tried = inputs[0] if probe is None else inputs
        if _chosen_mode(mode, module, tried, max_grad_norm, pre_noise) == "ghost":
            wrapped: PrivateModule = GhostModule(module, clip_norm=max_grad_norm)
        else:
            wrapped = ReferenceModule(
                module,
                clip_norm=max_grad_norm,
                inputs=inputs,
                pre_noise=pre_noise,
                generator=generator,
            )
        together = Together(several=several)
        account = Account(
            counts=self._counts, schedule=schedule, sample_rate=sample_rate,
            every=loader.poisson.steps, randomness=self.randomness, together=together,
            device=device)  # fmt: skip
        private = self._prepare_optimizer(
            optimizer=optimizer, noise_schedule=schedule, clip_norm=max_grad_norm,
            expected_batch_size=expected_batch_size, loss_reduction=loss_reduction,
            data_free_gradient=data_free_gradient, pre_noise_generator=generator,
            together=together, randomness=randomness, account=account)  # fmt: skip
        self._made = module, loader.dataset
        _watch(wrapped, private, loss_reduction, loader.poisson if batches == "loader" else None)
        if criterion is not None:
            return wrapped, private, PrivateCriterion(criterion, loss_reduction), loader
        return wrapped, private, loader

    def _prepare_optimizer(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, optimizer: optim.Optimizer, together: Together, **settings: Any
    ) -> PrivateOptimizer:  # fmt: skip
        inner = optimizer.original_optimizer if isinstance(optimizer, DPOptimizer) else optimizer
        private = PrivateOptimizer(inner, **settings)
        private.together = together
        return private

    def make_private_with_epsilon(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        data_loader: DataLoader[Any] | None = None,
        dataset: Dataset[Any] | None = None,
        sample_rate: float | None = None,
        expected_batch_size: float | None = None,
        steps: int | None = None,
        **others: Any,
    ) -> Any:
        """Call :meth:`make_private` with the least noise with which ``epochs`` passes of its loader keep to the target.

        Formal guarantee: ``get_epsilon(target_delta) <= target_epsilon`` after that many passes, or fewer.

        Raises:
            ValueError: as for :meth:`make_private`; a target that no noise meets; an engine that has a history.
        """
        if self.event is not None:
            raise ValueError(
                f"this engine has recorded {len(self.accountant)} steps, which the target would not cover: give "
                "make_private the noise_multiplier that pacdp.private.calibrated finds for what is left"
            )
        _check.count(epochs=epochs)
        rate, divisor, steps = self._sampling(
            data_loader, dataset, sample_rate, expected_batch_size, steps
        )
        noise = calibrated(
            1.0,
            sample_rate=rate,
            steps=epochs * (steps or math.ceil(1.0 / rate)),
            target_epsilon=target_epsilon,
            delta=target_delta,
            adjacency=self.accountant.adjacency,
        )
        return self.make_private(
            noise_multiplier=noise,
            data_loader=data_loader,
            dataset=dataset,
            sample_rate=rate,
            expected_batch_size=divisor,
            steps=steps,
            **others,
        )

    def _sampling(
        self,
        data_loader: DataLoader[Any] | None,
        dataset: Dataset[Any] | None,
        sample_rate: float | None,
        expected_batch_size: float | None,
        steps: int | None,
    ) -> tuple[float, float, int | None]:
        """Rate, divisor and batches of one pass; a rate that the loader says changes the neighbours, and is said."""
        found = sampling_of(
            data_loader,
            dataset,
            sample_rate=sample_rate,
            expected_batch_size=expected_batch_size,
            steps=steps,
        )
        if found.public_size:
            self.accountant.adjacency = "replace-one"
            warnings.warn(PUBLIC_SIZE, stacklevel=3)
        return found.sample_rate, found.expected_batch_size, found.steps

    def ledger(self, folder: Path | str) -> Ledger:
        """Count every step in the ledger of this folder before its noise is drawn, pass by pass, and return it.

        Steps that this engine has recorded before are entered at once: call it before them, and before
        :meth:`load_checkpoint`, whose steps a ledger has.

        Raises:
            ValueError: the engine counts in a ledger already; the ledger is damaged or cannot be written.
        """
        if self._counts.books is not None:
            raise ValueError("this engine counts its steps in a ledger already: open no second one")
        book = Ledger.open(folder)
        if self.event is not None and process_rank() == 0:
            book.correct(event=self.event, unit="example", label="steps before the engine's ledger")
        self._counts.books = book
        return book

    def certify(
        self, data: Any = None, *, failure_prob: float = 0.05, settings: Settings | None = None
    ) -> Assessment:
        """Certify the network that was made private last, at its weights now, from the examples that trained it.

        Formal guarantee: that of :func:`pacdp.certify` at the price of everything in ``event``, if the weights are made
        of nothing else that depends on the examples. The report itself counts errors without noise: it is private.

        Args:
            data: those examples, or some of them, in any form that ``pacdp.certify_network`` takes; all by default.

        Raises:
            ValueError: nothing was made private, or as for :func:`pacdp.certify`.
            DataError: examples that the promise does not cover.
        """
        module, dataset = self._last_made()
        claim = privacy_claim(self.event, adjacency=ADJACENCY)
        source = Private(privacy=claim, rows=rows_of(dataset, "the loader's data"), noise=_LOOP)
        examples = bound_set(dataset if data is None else data)
        training = module.training
        module.eval()
        try:
            return certify(
                Predictor(network=module),
                examples,
                prior=source,
                failure_prob=failure_prob,
                settings=settings,
            )
        finally:
            module.train(training)

    def export(self, folder: Path | str) -> Path:
        """Write the weights of the network that was made private last, with the event, into a new folder to publish.

        Raises:
            ValueError: nothing was released; noise from a seed, which can be subtracted; a folder that exists.
            CheckpointError: it cannot be written.
        """
        module, _ = self._last_made()
        if not isinstance(self.randomness, SystemRandomness):
            raise ValueError(
                "the noise came from a seed, and whoever knows it can subtract it: publish what PrivateEngine() trained"
            )
        if self.event is None:
            raise ValueError("no step was made, so that there is nothing to publish: train first")
        path = Path(folder) / "weights.safetensors"
        if path.parent.exists():
            raise ValueError(f"{folder} exists: give the name of a folder that is not there yet")
        path.parent.mkdir(parents=True)
        export_weights(
            path,
            weights=dict(module.named_parameters()),
            event=self.event,
            remark=PUBLIC_SIZE if self.accountant.adjacency != ADJACENCY else "",
        )
        return path

    def _last_made(self) -> tuple[nn.Module, Dataset[Any]]:
        if self._made is None:
            raise ValueError("nothing was made private by this engine: call make_private first")
        return self._made

    def save_checkpoint(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, path: Path | str, module: nn.Module, optimizer: DPOptimizer
    ) -> None:
        """Write weights, optimizer, event and generator states as safetensors; see :mod:`pacdp.resume`.

        Of several processes the first writes; all must call this.
        """
        state = _state(module, optimizer, self.randomness)
        state.step, state.history = _steps(optimizer), events.History(self.event)
        save_run(path, state, together=_together(optimizer))

    def load_checkpoint(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, path: Path | str, module: nn.Module, optimizer: DPOptimizer
    ) -> None:
        """Read it back into ``module``, ``optimizer`` and this engine. No code runs on load.

        Raises:
            CheckpointError: no such file, another kind of file, another network, another noise schedule than the one
                that the history records, or an engine that has a history of its own, which loading would forget.
        """
        if self.event is not None:
            raise CheckpointError(
                f"this engine has already recorded {len(self.accountant)} steps, which loading {path} would forget: "
                "load into a new engine and join their events with pacdp.private.joined"
            )
        state = _state(module, optimizer, self.randomness)
        load_run(
            path,
            state,
            together=_together(optimizer),
            check=lambda read: _check_schedule(path, optimizer, read),
        )
        optimizer.logical_step = state.step  # pyright: ignore[reportAttributeAccessIssue]
        self.accountant.event = state.history.event
        optimizer.guard.set_up = set_up(network(module))  # pyright: ignore[reportAttributeAccessIssue]


def _backward(
    wrapped: Any, private: PrivateOptimizer, outputs: list[Tensor], slopes: list[Tensor]
) -> None:
    """Hand the clipped sum over; no gradient without noise is left on which an optimizer could step."""
    found = wrapped.clipped_sum(outputs, slopes)
    names = {id(p): name for name, p in network(wrapped).named_parameters()}
    sums = [found.total[names[id(p)]] for p in private.params]
    private.hand_over(sums, examples=len(outputs[0]), nonfinite=int(found.nonfinite))


def _watch(
    wrapped: Any, private: PrivateOptimizer, loss_reduction: Any, sampler: PoissonSampler | None
) -> None:
    """Let the guard's backward pass be the wrapped network's, and all three know each other."""
    backward = partial(_backward, wrapped, private)
    guard = Guard(
        network(wrapped), backward=backward, loss_reduction=loss_reduction, sampler=sampler
    )
    wrapped.guard = private.guard = guard
    private.sampler = sampler


def _state(module: nn.Module, optimizer: DPOptimizer, randomness: Randomness) -> RunState:
    pre_noise: torch.Generator | None = optimizer.pre_noise_generator  # pyright: ignore[reportAttributeAccessIssue]
    public = {
        "clip_norm": optimizer.max_grad_norm,
        "expected_batch_size": optimizer.expected_batch_size,
    }
    return RunState(
        module=network(module),
        optimizer=optimizer.original_optimizer,
        randomness=randomness,
        public=public,  # pyright: ignore[reportArgumentType]
        settings={},
        generators={} if pre_noise is None else {"pre_noise": pre_noise},
    )


def _together(optimizer: DPOptimizer) -> Together:
    return optimizer.together  # pyright: ignore[reportAttributeAccessIssue]


def _steps(optimizer: DPOptimizer) -> int:
    return optimizer.logical_step  # pyright: ignore[reportAttributeAccessIssue]


def _check_schedule(path: Path | str, optimizer: DPOptimizer, read: RunState) -> None:
    """The last steps of the event are this optimizer's (earlier ones are of earlier chains)."""
    ran = read.history.event
    own = events.after(ran, events.steps_of(ran) - read.step)
    schedule: Schedule = optimizer.noise_schedule  # pyright: ignore[reportAttributeAccessIssue]
    found = [step for step, count in events.runs_of(own) for _ in range(count)]
    for t, step in enumerate(found):
        rate = getattr(step, "sample_rate", 1.0)
        if step != events.sampled_step([float(schedule(t))], sample_rate=rate):
            raise CheckpointError(
                f"{path} records other noise multipliers for its {read.step} steps than noise_multiplier gives: "
                "resume with the schedule that it was trained with"
            )


def _chosen_mode(
    asked: GradSampleMode | None, module: nn.Module, inputs: Any, clip_norm: float, pre_noise: float
) -> GradSampleMode:
    """The mode for a network, tried with a smooth made-up loss."""
    return chosen_mode(
        asked,
        lambda network, units, norm: GhostSums(network.module, units, network.loss, clip_norm=norm),
        Network.of(_Joined(module), _sines),
        inputs,
        torch.zeros(1, device=next(module.parameters()).device),
        clip_norm=clip_norm,
        pre_noise=pre_noise,
    )


class _Joined(nn.Module):
    """A network with all its floating-point outputs in one row."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> Tensor:
        leaves = [
            x
            for x in tree_leaves(self.module(*inputs))
            if isinstance(x, Tensor) and x.is_floating_point()
        ]
        return torch.cat([x.reshape(len(x), -1) for x in leaves], dim=1)


def _sines(outputs: Tensor, targets: Tensor) -> Tensor:
    del targets
    return torch.sin(outputs + torch.arange(outputs.shape[1], device=outputs.device)).mean(1)


def _loader(dataset: Dataset[Any] | None, data_loader: DataLoader[Any] | None, sample_rate: float,
            steps: int | None, randomness: Randomness) -> PoissonLoader:  # fmt: skip
    steps = math.ceil(1.0 / sample_rate) if steps is None else steps
    if data_loader is None:
        assert dataset is not None
        return PoissonLoader(dataset, sample_rate=sample_rate, steps=steps, randomness=randomness)
    return PoissonLoader(
        data_loader.dataset, sample_rate=sample_rate, steps=steps, randomness=randomness,
        collate_fn=data_loader.collate_fn or default_collate, num_workers=data_loader.num_workers,
        pin_memory=data_loader.pin_memory, worker_init_fn=data_loader.worker_init_fn)  # fmt: skip


def _made_up_input(loader: PoissonLoader) -> Tensor:
    empty = loader.collate_fn.empty
    first = next(iter(empty.values())) if isinstance(empty, dict) else empty
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if not isinstance(first, Tensor):
        raise ValueError(
            "cannot tell the network's input from the data: give probe=(inputs,), a batch of at least 3"
        )
    return made_up_batch(first)


def _check_numbers(
    max_grad_norm: float, sample_rate: float, expected_batch_size: float, pre_noise: float
) -> None:
    require_finite(max_grad_norm=max_grad_norm, expected_batch_size=expected_batch_size)
    require_fraction(sample_rate=sample_rate)
    if not (isinstance(pre_noise, Real) and math.isfinite(pre_noise) and pre_noise >= 0.0):
        raise ValueError(f"expected pre_noise >= 0 and finite, got {pre_noise}")


def _check_words(loss_reduction: str, batches: str) -> None:
    if batches not in ("loader", "own"):
        raise ValueError(f"batches must be 'loader' or 'own', got {batches!r}")
    if loss_reduction not in ("mean", "sum"):
        raise ValueError(f"loss_reduction must be 'mean' or 'sum', got {loss_reduction!r}")


def _check_ownership(module: nn.Module, optimizer: optim.Optimizer) -> None:
    if any(hasattr(p, "grad_sample") for p in module.parameters()):
        raise ValueError(
            "module is private already: go on with what make_private returned, or call to_standard_module() on it first"
        )
    if not module.training:
        raise ValueError("module is in evaluation mode: call train() on it before make_private")
    owned = {id(p) for p in module.parameters()}
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not held <= owned:
        raise ValueError(
            "optimizer holds parameters that module does not have: build it from module.parameters()"
        )
    free = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in held]
    if free:
        raise ValueError(
            f"parameter {free[0]} of module is trainable and not in optimizer, so that nothing clips its gradient: "
            "give optimizer all trainable parameters, or freeze the others by requires_grad_(False)"
        )
