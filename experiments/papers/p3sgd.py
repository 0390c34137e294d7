"""P3SGD (Wu et al. 2019), privacy of patients as a regulariser: Tables 1 to 3, Figures 2 and 3, Sections 4.2 to 5.

The paper's glomeruli (1216 patients, collected by its authors) are not public, and its ResNet-18 begins with weights
that were trained on other pathology. Its q, T, ε', C_o, C_u and δ = N^-1.1 are in Sections 4.2 and 4.3. At them the
noise of one step, z C √d/(q N) with d = 11.2 million weights, is 33 z times as long as the longest update that clipping
allows; how its network learnt under it is not said. So the networks here are small.

Where SGD overfits (`p3sgd-printed`): each seed draws its own patients, and all others are the test. X-rays: a linear
layer on 1,280 features of a network that was trained on other images, and the paper's 1,000 patients. Malaria: a small
CNN trained on 60 patients who are in neither set, then on 24; and on 40 with a tenth dropped in place of three tenths,
which was added since Dropout and the printed noise had left the networks of the 24 at guessing. MNIST: 400 writers with
five images each, from the first weights; the settings of the last two were chosen by seeds 900 and 901, which are not
in the table. Sixty of the 24 patients' seeds were added when four had left open what a point of accuracy tells apart,
and 136 when 64 had. The walk adds the paper's noise, z C_u/100 for each weight and step, to a trained network, and no
gradient; a set of two scales takes either with probability one half.

`p3sgd-table-2` and `p3sgd-figure-3` train the corrected algorithm of docs/private.md on malaria cells by patient (161
train), digits by writer (539) and X-rays of 64x64 pixels by patient (3654), none on both sides of a split. Learning
rates and clip norms were tried on these data, which no epsilon counts. Figure 3 attacks 64 images of either set by the
search of :mod:`experiments.runs.inversion`, which begins at a public mean.

That a small gap counts only where the network is better than guessing was laid down after the data were seen. What
Figure 2 is said to show is judged by the same gap. The lead of 0.8 points that {3, 1} is asked for is about the printed
one. In Table 2 malaria cells are seen by a linear layer on features of spots; a CNN only guesses under the noise.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from experiments.claims import Below, Cell, Every, Measured, Most, Number, Printed, Sentence, cell, exact, exactly
from experiments.runs.p3sgd import ACCOUNTING, SMALL, TRAINING, Accounting, Attack, Network, Plain, Private, Training
from experiments.runs.p3sgd_printed import COMPARING, WALKING, Comparing, Walking
from experiments.study import Done, Erratum, Row, Section, Study
from experiments.tables import ordered, part
from pacdp.cli.figures import style
from pacdp.cli.private.config import P3SGD, Budget, Sampling
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job, Kind

FIRST, SGD, DROPOUT, DROPBLOCK = "first weights", "SGD", "SGD+Dropout", "SGD+DropBlock"
PRINTED, CORRECTED, COIN = "P3SGD, printed", "P3SGD, corrected", "P3SGD, coin"
TOLD = {
    SGD: ("P06", 99.85, 92.25, 7.60),
    DROPOUT: ("P07", 99.63, 92.12, 7.51),
    DROPBLOCK: ("P09", 98.85, 94.87, 3.68),
    PRINTED: ("P08", 95.70, 95.23, 0.47),
    CORRECTED: ("", None, None, None),
}
"""ResNet-18, training accuracy, testing accuracy and gap in percent: Table 1, and Table 3 for DropBlock."""
SETS = {
    "{3, 1}": ((3.0, 1.0), 95.23, 6.97), "{2, 1}": ((2.0, 1.0), 94.31, 7.10), "{3, 2}": ((3.0, 2.0), 93.57, 4.97),
    "{1}": ((1.0,), 94.38, 8.48), "{2}": ((2.0,), 93.24, 5.13), "{3}": ((3.0,), 92.15, 4.70),
}  # fmt: skip
"""Table 2: noise scales, testing accuracy in percent and epsilon."""
BOTH = "{3, 1}"
ACCOUNTED = "the paper's settings"

LUNGS, FEW, CELLS, WRITERS = (
    "X-rays, head on features", "malaria, trained on others", "malaria, 40 patients, less dropout",
    "MNIST writers, five images each",
)  # fmt: skip
_CELLS = Comparing(
    dataset="malaria", network=Network(width=8, hidden=64), people=24, each=20, public_people=60,
    pretraining=Plain(epochs=40, learning_rate=0.05, batch_size=32),
    plain=Plain(epochs=40, learning_rate=0.03, batch_size=32), blocks=True, clip_norm=0.02,
    learning_rate=0.03,
)  # fmt: skip
PROBLEMS = {
    LUNGS: (Comparing(
        dataset="xrays224", features="backbone", shrink=18.0, people=1000, each=10,
        plain=Plain(epochs=100, learning_rate=1.0, batch_size=64, weight_decay=1e-6), clip_norm=3.0,
        learning_rate=10.0, local_batch_size=10, sets=((3.0, 1.0), (1.0,)),
    ), 4),
    FEW: (_CELLS, 200),
    CELLS: (replace(_CELLS, people=40, drop_rate=0.1), 64),
    WRITERS: (Comparing(
        dataset="mnist-writers", network=SMALL, people=400, each=5,
        plain=Plain(epochs=20, learning_rate=0.05, batch_size=32), blocks=True, clip_norm=0.5, learning_rate=0.1,
    ), 12),
}  # fmt: skip
"""With their seeds."""


def jobs_printed(smoke: bool, seed: int) -> list[Job]:
    """Problems by seed, and the walk."""
    problems, walking = PROBLEMS, Walking()
    if smoke:
        problems = {WRITERS: (Comparing(network=SMALL, people=20, plain=Plain(epochs=1), blocks=True, steps=3), 1)}
        walking = Walking(dataset="digits", walks=2, marks=(0, 1))
    return [
        *(_job(COMPARING, replace(config, seed=one), problem=name)
          for name, (config, seeds) in problems.items() for one in range(seed, seed + seeds)),
        _job(WALKING, walking, problem=walking.dataset),
    ]  # fmt: skip


def _job(kind: Kind, config: Any, **tags: Any) -> Job:
    tags["seed"] = config.seed
    key = re.sub(r"\W+", "-", f"p3sgd {' '.join(map(str, tags.values()))} {digest(config, digits=8)}")
    return Job(key=key, kind=kind, config=config, tags=tags)


def _how(people: int, clip_norm: float, method: P3SGD, physical: int = 16, steps: int = 100) -> Private:
    """The paper's sample rate and δ = 1/N^1.1, N being public; the budget never halts it."""
    sampling = Sampling(sample_rate=0.1, steps=steps, clip_norm=clip_norm, max_physical=physical)
    return Private(method=method, sampling=sampling, budget=Budget(epsilon=50.0, delta=people**-1.1))


TASKS = {
    "malaria, linear on spots": (
        Training(dataset="malaria", features="spots"),
        _how(161, 1.0, P3SGD(learning_rate=3.0, local_batch_size=32), physical=32), 12, 0,
    ),
    "malaria, conv": (
        Training(dataset="malaria", network=_CELLS.network, strategy=Plain(learning_rate=0.03, batch_size=64)),
        _how(161, 0.5, P3SGD(learning_rate=0.3, local_batch_size=32), physical=8), 0, 3,
    ),
    "MNIST writers, conv": (
        Training(dataset="mnist-writers", network=SMALL, strategy=Plain(epochs=10)),
        _how(539, 0.5, P3SGD(local_batch_size=32)), 6, 3,
    ),
    "X-rays, conv": (
        Training(dataset="xrays", network=SMALL),
        _how(3654, 2.0, P3SGD(learning_rate=1.0, local_batch_size=4), physical=64), 8, 8,
    ),
}  # fmt: skip
"""SGD, P3SGD, seeds of Table 2 and seeds of Figure 3."""
_SMOKE = {"X-rays, conv": (Training(network=SMALL, strategy=Plain(epochs=1)),
                           _how(120, 0.5, P3SGD(), steps=3), 1, 1)}  # fmt: skip


def jobs_2(smoke: bool, seed: int) -> list[Job]:
    """Each set accounted at the paper's settings, and trained with where the network learns."""
    return [
        *(_job(ACCOUNTING, Accounting(noise_scales=scales), problem=ACCOUNTED, noise_scales=label)
          for label, (scales, *_) in SETS.items()),
        *(_job(TRAINING, replace(run, strategy=replace(how, method=replace(how.method, noise_scales=scales)), seed=one),
               problem=name, noise_scales=label)
          for name, (run, how, seeds, _) in (_SMOKE if smoke else TASKS).items()
          for label, (scales, *_) in SETS.items() for one in range(seed, seed + seeds)),
    ]  # fmt: skip


def jobs_3(smoke: bool, seed: int) -> list[Job]:
    """Convolutional networks, attacked when they are trained, and attacked untrained."""
    attack = Attack(images=2, feature_steps=5) if smoke else Attack()
    return [
        _job(TRAINING, replace(run, strategy=way, attack=attack, seed=one), problem=name, strategy=strategy)
        for name, (run, how, _, seeds) in (_SMOKE if smoke else TASKS).items()
        for strategy, way in ((FIRST, replace(run.strategy, epochs=0)), (SGD, run.strategy), ("P3SGD", how))
        for one in range(seed, seed + seeds)
    ]


def rows(done: Done) -> Iterator[Row]:
    """A row a strategy or a mark of a walk; else one a run."""
    for row in done.result.get("rows", [done.result]):
        yield {**done.tags, **row}


def _of(name: str, problem: str, strategy: str) -> Cell:
    """Of P3SGD with both scales."""
    return cell(name, problem=problem, strategy=strategy, noise_scales=BOTH if "P3SGD" in strategy else None)


def _evidence(name: str, **strategies: str) -> dict[str, Number]:
    """Numbered by problem."""
    return {f"{key}{k}": _of(name, problem, one)
            for key, one in strategies.items() for k, problem in enumerate(PROBLEMS)}  # fmt: skip


def _scores(table: pl.DataFrame) -> Figure:
    """Testing accuracy against the gap, means with two standard errors; a panel a problem."""
    names = ordered(part(table, strategy=SGD), "problem")
    drawn, (line,) = style.figure(1, len(names), width=2.8)
    for axes, name in zip(line, names, strict=True):
        for strategy, mark in zip(TOLD, "C0o C1s k^ C2D C9v".split(), strict=True):
            gap, accuracy = (_of(column, name, strategy)(table) for column in ("gap", "test_accuracy"))
            if gap and accuracy:
                axes.errorbar(gap.mean, accuracy.mean, accuracy.noise, gap.noise, mark, label=strategy)
        own = part(table, problem=name, strategy=CORRECTED)
        axes.set(xlabel="gap between training and testing, points", ylabel="testing accuracy, %",
                 title=f"{name}\n{own['people'][0]} people, {own['seed'].n_unique()} seeds,\n"
                 f"epsilon {own['epsilon'].max():.2f} (corrected)")  # fmt: skip
    line[-2:][0].legend()
    return drawn


NARROWED = Sentence(
    answers=("P10", "P11", "P26"),
    place="4.2, Figure 2",
    printed="SGD obviously overfits, and P3SGD decreases the gap between training and testing accuracies from 7.60 % "
    "to 0.47 %",
    ours="On X-rays, malaria cells of 24 and of 40 patients and digits, P3SGD as printed has gaps of {own0:.1f}, "
    "{own1:.1f}, {own2:.1f} and {own3:.1f} points, and SGD {sgd0:.1f}, {sgd1:.1f}, {sgd2:.1f} and {sgd3:.1f}.",
    holds=Most([
        Every([
            Below(5.0, _of("gap", one, SGD)), Below(_of("gap", one, PRINTED), _of("gap", one, SGD), share=0.5),
            Below(_of("majority", one, PRINTED), _of("test_accuracy", one, PRINTED), share=0.99),
        ])
        for one in PROBLEMS
    ]),
    evidence=_evidence("gap", own=PRINTED, sgd=SGD),
    why="We require that SGD's gap is above five points, P3SGD's below half of it and the network better than naming "
    "the most frequent class: the last is open with 24 patients, the half on digits.",
)  # fmt: skip
ACCURATE = Sentence(
    answers=("P12", "P13"),
    place="4.2, 4.4",
    printed="P3SGD outperforms SGD by 2.98 % in the testing accuracy, and both Dropout and DropBlock",
    ours="P3SGD as printed reaches {own0:.1f}, {own1:.1f}, {own2:.1f} and {own3:.1f} % on these data, and SGD "
    "{sgd0:.1f}, {sgd1:.1f}, {sgd2:.1f} and {sgd3:.1f} %.",
    holds=Most([
        Every([Below(_of("test_accuracy", one, other), _of("test_accuracy", one, PRINTED))
               for other in (SGD, DROPOUT, DROPBLOCK)[: 2 + how.blocks]])
        for one, (how, _) in PROBLEMS.items()
    ]),
    evidence=_evidence("test_accuracy", own=PRINTED, sgd=SGD),
    why="With 24 patients and on digits the private networks learn too little to say much about regularisation.",
)  # fmt: skip


def _same(table: pl.DataFrame) -> Measured | None:
    """In how many pairs the printed rule and a coin made one and the same run."""
    losses = part(table, problem=FEW, strategy=(PRINTED, COIN))["test_loss"]
    return exact(len(losses) - losses.n_unique())


CHOICE = Sentence(
    answers=("P22",),
    place="1, 4.3, 5",
    printed="The key technical innovation lies in the strategy that adaptively controls the noisy update",
    ours="The better of two candidates is taken with probability {own0:.4f}, {own1:.4f}, {own2:.4f} and {own3:.4f}; "
    "with 24 patients {same:.0f} runs are the same, number for number, as those of a coin.",
    holds=Most([Below(0.51, _of("better_probability", one, PRINTED)) for one in PROBLEMS]),
    evidence=_evidence("better_probability", own=PRINTED) | {"same": _same},
    why="We require 0.51.",
)  # fmt: skip
_START, _END = (cell("test_accuracy", strategy="noise alone", noise_scales=BOTH, step=step) for step in (0, 100))
STABLE = Sentence(
    answers=("P23",),
    place="4.3",
    printed="The noise scales are built from {1.0, 2.0, 3.0}, since one greater than 3.0 leads to unstable training",
    ours="Without any gradient, 100 steps of the printed noise of {{3, 1}} take a small trained network of digits from "
    "{start:.1f} to {end:.1f} % accuracy.",
    holds=Below(_START, _END, margin=-20.0),
    evidence={"start": _START, "end": _END},
    why="We ask that noise of these scales alone leaves it within 20 points, in ten walks; none above 3 ran.",
)


def _table_1() -> Iterator[Printed]:
    for strategy, (key, *told) in TOLD.items():
        numbers = {f"{side.split('_')[0]}, {name.split(',')[0]}": (number, _of(side, name, strategy))
                   for name in (LUNGS, CELLS)
                   for side, number in zip(("train_accuracy", "test_accuracy", "gap"), told, strict=True)}  # fmt: skip
        yield Printed(answers=(key,) if key else (), place="Tables 1 and 3, ResNet-18, in percent", what=strategy,
                      numbers=numbers, why="Networks are smaller; malaria has 40 patients.")  # fmt: skip


STUDY = Study(
    name="p3sgd-printed",
    title="P3SGD as printed and as corrected, where SGD overfits",
    paper="Wu et al., 2019, P3SGD, Tables 1 and 3",
    jobs=jobs_printed,
    rows=rows,
    figures={"figure": _scores},
    sentences=(NARROWED, ACCURATE, CHOICE, STABLE),
    numbers=tuple(_table_1()),
)


def _accuracy(problem: str, scales: str = BOTH) -> Cell:
    return cell("test_accuracy", problem=problem, noise_scales=scales)


LEARNT = [name for name, (*_, seeds, _) in TASKS.items() if seeds]


_COSTS = {key: [exactly(name, problem=ACCOUNTED, noise_scales=one) for one in ("{3}", BOTH, "{1}")]
          for key, name in (("paper", "published_epsilon"), ("proved", "epsilon"))}  # fmt: skip
ORDER = Sentence(
    answers=("P17", "P18"),
    place="4.3",
    printed="For the fixed strategy a larger noise scale costs less privacy, and {3, 1} lies between {1} and {3}",
    ours="By the paper's accountant {{3}}, {{3, 1}} and {{1}} cost an epsilon of {paper0:.2f}, {paper1:.2f} and "
    "{paper2:.2f}; proved of the corrected algorithm are {proved0:up}, {proved1:up} and {proved2:up}.",
    holds=Every([Below(*pair) for costs in _COSTS.values() for pair in pairwise(costs)]),
    evidence={f"{key}{k}": cost for key, costs in _COSTS.items() for k, cost in enumerate(costs)},
    why="By the paper's accountant all of it holds; by the proved one a larger fixed scale costs less, and a choice "
    "pays for both candidates.",
)
BEST = Sentence(
    answers=("P19",),
    place="Table 2",
    printed="P3SGD with {3, 1} achieves the best testing accuracy of 95.23 %",
    ours="It reaches {own0:.1f} % on malaria cells, {own1:.1f} % on digits and {own2:.1f} % on X-rays; the other sets "
    "are in the table.",
    holds=Most([
        Every([Below(_accuracy(name, other), _accuracy(name)) for other in SETS if other != BOTH])
        for name in LEARNT
    ]),
    evidence={f"own{k}": _accuracy(name) for k, name in enumerate(LEARNT)},
    why="On digits two other sets are above it; the rest lies within the noise of the seeds.",
)  # fmt: skip
TABLE_2 = Study(
    name="p3sgd-table-2",
    title="Sets of noise scales: accuracy, and epsilon by two accountants",
    paper="Wu et al., 2019, P3SGD, Table 2",
    jobs=jobs_2,
    rows=rows,
    sentences=(ORDER, BEST),
    numbers=tuple(
        Printed(answers=("P15", "P16"), place="Table 2", what=scales, numbers={
            "epsilon, the paper's accountant": (
                epsilon, exactly("published_epsilon", problem=ACCOUNTED, noise_scales=scales)),
            "epsilon, proved": (None, exactly("epsilon", problem=ACCOUNTED, noise_scales=scales)),
            **{f"accuracy, {name.split(',')[0]}": (accuracy, _accuracy(name, scales)) for name in LEARNT},
        }, why="Epsilon is at the paper's settings, of 1,000 patients and delta 5e-4; the proved epsilon and all "
        "accuracies are the corrected algorithm's, of small convolutional networks, others than in Tables 1 and 3.")
        for scales, (_, accuracy, epsilon) in SETS.items()
    ),
)  # fmt: skip


FIGURE_3 = Study(
    name="p3sgd-figure-3",
    title="Model inversion of trained and untrained networks",
    paper="Wu et al., 2019, P3SGD, Figure 3",
    jobs=jobs_3,
    rows=rows,
    numbers=tuple(
        Printed(answers=("P27", "P28"), place="Figure 3, mean PSNR in decibels of images from features", what=name,
                numbers={one: (told, cell("train_psnr", problem=name, strategy=one))
                         for one, told in (("P3SGD", 27.82), (SGD, 27.84), (FIRST, None))}
                | {"SGD, test images": (None, cell("test_psnr", problem=name, strategy=SGD))},
                why="The paper says that test images are hard to reconstruct; they and first weights are the controls. "
                "On malaria the network of P3SGD guesses.")
        for name, (*_, seeds) in TASKS.items() if seeds
    ),
)  # fmt: skip
SECTION = Section(
    title="Privacy of patients as a regulariser (Wu et al. 2019, P3SGD)",
    about="The paper trains ResNet-18 on 1,000 patients' glomeruli and finds that private training overfits less and "
    "is more accurate. Here small networks see chest X-rays, malaria cells of 24 and of 40 patients, and digits by "
    "writer, with 4, 200, 64 and 12 seeds; the unit is a person. As printed the algorithm has no "
    "proof; the corrected one has. A sentence holds where it holds on most data sets. No epsilon counts our tuning.",
    studies=(STUDY, TABLE_2, FIGURE_3),
    figure=("p3sgd-printed", "figure", "Means and two standard errors where SGD overfits."),
    errata=(
        Erratum(answers=("P29",), place="Wu et al., Section 3.3", said="The sum is divided by the size of the sample, "
                "which is private and which the noise then shows; the bound of 2 C_u on the sensitivity does not cover "
                "that. The corrected algorithm has a public divisor."),
        Erratum(answers=("P30",), place="Wu et al., Theorem 3", said="The moments of the choice are multiplied by the "
                "sample rate and the chosen scale alone is charged, which is not proved. The corrected algorithm "
                "charges all candidates and the choice together."),
    ),
    not_run=(
        Erratum(answers=("P01", "P02", "P03", "P04", "P05"), place="Wu et al., Table 1", said="AlexNet, VGG-16, "
                "ResNet-34, MobileNet and MobileNet v2 were not run, since the glomeruli are not public."),
    ),
)  # fmt: skip
