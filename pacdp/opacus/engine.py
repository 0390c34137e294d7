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

import warnings
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

from bounds import _check
from bounds.privacy import Adjacency, one_of
from pacdp.certify import Network as Predictor
from pacdp.certify import Private, Report, Settings, certify
from pacdp.certify.evidence import rows_of
from pacdp.certify.loaders import bound_set, is_steady, require_steady
from pacdp.data.errors import DataError
from pacdp.layers.random import seed_layers
from pacdp.opacus.accountant import NAME, Account, EventAccountant
from pacdp.opacus.arguments import (
    PUBLIC_SIZE,
    SAMPLING,
    Drawn,
    Sampling,
    mode_of,
    require_accountant,
    require_kinds,
    require_rule,
    require_sound,
    sampling_of,
)
from pacdp.opacus.checkpoints import Files
from pacdp.opacus.distributed import unwrapped
from pacdp.opacus.epochs import OnceAnEpochSampler
from pacdp.opacus.loader import PoissonLoader, PoissonSampler
from pacdp.opacus.loss_by_example import PrivateCriterion, Reduction
from pacdp.opacus.optimizers import DataFreeGradient, PrivateOptimizer
from pacdp.opacus.set_up import private_module, require_ownership
from pacdp.schedules import Schedule, as_schedule, value_at
from pacdp.step.accountant import privacy_claim
from pacdp.step.budget import calibrated
from pacdp.step.clip import Clip, ClippingRule, require_clip_norm
from pacdp.step.event import ADJACENCY
from pacdp.step.noise import Randomness, SystemRandomness
from pacdp.step.processes import Together, rank_randomness, require_one_run
from pacdp.step.units import size

Batches = Literal["loader", "own"]
_LOOP = "whoever wrote the loop, in which the private optimizer alone moves the weights"
_MOVED = (
    "the weights are not those that the last private step left: what moved them since may know the examples by private "
    "steps alone, as a mean over steps does, or by no way"
)
_BATCHES = "and who drew its batches, Poisson samples at the sample rate in each of which a row stands once"


class PrivateEngine(Files, PrivacyEngine):  # pyright: ignore[reportIncompatibleMethodOverride]
    """One engine keeps one account: several calls of ``make_private`` (several chains) on the same data compose.

    Formal guarantee: what the optimizers' steps release is the composition of the Poisson-sampled Gaussian mechanisms
    in ``event``, under add-remove adjacency, provided that the caller releases nothing else computed from the data
    (losses, gradient norms, batch sizes, the choice of a stopping time) and takes batches from the returned loader
    only, and that the loss of an example is a function of the weights and of that example: trials refute that where
    they can. With ``sampling="once-an-epoch"`` the mechanisms are whole epochs, each counted before the noise of its
    first step.

    Args:
        sampling: "poisson", or "once-an-epoch": each pass of the loader throws every example into exactly one of its
            batches, independently and uniformly. Give ``steps=``, the number of batches, in place of a sample rate.
        accountant: "pld"; "prv" and "rdp" stand for it too, which is a proved upper bound of epsilon.
        secure_mode: noise is secure anyway, unless it comes from a seed.
        randomness: the operating system's generator by default; see :mod:`pacdp.step.noise`.
    """

    def __init__(
        self,
        *,
        sampling: Drawn = "poisson",
        accountant: str = NAME,
        secure_mode: bool = False,
        randomness: Randomness | None = None,
    ) -> None:
        require_accountant(accountant)
        one_of(Drawn, sampling=sampling)
        self.sampling: Drawn = sampling
        self.randomness = SystemRandomness() if randomness is None else randomness
        if secure_mode and not isinstance(self.randomness, SystemRandomness):
            raise ValueError("secure_mode=True and noise from a seed do not go together: give one")
        with warnings.catch_warnings(action="ignore"):  # that Opacus's own secure generator is off
            super().__init__(accountant=NAME)
        self._most_examples = 0
        self._own_batches = False

    @property
    def accountant(self) -> EventAccountant:
        """The account of all that this engine's optimizers release."""
        return self._account

    @accountant.setter
    def accountant(self, accountant: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Opacus's constructor writes here.

        Raises:
            ValueError: anybody else does.
        """
        if hasattr(self, "_account"):
            raise ValueError(
                "accountant cannot be exchanged, since another would forget the steps that ran: take a new "
                "PrivateEngine for other data"
            )
        self._account = EventAccountant()

    def get_epsilon(self, delta: float, *, adjacency: Adjacency | None = None) -> float:
        """See :func:`pacdp.private.epsilon`; :func:`pacdp.private.privacy_spent` of ``event`` has the lower end.

        It is for the neighbours of ``accountant.adjacency`` unless others are named: "add-remove" where sample rate and
        expected batch size were given, if neither was computed from the number of examples, as batch_size/len(dataset)
        is; name "replace-one" for such, which tell that number. It takes for true that each
        example entered the sums by itself, which trials and the guard of the loop can only refute. A delta above 1/n is
        remarked upon: it allows that some example is published as it is.
        """
        found = self.accountant.get_epsilon(delta, adjacency=adjacency)
        if delta * self._most_examples > 1.0:
            warnings.warn(
                f"delta {delta} is larger than 1/n for {self._most_examples} examples, and would allow that some of "
                "them are published as they are: choose it well below 1/n",
                stacklevel=2,
            )
        return found

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
        loss_reduction: Reduction = "mean",
        grad_sample_mode: str | None = None,
        steps: int | None = None,
        data_free_gradient: DataFreeGradient | None = None,
        probe: tuple[Any, ...] | None = None,
        batches: Batches = "loader",
        clipping: ClippingRule = "flat",
        **of_opacus: Any,
    ) -> Any:
        """Make network, optimizer and data private.

        Args:
            module: the network, or a ``DifferentiallyPrivateDistributedDataParallel`` of it, which is taken off: then
                all processes must make the same calls, and the loader gives each its own, possibly empty, part of
                every batch.
            noise_multiplier: σ, or σ_t as a function of the logical step alone, in which nothing of the data enters.
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
            steps: batches in one pass of the loader, which may be an epoch; by default those of ``data_loader``, or 1/q
                where q is given.
            data_free_gradient: called after the noise; adds a gradient that depends on no data to ``p.grad``.
            probe: the network's positional inputs for the tests of independence and of the mode: a tuple of tensors
                of at least 3 examples, or of dicts and tuples of such; without it numbers in the shape of the data's
                first field are made up.
            batches: "own" declares that every batch is a Poisson sample at ``sample_rate`` that the caller draws;
                otherwise a forward pass in training on anything but the rows of the returned loader's next batch is
                refused. A row then stands in one step alone, which has no parts, of one process.
            clipping: "automatic" for C/(‖g_i‖ + 0.01) in place of min(1, C/‖g_i‖) (:mod:`pacdp.step.clip`).
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
        require_rule(clipping)
        require_kinds(module, optimizer, data_free_gradient)
        one_of(Reduction, loss_reduction=loss_reduction)
        one_of(Batches, batches=batches)
        require_clip_norm(max_grad_norm=max_grad_norm)
        max_grad_norm = float(max_grad_norm)  # as sums are taken, and noise is drawn, by one number
        schedule, mode = cache(as_schedule(noise_multiplier)), mode_of(grad_sample_mode)
        drawn = sampling_of(
            data_loader, dataset, sample_rate, expected_batch_size, steps, drawn=self.sampling
        )
        once = self.sampling == "once-an-epoch"
        if once and batches == "own":
            raise ValueError(
                "batches='own' declares Poisson samples, and an epoch is known by the loader's passes alone: leave it "
                "out with sampling='once-an-epoch'"
            )
        self._tell_size(drawn)
        module, several = unwrapped(module)
        if several and batches == "own":
            raise ValueError(
                "batches='own' is for one process: of several each would draw from all examples, and one that is in "
                "the batches of two adds twice what the account assumes: leave it out, and take the loader, which "
                "gives each process its part"
            )
        require_ownership(module, optimizer)
        device, together = next(module.parameters()).device, Together(several=several)
        randomness = rank_randomness(self.randomness) if several else self.randomness
        draws = None if randomness.state() else randomness.generator
        if draws is not None:
            seed_layers(module, draws)
        sampler = OnceAnEpochSampler if once else PoissonSampler
        loader = PoissonLoader(**drawn.loading, randomness=randomness, sampler=sampler)
        self._most_examples = max(self._most_examples, loader.drawn_by.num_samples)
        numbers = {"max_grad_norm": max_grad_norm, "expected_batch_size": drawn.expected_batch_size}
        rate, every = drawn.loading["sample_rate"], drawn.loading["steps"]
        if several:
            claims = numbers | {
                "sample_rate": rate,
                "steps": every,
                "sampling": self.sampling,
                "noise_multiplier": value_at(0, noise_multiplier=schedule),
                "grad_sample_mode": mode,
                "clipping": clipping,
            }
            require_one_run(claims, loader.dataset, rank_randomness(randomness), device)
        wrapped = private_module(
            module,
            loader,
            probe,
            Clip(max_grad_norm, rule=clipping),
            mode=mode,
            loss_reduction=loss_reduction,
            sampler=loader.drawn_by if batches == "loader" else None,
            draws=draws,
        )
        account = Account(
            accountant=self.accountant,
            schedule=schedule,
            sample_rate=rate,
            every=every,
            randomness=self.randomness,
            together=together,
            device=device,
            once=once,
        )
        private = PrivateOptimizer(
            optimizer.original_optimizer if isinstance(optimizer, DPOptimizer) else optimizer,
            guard=wrapped.guard,
            account=account,
            randomness=randomness,
            data_free_gradient=data_free_gradient,
            loss_reduction=loss_reduction,
            **numbers,
        )
        self._made, self._guard, self._several = (module, loader.dataset), wrapped.guard, several
        self._own_batches |= batches == "own"
        if criterion is not None:
            return wrapped, private, PrivateCriterion(criterion, loss_reduction), loader
        return wrapped, private, loader

    def make_private_with_epsilon(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, target_epsilon: float, target_delta: float, epochs: int, **others: Any
    ) -> Any:
        """Call :meth:`make_private` with the least noise with which ``epochs`` passes of its loader keep to the target.

        Formal guarantee: ``get_epsilon(target_delta) <= target_epsilon`` after that many passes, or fewer, if no other
        network of this engine takes a step.

        Args:
            others: all other arguments of :meth:`make_private`.

        Raises:
            ValueError: as for :meth:`make_private`; a target that no noise meets; an engine that has a history.
        """
        if self.event is not None:
            raise ValueError(
                f"this engine has recorded {len(self.accountant)} steps, which the target would not cover: give "
                "make_private the noise_multiplier that pacdp.private.calibrated finds for what is left"
            )
        if self._made is not None:
            warnings.warn(
                "this engine made another network private before: the target is kept to if that one takes no step",
                stacklevel=2,
            )
        if "noise_multiplier" in others:
            raise ValueError("noise_multiplier is what is found for target_epsilon: leave it out")
        _check.count(epochs=epochs)
        drawn = sampling_of(*map(others.get, SAMPLING), drawn=self.sampling)
        self._tell_size(drawn)
        name = "batches" if self.sampling == "once-an-epoch" else "sample_rate"
        noise = calibrated(
            1.0,
            **{name: drawn.loading["steps" if name == "batches" else name]},
            steps=epochs * drawn.loading["steps"],
            target_epsilon=target_epsilon,
            delta=target_delta,
            adjacency=self.accountant.adjacency,
        )
        return self.make_private(noise_multiplier=noise, **others)

    def _tell_size(self, drawn: Sampling) -> None:
        """Note that the number of examples is public, and warn whoever called the public method, once an engine."""
        if drawn.public_size and not self.accountant.public_size:
            self.accountant.public_size = True
            warnings.warn(f"{PUBLIC_SIZE} (once an epoch: steps=)", stacklevel=3)

    def certify(
        self, data: Any = None, *, failure_prob: float = 0.05, settings: Settings | None = None
    ) -> Report:
        """Certify the network that was made private last, at its weights now, from the examples that trained it.

        Formal guarantee: that of :func:`pacdp.certify` at the price of everything in ``event``, if the weights are made
        of nothing else that depends on the examples: first weights that learnt from them without noise are not paid
        for. The report itself counts errors without noise: it is private.

        Args:
            data: those examples, or some of them, in any form that ``pacdp.certify`` takes; all by default. Where the
                loader's data set has random transforms, the examples without them: no hash can show that they are
                those, and whoever wrote the loop vouches for it.

        Raises:
            ValueError: nothing was made private, random transforms and no data, or as for :func:`pacdp.certify`.
            DataError: examples that the promise does not cover, or more than there were.
        """
        module, dataset = self.last_made()
        claim = privacy_claim(self.event, adjacency=ADJACENCY)
        noise = f"{_LOOP}; {_BATCHES}" if self._own_batches else _LOOP
        steady = is_steady(dataset, "the loader's data")
        if data is None and not steady:
            raise ValueError(
                f"the loader's {type(dataset).__name__} draws its rows anew at every reading: give certify(data) its "
                "examples without random transforms"
            )
        rows = rows_of(dataset, "the loader's data") if steady else None
        source = Private(privacy=claim, rows=rows, noise=noise)
        require_steady(data, "data")
        examples = bound_set(dataset if data is None else data)
        if examples.n > (most := size(dataset)):
            raise DataError(
                f"data must be examples that trained the network, of which there were {most}, got {examples.n}: give "
                "each once"
            )
        modes = {layer: layer.training for layer in module.modules()}
        module.eval()
        try:
            found = certify(
                Predictor(network=module),
                examples,
                prior=source,
                failure_prob=failure_prob,
                settings=settings,
            )
        finally:
            for layer, training in modes.items():
                layer.training = training
        moved = self.event is not None and not self._guard.weights.kept()
        return replace(found, remarks=(*found.remarks, *[_MOVED] * moved))
