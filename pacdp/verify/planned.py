"""The mechanisms that a run's settings plan, and whether those that are said to have run are these."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pacdp.verify.claim import Unchecked, Wrong
from pacdp.verify.loss import Step, private, steps_of


def of_chain(header: Mapping[str, Any], steps: int) -> list[Step]:
    """What so many steps of SGLD or Entropy-SG(L)D add: noise (K/C) √(2/(τ h)) at step size h, sample rate K/n."""
    s = header["sampler"]
    if s.get("clip_norm") is None or s["kind"] not in ("SGLD", "EntropySGD"):
        raise Wrong("the sampler's steps are no private mechanisms")
    if s["kind"] == "EntropySGD":
        sizes = [s["inner_step_size"] / 2 * i ** -s["inner_decay"] for i in range(1, s["inner_steps"] + 1)] * steps
    else:
        sizes = [s["step_size"] * t ** -s["decay"] for t in range(1, steps + 1)]
    rate, noise, t = s["batch_size"] / header["n"], s["batch_size"] / s["clip_norm"], range(1, len(sizes) + 1)
    heat = [s["tau"] * i ** s.get("cooling", 0.0) for i in t]
    return [Step(rate, noise * math.sqrt(2 / (tau * h))) for tau, h in zip(heat, sizes, strict=True)]


def sums_of_chain(header: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a chain that kept its norms: noise on sums of gradients, (K/h) √(2 h κ/τ) at the step size h.

    κ is the friction of SGHMC and otherwise 1; τ grows with the step where the settings cool.
    """
    s, steps = header["sampler"], header["step"]
    if s.get("clip_norm") is not None or s["kind"] not in ("SGLD", "SGHMC", "EntropySGD"):
        raise Wrong("the sampler's steps are no sums of gradients, as they are, with noise")
    if s["kind"] == "EntropySGD":
        inner = range(1, s["inner_steps"] + 1)
        ran = [(s["inner_step_size"] / 2 * i ** -s["inner_decay"], s["tau"]) for i in inner] * steps
    else:
        every = range(1, steps + 1)
        ran = [(s["step_size"] * t ** -s["decay"], s["tau"] * t ** s.get("cooling", 0.0)) for t in every]
    noises = [s["batch_size"] * math.sqrt(2 * s.get("friction", 1.0) / (tau * h)) for h, tau in ran]
    return {"event": "Composed", "inner": [{"event": "Gaussian", "noise_multiplier": one} for one in noises]}


def length(run: Mapping[str, Any], n: int) -> int:
    """Steps of a chain's run on n examples."""
    sampler = run["sampler"]
    return max(1, round(run["epochs"] * n / sampler["batch_size"] / sampler.get("inner_steps", 1)))


def recorded(header: Mapping[str, Any]) -> list[Step]:
    """Those of the checkpoint's event, in their order; None stands for a run that had not begun."""
    return [] if header["event"] is None else _in_order(header["event"])


def _in_order(event: Mapping[str, Any]) -> list[Step]:
    if event["event"] == "SelfComposed":
        return _in_order(event["inner"]) * int(event["count"])
    parts = event["inner"] if event["event"] == "Composed" else ()
    return [step for part in parts for step in _in_order(part)] or list(steps_of(event).elements())


def of_training(header: Mapping[str, Any], run: Mapping[str, Any], n: int | None) -> list[Step]:
    """All steps that a private run's configuration plans; noise found for its budget is judged by the budget."""
    sampling, made, mechanism = run["sampling"], recorded(header), header["settings"]["mechanism"]
    batch, rate, size = mechanism["expected_batch_size"], sampling["sample_rate"], sampling["public_size"] or n
    odd = [name for name in ("sample_rate", "steps", "clip_norm") if mechanism[name] != sampling[name]]
    odd += [name for name, value in header["public"].items() if value != mechanism[name]]
    counted = header["step"] == len(header["chosen"]) == len(made)
    if odd or not counted or (size and abs(batch / rate / size - 1) > 1e-9):
        raise Wrong(f"the header's {', '.join(odd) or 'number of steps or size of batches'} is not that of its run")
    return by_settings(made, run, batch)


def by_settings(made: list[Step], run: Mapping[str, Any], batch: float) -> list[Step]:
    """All steps that a private run's configuration plans; those made are the beginning of them.

    ``batch`` is the expected size of a batch; where it is not told, 0, noise that depends on it gives it away.
    """
    method, sampling = run["method"], run["sampling"]
    kind, rate, clip, steps = method["kind"], sampling["sample_rate"], sampling["clip_norm"], sampling["steps"]
    pure, sigma = (), sampling["noise_multiplier"]
    if kind == "P3SGD":
        scales = method["noise_scales"]
        pure = (method["selection_epsilon"],) if len(scales) > 1 else ()
        sigma = min(scales) if method["nested"] else math.fsum(z**-2 for z in scales) ** -0.5
    noises = [sigma or made[0].noise] * steps
    if kind == "DPSGLD":
        sizes = [method["step_size"] * (1 + t / method["decay_offset"]) ** -method["decay"] for t in range(steps)]
        noises = {
            "gradient-slot": lambda: [math.sqrt(2 * h * method["temperature"]) for h in sizes],
            "parameter-slot": lambda: [math.sqrt(method["noise"] / h) * rate / method["drift"] / clip for h in sizes],
            "tempered": lambda: [
                (batch / clip * math.sqrt(2 * method["temperature"] / sizes[0]) or made[0].noise)
                * math.sqrt(sizes[0] / h)
                for h in sizes
            ],
        }[method["convention"]]()
    elif not sigma:
        enough, less = ([Step(rate, share * made[0].noise)] * steps for share in (1.0, 0.97))
        if affordable(less, run) or not affordable(enough, run, certain=True):
            raise Wrong(f"the noise multiplier {made[0].noise!r} is not the one that the budget asks for")
    planned = [Step(rate, noise, pure) for noise in noises]
    same(made, planned[: len(made)], slack=1e-9)
    return planned


def relation(run: Mapping[str, Any]) -> tuple[float, bool]:
    """The delta of what is printed of a run, and whether it is for replace-one neighbours.

    It is where the number of records is public: sums are divided by it, or batches drawn at a rate that names it.
    """
    if "budget" not in run:
        return 1e-5, True  # a chain
    return run["budget"]["delta"], not run["sampling"]["public_size"] or run["budget"]["adjacency"] == "replace-one"


def paid(event: Any, made: int, planned: list[Step], run: Mapping[str, Any]) -> list[Step]:
    """The mechanisms that a certificate pays for: those made, and those that the budget has left of the plan."""
    count = sum(steps_of(event).values())
    if not made <= count <= len(planned):
        raise Wrong(f"{count} steps are paid for, {made} were made and {len(planned)} planned")
    if count > made and affordable(planned[:count], run) is False:
        raise Wrong(f"{count} steps are paid for, and the budget ends the run before")
    if count < len(planned) and affordable(planned[: count + 1], run, share=0.99):
        raise Wrong(f"{count} steps are paid for, and the run was to make more")
    return planned[:count]


def affordable(steps: list[Step], run: Mapping[str, Any], *, share: float = 1.0, certain: bool = False) -> bool | None:
    """Whether steps keep to a share of the run's epsilon; None where that is undecided."""
    budget = run["budget"]
    found = private(Counter(steps), share * budget["epsilon"], budget["delta"], budget["adjacency"] == "replace-one")
    if certain and found is None:
        raise Unchecked("whether these steps keep to the budget lies between what this checker shows and refutes")
    return found


def same(said: list[Step], expected: list[Step], slack: float = 0.002) -> None:
    """As many mechanisms at the same rates, each with as much noise, or a little less, than the settings give."""
    if len(said) != len(expected):
        raise Wrong(f"there are {len(said)} mechanisms, and {len(expected)} by the run's settings")
    for a, b in zip(sorted(said), sorted(expected), strict=True):
        close = abs(a.rate - b.rate) <= 1e-12 * b.rate and (1 - slack) * b.noise <= a.noise <= (1 + 1e-9) * b.noise
        if not close or a.epsilons != b.epsilons:
            raise Wrong("the mechanisms have other noise multipliers or sample rates than the settings give")
