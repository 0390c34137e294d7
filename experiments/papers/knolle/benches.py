"""Data, network, budget and step sizes of the two halves of the paper's Section 5, and of what stands in for them.

The text gives the budgets, "a five layer convolutional neural network" and "a pre-trained, frozen backbone
(EfficientNet B1, ImageNet) with two trainable dense layers". Batch sizes, step sizes, clip norm, temperature, decay and
pre-noise are not in it. Those of MNIST are the private recipes', found on MNIST. Those of the X-rays are from a coarse
search for accuracy (a factor of three between step sizes) on 651 images of 450 training patients, a fourth of them held
out, with the noise that the whole set would see; the test set was not looked at. No epsilon counts either search.

DP-SGLD is that of the paper's Algorithm 1, the gradient slot: σ_t = √(2 α_t τ). The temperatures τ were chosen so that
nearly all planned steps fit into the budget; the accountant halts the run before the first step that does not.
"""

from dataclasses import dataclass, replace

from experiments.private.config import Budget, PrivateConfig, Sampling
from experiments.private.methods import DPSGD, DPSGLD, UserDPSGD
from experiments.recipes import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Step sizes of DP-SGLD, and the temperature with which the steps cost the budget."""

    step_size: float
    decay: float
    decay_offset: float
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One data set with everything that its rows share."""

    name: str
    """In tables and figures."""
    run: PrivateConfig
    """Data, network, sampling and budget; ``method`` is DP-SGD's."""
    decaying: Steps
    constant: Steps
    pre_noise: float
    """ρ for which the noise on an example's gradient is about half as long as the clip norm: ½/√(parameters)."""
    plain_epochs: int
    plain_rate: float
    people: PrivateConfig | None = None
    """The same with the patient as the unit of privacy."""

    def sgld(self, *, pre_noise: bool, decay: bool, snapshots: int) -> PrivateConfig:
        """DP-SGLD with or without its two additions, keeping ``snapshots`` weights from the second half of the run."""
        steps = self.decaying if decay else self.constant
        method = DPSGLD(convention="gradient-slot", step_size=steps.step_size, decay=steps.decay,
                        decay_offset=steps.decay_offset, temperature=steps.temperature,
                        pre_noise=self.pre_noise if pre_noise else 0.0, snapshots=snapshots)  # fmt: skip
        # pre-noise needs every example's own gradient; the mode changes the numbers in the last digits only
        return replace(self.run, method=method, sampling=replace(self.run.sampling, grad_sample_mode="hooks"))


MNIST = Bench(
    name="MNIST",
    run=PrivateConfig(dataset="mnist", method=DPSGD(learning_rate=2.0), sampling=Sampling(sample_rate=0.02, steps=500),
                      budget=Budget(epsilon=0.5, delta=1e-5), records=5),
    decaying=Steps(step_size=2.2, decay=0.33, decay_offset=500.0, temperature=2.82),
    constant=Steps(step_size=2.0, decay=0.0, decay_offset=1.0, temperature=2.72),
    pre_noise=0.0024, plain_epochs=5, plain_rate=0.05,
)  # fmt: skip


def _xrays() -> Bench:
    run = PrivateConfig(dataset="xrays224", features="backbone", architecture="fc", hidden=(32,),
                        method=DPSGD(learning_rate=0.3), sampling=Sampling(sample_rate=0.1, steps=200),
                        budget=Budget(epsilon=6.0, delta=1e-4), records=5)  # fmt: skip
    return Bench(
        name="X-rays", run=run,
        decaying=Steps(step_size=0.33, decay=0.33, decay_offset=200.0, temperature=2.6),
        constant=Steps(step_size=0.3, decay=0.0, decay_offset=1.0, temperature=2.505),
        pre_noise=0.0025, plain_epochs=5, plain_rate=0.01,
        people=_by_person(run, learning_rate=0.3),
    )  # fmt: skip


def _by_person(run: PrivateConfig, *, learning_rate: float) -> PrivateConfig:
    sampling = replace(run.sampling, max_physical=64)
    return replace(run, method=UserDPSGD(learning_rate=learning_rate), sampling=sampling)


def _digits(name: str) -> Bench:
    run = PrivateConfig(dataset="digits", architecture="fc", hidden=(32,), method=DPSGD(learning_rate=2.0),
                        sampling=Sampling(sample_rate=0.1, steps=40), budget=Budget(epsilon=8.0, delta=1e-3),
                        records=2)  # fmt: skip
    return Bench(
        name=name, run=run,
        decaying=Steps(step_size=2.2, decay=0.33, decay_offset=40.0, temperature=0.104),
        constant=Steps(step_size=2.0, decay=0.0, decay_offset=1.0, temperature=0.1),
        pre_noise=0.01, plain_epochs=10, plain_rate=0.05,
        people=_by_person(run, learning_rate=2.0) if name == "X-rays" else None,
    )  # fmt: skip


XRAYS = _xrays()


def benches(scale: Scale) -> tuple[Bench, Bench]:
    """The paper's two; at ``smoke`` scikit-learn's digits in the place of both."""
    return (_digits("MNIST"), _digits("X-rays")) if scale == "smoke" else (MNIST, XRAYS)
