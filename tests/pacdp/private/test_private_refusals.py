"""What private training, its accountants and its audits refuse, each in one sentence."""

import math
import operator
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from private_toys import (
    ADD,
    FIXED,
    GHOST,
    M,
    bayes_network,
    cross_entropy,
    data,
    mechanism,
    mlp,
    of_a_loader,
    p3sgd,
    private,
    sweep,
    trained,
)
from torch import nn
from torch.nn import DataParallel, Module, Sequential, Unflatten
from torch.nn.utils import prune
from torch.nn.utils.rnn import pack_padded_sequence
from torch.optim import LBFGS, SGD, SparseAdam
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from pacdp.algorithms.dp_sgld import Convention
from pacdp.audit.canaries import audit_training, error_rates
from pacdp.audit.mechanism import audit_mechanism
from pacdp.audit.scores import audit_scores, epsilon_p_value
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    BatchMemoryManager,
    DPAdam,
    DPMCDropout,
    PrivacyBudget,
    PrivateEngine,
    QuantileClipping,
    SeededRandomness,
    SystemRandomness,
    UserDPSGD,
    average_over_draws,
    calibrated,
    number_of_runs,
    planned,
    privacy_claim,
    with_example_dropout,
)
from tests.pacdp.small_networks import Made
from tests.pacdp.toys import seeded
from tests.refusals import refuses

pytestmark = pytest.mark.wrong_types


OURS, USER_LEVEL = DPSGD(learning_rate=0.1), UserDPSGD(learning_rate=0.1)
GHOSTS = {"mechanism": GHOST}


def budget(**changes):
    return PrivacyBudget(**{"epsilon": 1.0, **ADD, **changes})


def calibration(schedule=1.0, **changes):
    given = {"sample_rate": 0.1, "steps": 3, "target_epsilon": 1.0, **ADD}
    return calibrated(schedule, **{**given, **changes})


def scores(values=(1.0, 2.0), included=(True, False), **changes):
    return audit_scores(np.array(values), np.array(included), **{"delta": 0.0, **changes})


def p_value(**changes):
    return epsilon_p_value(**{"canaries": 5, "guesses": 3, "correct": 2, "epsilon": 1.0, "delta": 0.0, **changes})


def of_mechanism(n=9, module=None, **changes):
    return audit_mechanism(OURS, module or mlp(), data(n), mechanism=M, loss=cross_entropy, **changes)


def of_training(module=None, **changes):
    return audit_training(OURS, module or mlp(), data(), mechanism=M, loss=cross_entropy, delta=1e-5,
                          generator=default_rng(0), **changes)  # fmt: skip


def scheduled(**numbers):
    """A step whose noise, but not its clipping and its account, somebody changed as Opacus's schedulers do."""
    *loop, _ = private()
    vars(loop[1]).update(numbers)
    sweep(*loop)


local = partial(replace, p3sgd())
tempered, plan = partial(DPSGLD, convention="tempered"), partial(planned, 1.0, **{"sample_rate": 0.1, "steps": 3})
epochs = partial(calibrated, 1.0, batches=3, steps=3, target_epsilon=1.0, **ADD)
NAMED = [
    *((call, name, value) for value in (True, 2.5, -1, "3", [3]) for call, name in (
        (tempered, "snapshots"), (plan, "steps"), (plan, "done"), (local, "local_epochs"), (epochs, "batches"))),
    *((call, name, value) for call, name in ((tempered, "burn_in"), (tempered, "decay"), (tempered, "pre_noise"),
      (plan, "sample_rate"), (scores, "delta")) for value in ("0.5", None, [0.5], math.nan)),
    (tempered, "pre_noise", -0.1), (lambda **own: trained(DPSGD(**own)), "momentum", "0.5"),
    (mechanism, "clip_norm", math.inf), (mechanism, "clip_norm", 1e-13), (private, "max_grad_norm", 1e31),
    (mechanism, "steps", 0),
    (mechanism, "expected_batch_size", math.nan),
    (mechanism, "steps", 2.5), (mechanism, "budget", 3.0), (mechanism, "sample_rate", 1.5),
    *((local, "noise_scales", value) for value in ((), 1.0)),
    (local, "selection_epsilon", 0.0), (local, "score_bound", math.nan),
    (private, "batches", "Loader"), (private, "steps", 0),
    (mechanism, "clip_norm", "1"), (private, "noise_multiplier", [1.0]), (private, "sample_rate", None),
    (private, "poisson_sampling", False), (private, "clipping", "adaptive"),
    (mechanism, "clipping", "adaptive"),
    (partial(QuantileClipping, count_noise=1.0), "quantile", 1.0), (QuantileClipping, "count_noise", 0.0),
    (private, "rand_on_empty", True),
    (private, "clip_norm", 1.0), (PrivateEngine, "accountant", "gdp"),
    (PrivateEngine, "sampling", "shuffled"), (scheduled, "max_grad_norm", 0.1),
    (scheduled, "noise_multiplier", 0.5),
    (budget, "epsilon", 0.0),
    (budget, "delta", 0.0), (calibration, "target_epsilon", 0.0), (calibration, "steps", 30.0),
    (calibration, "steps", 0),
    (scores, "delta", 1.0), (scores, "failure_prob", 0.0),
    (scores, "guesses", [3]), (scores, "guesses", [1.5]), (scores, "guesses", 3), (scores, "guesses", []),
    (p_value, "correct", 4),
    (of_mechanism, "failure_prob", 0.0),
    (of_mechanism, "steps", 1), (of_training, "canaries", 0),
]  # fmt: skip


test_a_number_out_of_range_is_refused_by_its_name = refuses(
    [(partial(call, **{name: value}), name) for call, name, value in NAMED], (ValueError, TypeError)
)


class Log(Module):
    def forward(self, x):
        return x[:, :3].log()


def packed(own, x):
    rows = pack_padded_sequence(x[:, :, None], (x > -9.0).sum(1).cpu(), batch_first=True, enforce_sorted=False)
    return own.out(own.past(rows)[1][0][0])


PACKED = Made(packed, past=nn.LSTM(1, 3), out=nn.Linear(3, 3))


class Untold(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)

    def forward(self, x):
        return SimpleNamespace(logits=super().forward(x))


def of_parts(size, of=None):
    """Opacus's loop whose batches come in parts of that size."""
    _, optimizer, _, loader, _ = private(batches="loader")
    with BatchMemoryManager(data_loader=of or loader, max_physical_batch_size=size, optimizer=optimizer):
        pass


def scaled():
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    scaler.step(private()[1])


def hooked_by_opacus():
    *loop, engine = private()
    loop[1].attach_step_hook(engine.accountant.get_optimizer_hook_fn(sample_rate=0.25))
    sweep(*loop)


def normed():
    with warnings.catch_warnings(action="ignore"):
        return nn.utils.weight_norm(nn.Linear(4, 3))


def pruned():
    net = nn.Linear(4, 3)
    prune.l1_unstructured(net, "weight", 0.5)
    return net


def spectral():
    """A network whose weights are complex numbers."""
    net = Made(lambda own, x: own.out((torch.fft.rfft(x) @ own.of_waves).abs()), out=nn.Linear(3, 3))
    net.of_waves = nn.Parameter(torch.ones(3, 3, dtype=torch.complex64))
    return net


def again():
    """A cell that runs a second time."""
    module, optimizer, _, loader, engine = private()
    engine.make_private(module=module, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)


class Pooled(Module):
    """The mean of those that a mask leaves, of which there may be none."""

    def __init__(self, least):
        super().__init__()
        self.words, self.least = nn.Embedding(9, 3), least

    def forward(self, x, mask):
        return (self.words(x) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=self.least)


def hooked():
    module = mlp()
    next(module.parameters()).register_hook(lambda slope: slope)
    return module


class Stream(IterableDataset):
    def __iter__(self):
        return iter(data())


class Drawn(SystemRandomness):
    """Batches of somebody's own."""

    def __init__(self, *units):
        self.units = torch.tensor(units)

    def batch(self, n, sample_rate):
        return self.units


class Long(Dataset):
    """It says that it has more examples than it has."""

    def __len__(self):
        return 41

    def __getitem__(self, place):
        return FIRST[place], SECOND[place]


def swept(randomness):
    *loop, _ = private(engine=PrivateEngine(randomness=randomness), batches="loader", steps=2)
    sweep(*loop)


def squeezed(outputs, targets):
    return nn.functional.binary_cross_entropy_with_logits(outputs.squeeze(), targets, reduction="none")


def gives(of):
    return Made(lambda own, x: of(own.out(x)), out=nn.Linear(4, 3))


def of_another_network():
    _, optimizer, _, _, engine = private()
    engine.save_checkpoint(path="x", module=mlp(), optimizer=optimizer)


def alias(of):
    """A network with what is made of its weight, which it does not read."""
    net = mlp()
    net.alias = of(net[0].weight)
    return net


def third(value):
    """A schedule that is sound but for its third step."""
    return lambda step: value if step == 2 else 0.1


DIVIDED = partial(operator.truediv, 0)
"""Ends a run at its first step, which none of what is wrong later on may reach."""
BAD = (-0.1, 0.0, math.nan, math.inf, None, "0.1")
ALIASES = (torch.Tensor.detach, lambda w: nn.Parameter(w.data), lambda w: [w.data[1]], lambda w: w.detach().numpy())
SAMPLERS = [SubsetRandomSampler([0, 1]), WeightedRandomSampler([1.0, 2.0], 2), RandomSampler(range(40), num_samples=9)]
EMPTY = TensorDataset(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
FIRST, SECOND = data().tensors
SAME, SMALL = torch.clone, torch.Tensor.byte
FORMS = (
    (SAME, torch.Tensor.int, r"targets.long\(\)"),
    (SAME, torch.Tensor.float, r"targets.long\(\)"),
    (SAME, lambda y: y[:, None], r"targets.squeeze\(1\)"),
    (SMALL, SAME, r"inputs.to\(torch.float32\)"),
    (SMALL, lambda y: y[:, None].int(), r"inputs.to\(torch.float32\) and targets.squeeze\(1\).long\(\)"),
)
MASKED = torch.ones(4, 6).long(), torch.ones(4, 6).long()
AGAIN = Subset(data(), [*range(-40, 0), 0, 39])
TWICE = (
    (AGAIN, 2), (ConcatDataset([Subset(AGAIN, [3, 4]), data(), AGAIN.dataset]), 2),
    (Subset(data(9), [0, 1, 1, 2, 2, 2]), 3),
)  # fmt: skip
"""With examples that stand there again, as those of rare classes are repeated, or in a part beside the whole."""
REFUSALS = [
    (lambda: private(data_free_gradient=3), "data_free_gradient must be a function .* got a int"),
    (lambda: private(noise_multiplier=lambda t: 1 / t), "noise_multiplier at step 0 failed with ZeroDivisionError"),
    (lambda: trained(OURS, dataset=EMPTY), "at least 1"),
    (lambda: trained(OURS, loss=lambda o, t: cross_entropy(o, t).mean()), "first dimension must be the batch"),
    (lambda: trained(OURS, loss=lambda o, t: cross_entropy(o, t) * math.nan), "loss of outputs .* is not finite"),
    (lambda: trained(OURS, nn.Linear(4, 1), TensorDataset(FIRST, SECOND.float()),
                     loss=nn.BCEWithLogitsLoss(reduction="none")), r"the loss fails .*targets.view_as\(outputs\)"),
    (lambda: trained(OURS, Sequential(nn.Linear(4, 1), nn.Sigmoid()), TensorDataset(FIRST, SECOND[:, None].float()),
                     loss=lambda o, t: nn.functional.binary_cross_entropy(o, t - t.mean() + 0.5, reduction="none")),
     "are not independent"),
    (lambda: trained(OURS, Made(lambda own, x: own.one(x.sub_(0.5)), one=nn.Linear(4, 3))), "write x = x - 0.5"),
    (lambda: number_of_runs(10), "law must be a NegativeBinomialRuns or PoissonRuns"),
    (lambda: DPMCDropout().network(Pooled(1), generator=seeded()), "module must be an nn.Sequential"),
    (lambda: trained(OURS, distributed=True), "torchrun"),
    (lambda: trained(OURS, people=list(range(40))), "people must be a tensor"),
    *((lambda run=run, wrong=wrong: run(wrong), "randomness.batch gave a unit twice")
      for run in (lambda one: trained(OURS, randomness=one), swept)
      for wrong in (Drawn(3, 3), Drawn(-1), Drawn(2, 40))),
    (lambda: trained(OURS, people=["Ada"] * 40), "of names.*return_inverse"),
    *((lambda run=run, held=held: run(dataset=held),
       f"gives {again} of its {len(held)} examples again, as records of their own")
      for run in (private, partial(trained, OURS)) for held, again in TWICE),
    (lambda: trained(USER_LEVEL, dataset=AGAIN, people=torch.arange(42)), "and 2 of the 42 records are an example"),
    *((lambda x=x, y=y: trained(OURS, dataset=TensorDataset(x(FIRST), y(SECOND))), f"let it give {words}$")
      for x, y, words in FORMS),
    *((lambda run=run, of=of: run(alias(of)), "lies in the memory of its parameter 0.weight")
      for run in (partial(trained, OURS), private) for of in ALIASES),
    (lambda: trained(OURS, dataset=DataLoader(data())), "of a loader give loader.dataset"),
    (lambda: trained(DPSGD, mechanism=M), "algorithm must be"),
    (lambda: trained(OURS, loss=nn.CrossEntropyLoss), "loss must be"),
    (lambda: trained(OURS, progress=True), "progress must be"),
    (lambda: trained(OURS, keeps=[3]), "keeps must be"),
    (lambda: trained(DPBBP(learning_rate=0.1)), r"give bayesian\(module"),
    (lambda: trained(DPMCDropout(learning_rate=0.1)), r"give with_example_dropout\(module"),
    (lambda: trained(OURS, ledger="runs/ledger"), "ledger must be"),
    (lambda: trained(OURS, randomness=7), "randomness must be"),
    (lambda: trained(OURS, checkpoint_every=2.5), "checkpoint_every must be"),
    (lambda: trained(OURS, checkpoint_every=2), "checkpoint_every goes with checkpoint"),
    (lambda: trained(OURS, checkpoint="nowhere/run.safetensors", progress=lambda _: 1 / 0), "own folder is missing"),
    (lambda: trained(OURS, about="MNIST"), "about must be"),
    *((lambda own=own, about=about: trained(own, checkpoint="x", about=about, progress=lambda _: 1 / 0), said)
      for own, about, said in (
          (OURS, {"rows": np.int64(5)}, "keeps about as JSON"), (OURS, {"data": Path("x")}, "keeps about as JSON"),
          (DPSGD(prior=SimpleNamespace(energy=torch.abs, energy_gradient=torch.sign, kl_gradient=max)), {},
           "keeps algorithm as JSON"))),
    (lambda: trained(OURS, nn.Sequential(nn.Embedding(9, 3, sparse=True), nn.Flatten()),
                     TensorDataset(torch.ones(5, 4).long(), torch.ones(5).long())), "sparse=False"),
    (lambda: trained(OURS, loss=nn.CrossEntropyLoss(torch.ones(3).bfloat16(), reduction="none")), "weight.to"),
    (lambda: trained(OURS, loss=lambda o, t: (o[:, :1] - t.float()).square().mean(1)),
     r"outputs of shape \['n', 3\] and targets of shape \['n'\] .* one shape"),
    (lambda: trained(OURS, Sequential(mlp(), nn.BatchNorm1d(3).eval())), "BatchNorm, also one in eval.., by"),
    (lambda: trained(OURS, nn.Linear(4, 1), TensorDataset(FIRST, SECOND.float()), loss=squeezed),
     r"write squeeze\(1\)"),
    (lambda: trained(OURS, dataset=[(object(), 1)] * 9), "first example is tried, failed with TypeError"),
    (lambda: trained(DPSGD(learning_rate=math.nan)), "learning_rate must be a finite number >= 0"),
    (lambda: trained(OURS, people=torch.arange(40)), "which hides no person"),
    (lambda: trained(USER_LEVEL, people=torch.zeros(3, dtype=torch.int64)), "people must hold a whole number"),
    *((lambda unknown=unknown: trained(USER_LEVEL, people=torch.arange(40).where(torch.arange(40) > 2, unknown)),
       "people must be known") for unknown in (-1, -2**31, -2**63)),
    (lambda: trained(OURS, mechanism=mechanism(noise_multiplier=0.5, budget=budget(epsilon=0.1))), "first step alone"),
    (lambda: private(noise_multiplier=-1.0), "value"),
    (lambda: trained(DPSGD(learning_rate=0.1, momentum=1.0)), "momentum < 1"),
    (lambda: trained(OURS, Sequential(nn.LazyLinear(3))), r"module has no shape .* module\(torch.zeros"),
    (lambda: private(Sequential(nn.LazyLinear(3))), "module has no shape"),
    (lambda: private(mlp().to("meta")), r"on the device meta, where it has no numbers: .* module.to_empty\("),
    (lambda: trained(OURS, PACKED), "in place of pack_padded_sequence"),
    (lambda: private(PACKED), "in place of pack_padded_sequence"),
    (lambda: private(private()[0]), "already"),
    (lambda: private(dataset=DataLoader(EMPTY)), "give it as data_loader"),
    *((partial(of_a_loader, PrivateEngine(), sampler=drawn), f"has a {type(drawn).__name__}, which batches")
      for drawn in SAMPLERS),
    (lambda: of_a_loader(PrivateEngine(), dataset=Stream()), "read a stream"),
    (lambda: private(optimizer="sgd"), "must be a torch.optim.Optimizer, got a str"),
    (lambda: private(optimizer=LBFGS(mlp().parameters())), "LBFGS looks at a batch several times"),
    *((lambda run=run, made=made: run(made()), words) for run in (private, partial(trained, OURS))
      for made, words in ((hooked, "hook for its gradient, which would never"), (normed, "take torch.nn.utils.param"),
                           (pruned, "and prune do: .* a parametrization that multiplies by the mask"),
                           (spectral, "parameter of_waves of module is complex, .*torch.view_as_real"))),
    (lambda: private(Pooled(0), probe=MASKED), "not finite where another example .* or divide by no number that may"),
    *((lambda rows=rows: private(dataset=rows), r"give TensorDataset\(inputs, targets\)")
      for rows in (FIRST, FIRST.numpy())),
    (again, "make_private returned has not: build module, optimizer and loader anew"),
    (lambda: private(optimizer=SparseAdam(mlp().parameters())), "take torch.optim.Adam"),
    *((partial(of_parts, size), "max_physical_batch_size must be a whole number of at least 1")
      for size in (0, -1, 2.5, True, None, "7", np.float64(7.0), math.inf)),
    (lambda: of_parts(7, DataLoader(data())), "that make_private returned, got DataLoader and PrivateOptimizer"),
    *((partial(trained, DPSGLD(convention=slot, step_size=third(bad)), progress=DIVIDED), "step_size must be .* step 2")
      for slot in get_args(Convention) for bad in BAD),
    *((partial(trained, kind(learning_rate=third(bad)), progress=DIVIDED), "learning_rate must be .* step 2")
      for kind in (DPSGD, DPAdam, UserDPSGD) for bad in BAD if bad != 0.0),
    *((partial(trained, OURS, mechanism=mechanism(noise_multiplier=third(bad)), progress=DIVIDED),
       "noise_multiplier must be .* step 2") for bad in BAD if bad != 0.0),
    (lambda: trained(OURS, mechanism=mechanism(noise_multiplier=[1.0].__getitem__)), "noise_multiplier at step 1"),
    (lambda: planned(third(None), sample_rate=0.1, steps=3), "schedule must be .* got None at step 2"),
    (lambda: sweep(*private(noise_multiplier=third("a"))[:4]), "noise_multiplier must be .* got 'a' at step 2"),
    *((partial(run, mlp().to(torch.float8_e4m3fn)), r"0.weight of module has 8 bits, .* module.float\(\)")
      for run in (private, partial(trained, OURS))),
    *((partial(run, dataset=TensorDataset(FIRST.to(torch.float8_e4m3fn), SECOND)), "inputs are torch.float8_e4m3fn, in")
      for run in (private, partial(trained, OURS))),
    (lambda: trained(OURS, loss=lambda o, t: None), "the loss returned NoneType: let it return a tensor"),
    (lambda: trained(OURS, loss=lambda o, t: 1 / 0), "the loss failed with ZeroDivisionError"),
    *((partial(run, gives(of)), words) for run in (private, partial(trained, OURS)) for of, words in (
        (lambda out: None, "gives a NoneType, in which no tensor"), (lambda out: {"logits": None}, "gives a dict, in"),
        (lambda out: out.argmax(1), "gives tensors of torch.int64 alone"), (torch.sum, r"has shape \(\) for a batch"),
        (lambda out: out[:1], r"has shape \(1, 3\) for a batch"))),
    (lambda: private(dataset=Long()), "dataset, some of whose examples are read beforehand, failed with IndexError"),
    (lambda: private(dataset=data().tensors), "collate_fn, tried on some examples of dataset, failed with Run"),
    *((lambda name=name: getattr(private()[1], name)(print), "takes hooks by attach_step_hook")
      for name in ("register_step_pre_hook", "register_step_post_hook")),
    (hooked_by_opacus, "would count them again: leave it out"),
    (lambda: of_a_loader(PrivateEngine(), batch_size=None), "data_loader has batch_size=None, and puts no examples"),
    (lambda: of_a_loader(PrivateEngine(), batch_size=41, drop_last=True), "leaves out all of its 40 examples"),
    (scaled, "GradScaler finds no gradient"),
    (lambda: private()[-1].save_checkpoint(path="x", module=None, optimizer=None, checkpoint_dict={}), "no pickled"),
    (lambda: trained(USER_LEVEL, people=torch.zeros(40, dtype=torch.complex64)), "people must hold a whole number"),
    (lambda: trained(DPSGD(prior_std=0.5)), "prior_std is the scale of prior 'normal'"),
    (lambda: private(DataParallel(mlp())), "gradient of a single example cannot be taken"),
    (lambda: private(Untold()), "gives a SimpleNamespace, in which no tensor is found"),
    (lambda: PrivateEngine().get_epsilon("1e-5"), "delta"),
    (lambda: private(engine=PrivateEngine(secure_mode=True, randomness=SeededRandomness(0))), "do not go together"),
    (lambda: PrivateEngine().certify(), "call make_private first"),
    (lambda: private(mlp().eval()), "evaluation mode"),
    (lambda: trained(USER_LEVEL, **GHOSTS, people=torch.arange(40)), "what a person contributes"),
    (lambda: private(clipping="per_layer", max_grad_norm=[1.0]), "clipping='flat' with that number as the clip norm"),
    (lambda: private(clipping="hard"), "one of flat, automatic, got"),
    (lambda: private(mode="no_op"), "must be one of reference, ghost"),
    (lambda: trained(DPBBP(learning_rate=0.1, draws=2), bayes_network(), **GHOSTS), "draws is 2"),
    (lambda: trained(OURS, mechanism=FIXED), "DP-SGD needs a noise_multiplier"),
    (lambda: trained(p3sgd(), mechanism=M, people=torch.arange(40)), "the numbers of P3SGD fix the noise"),
    (lambda: trained(DPSGLD(convention="tempered"), mechanism=M), "the numbers of DP-SGLD fix the noise"),
    (DPSGLD, "convention"),
    (lambda: DPSGLD(convention="parameter_slot"), "convention must be one of gradient-slot, parameter-slot, tempered"),
    (lambda: DPSGLD(convention="tempered", snapshots=3, burn_in=1.0), "burn_in < 1"),
    (lambda: DPBBP(prior="none"), "expected a prior"),
    (lambda: private(Sequential(Log(), mlp(inputs=3))), "probe"),
    *((lambda net=net: private(net), "data's first field, .* give probe=, a tuple")
      for net in (nn.Bilinear(4, 4, 3), Made(lambda own, x: own.out(x["tokens"]), out=nn.Linear(4, 3)))),
    (lambda: private(nn.Bilinear(4, 4, 3), probe=FIRST[:4]), "probe must be a tuple"),
    (lambda: private(Made(lambda own, x: own.out(x).squeeze(), out=nn.Linear(4, 1))), r"for squeeze\(\)"),
    (of_another_network, "another network than optimizer trains"),
    (lambda: private(optimizer=SGD(mlp().parameters(), lr=0.1)), "module does not have"),
    (lambda: calibration(lambda step: float(step > 0)), "within reach"),
    (lambda: privacy_claim(None), "adjacency"),
    (lambda: with_example_dropout(Sequential(nn.Dropout2d(0.5)), generator=seeded()), "Dropout2d"),
    (lambda: average_over_draws(mlp(), torch.rand(2, 4), draws=3, seed=0), "nothing is drawn"),
    (lambda: scores(included=(1, 0)), "bool"),
    (lambda: scores((1.0, math.nan)), "finite"),
    (lambda: of_mechanism(2), "three units"),
    (lambda: audit_mechanism(OURS, mlp(), data(9), mechanism=mechanism(noise_multiplier=0.0), loss=cross_entropy),
     "nothing is promised"),
    (lambda: of_training(Sequential(mlp(), Unflatten(1, (3, 1)))), "outputs"),
    (lambda: error_rates(np.zeros((4, 5)), np.ones(5, dtype=bool), failure_prob=0.2), "both sorts"),
]  # fmt: skip


test_refused = refuses(REFUSALS, (ValueError, TypeError, NotImplementedError))


def test_what_the_sentences_lead_to_is_taken():
    """A mask with a least sum, and complex weights as two real numbers each."""
    parts = Made(
        lambda own, x: own.out((torch.fft.rfft(x) @ torch.view_as_complex(own.parts)).abs()), out=nn.Linear(3, 3)
    )
    parts.parts = nn.Parameter(torch.view_as_real(spectral().of_waves.detach()).clone())
    frozen = spectral()
    frozen.of_waves.requires_grad_(requires_grad=False)
    for net, probe in ((Pooled(1), MASKED), (parts, None), (frozen, None)):
        assert private(net, probe=probe)
