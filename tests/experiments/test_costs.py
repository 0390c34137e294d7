"""Costs: operations by hand, times that follow from a machine's rates, seeds that decide."""

import math
from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import nn

from experiments import costs, job_costs
from experiments.claims import MOST_SEEDS, Claim, Measured, by_seeds, seeds_named
from experiments.costs import Machine, Operation, Pass, Work
from experiments.job_costs import PEOPLE, SIZES
from experiments.papers.p3sgd_problems import CPU
from experiments.papers.runs.p3sgd import Network, Training, network
from pacdp import Architecture, Problem
from pacdp.algorithms import SGD, EntropySGD
from pacdp.cli.config import Run
from pacdp.cli.private.config import PrivateConfig, Sampling
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import SAMPLER, sampler_job

SLOW = Machine(name="a slow machine", rate=10.0, bandwidth=100.0, start=0.5, assumed="by hand")


def test_operations_of_linear_and_convolutional_layers_are_those_by_hand():
    assert costs.forward(nn.Linear(30, 7), (30,), 5).arithmetic == 2 * 5 * 30 * 7
    convolution = nn.Conv2d(3, 8, 3, padding=1, bias=False)
    assert costs.forward(convolution, (3, 6, 6), 2).arithmetic == 2 * 2 * 36 * 8 * 27
    layers = nn.Sequential(nn.Linear(30, 7), nn.ReLU(), nn.Linear(7, 3))
    once = costs.forward(layers, (30,), 5).arithmetic
    assert costs.gradient(layers, (30,), 5).arithmetic == 3 * once - 2 * 5 * 30 * 7, "inputs need no gradient"
    assert all(not p.is_meta and p.grad is None for p in layers.parameters()), "the network itself is left alone"


def test_an_operation_takes_as_long_as_the_slowest_of_three():
    assert Operation(1.0, 1.0).seconds(SLOW, 1) == 0.5
    assert Operation(100.0, 1.0).seconds(SLOW, 1) == 10.0
    assert Operation(1.0, 1000.0).seconds(SLOW, 2) == 20.0
    work = Work(((Pass((Operation(100.0, 1.0), Operation(0.0, 0.0))), 3.0, 1),))
    assert work.seconds(SLOW) == 31.5
    assert work.beside(2).seconds(SLOW) == 3 * 20.5, "copies share the starts of kernels"
    assert (work + work).arithmetic == 600.0
    assert costs.told(work, SLOW) == "at least 32 seconds of a slow machine, estimated from 3.0e+02 operations"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(30, "less than a minute"), (60, "about 1 minutes"), (754, "about 13 minutes"), (9000, "about 2.5 hours")],
)
def test_durations_have_two_digits(seconds, told):
    assert costs.duration(seconds) == told
    assert costs.of_seconds(2.0 * seconds).startswith(told), "two cores do two threads' seconds at a time"


def _run(sampler, **changes) -> Run:
    problem = Problem(dataset="digits", architecture=Architecture(hidden=(8,)))
    return Run(problem=problem, sampler=sampler, **changes)


def test_a_chain_costs_its_gradients_and_its_records():
    short, long = (job_costs.of_chain(_run(SGD(batch_size=32), epochs=e)) for e in (10.0, 20.0))
    assert 1.5 * short.arithmetic < long.arithmetic < 2.0 * short.arithmetic, "records cost the same"
    gibbs = job_costs.of_chain(_run(EntropySGD(tau=40.0, batch_size=32), epochs=10.0))
    assert gibbs.arithmetic > 2.0 * short.arithmetic, "its records look at a Gibbs classifier"
    jobs = [sampler_job(_run(SGD(batch_size=32), seed=seed)) for seed in (0, 1)]
    both, one = job_costs.of_jobs(jobs), job_costs.of_jobs(jobs[:1])
    assert both.arithmetic == 2 * one.arithmetic
    assert both.seconds(costs.H100) < 1.5 * one.seconds(costs.H100), "chains of one kind go as one batch"


def test_private_runs_cost_by_their_steps_and_unknown_ones_say_so():
    few, many = (
        job_costs.of_private(PrivateConfig(architecture="fc", hidden=(8,), sampling=Sampling(steps=steps)))
        for steps in (100, 200)
    )
    assert 1.5 < many.seconds(costs.H100) / few.seconds(costs.H100) <= 2.0
    odd = Job(key="odd", kind=SAMPLER, config="a string")
    with pytest.raises(ValueError, match="cost of odd, a str, is not known"):
        job_costs.of_jobs([odd])
    assert job_costs.cost_or_none([odd]) == "whose cost is not known beforehand"


def test_the_number_of_seeds_is_that_of_three_standard_errors():
    gap = Measured.of([0.01, 0.03, -0.02, 0.02])  # mean 0.01, deviation 0.0216
    assert gap is not None
    deviation = (gap.noise or 0.0) * math.sqrt(gap.seeds) / 2
    assert by_seeds(gap) == f"about {math.ceil((3 * deviation / gap.mean) ** 2)} seeds"
    assert by_seeds(Measured(0.1, 0.01, 3)) == "", "decided already"
    assert by_seeds(None, Measured(0.1, None, 1)) == ""
    small = by_seeds(Measured(0.0001, 0.02, 3), gap)
    assert small == f"more than {MOST_SEEDS} seeds, for a difference that is below 0.032 already"
    many = by_seeds(Measured(0.002, 0.03, MOST_SEEDS))
    assert many.startswith(f"more than {2 * MOST_SEEDS} seeds"), "beyond those made"


def test_what_a_seed_costs_is_measured_where_the_table_says():
    table = pl.DataFrame({"seed": [0, 0, 1], "seconds": [100.0, 140.0, 240.0], "data": ["A", "A", "A"]})
    told = job_costs.by_seeds(lambda scale, seed: [])(table, "cpu", Claim("A: it is so", None, "x", "about 9 seeds"))
    one, all_ = "about 2 minutes of two cores", "about 18 minutes of two cores"
    assert told == f"about 9 seeds; all runs of one seed on A take {one}, of 9 seeds {all_}"
    more = Claim("A: it is so", None, "x", "more than 200 seeds, for a difference that is below 0.1 already")
    assert job_costs.by_seeds(lambda scale, seed: [])(table, "cpu", more).endswith(
        "of 200 seeds about 6.7 hours of two cores"
    )
    none = job_costs.by_seeds(lambda scale, seed: [])(table, "cpu", Claim("A: it is so", None, "x"))
    assert none.startswith("four times the seeds")
    assert none.endswith("of 8 seeds about 16 minutes of two cores"), "of two seeds that it has"


def test_the_number_of_seeds_is_read_from_what_names_it():
    assert seeds_named(by_seeds(Measured(0.01, 0.0216, 4))) > 4
    assert seeds_named(by_seeds(Measured(0.0001, 0.02, 3))) == MOST_SEEDS
    assert seeds_named("") == seeds_named("the seeds of summer") == 0


def test_estimates_are_told_as_lower_ends_and_what_was_measured_is_not():
    assert costs.at_least(12.0) == "at least 12 seconds of two cores"
    assert costs.at_least(754.0, costs.H100) == "at least 13 minutes of one H100"
    assert "at least" not in costs.of_seconds(754.0)


def _person_run(**sampling) -> Training:
    strategy = next(p for p in CPU if p.name == "X-rays, conv").privately((3.0, 1.0))
    settings = replace(strategy, sampling=replace(strategy.sampling, **sampling))
    return Training(dataset="xrays", network=Network(width=8), strategy=settings, records=1)


def test_private_steps_by_person_are_counted_as_they_are_made():
    """One image a person, four slots: what is computed is people times slots, and the losses of both candidates."""
    work = job_costs.of_training(_person_run())
    people, width = 64, 4
    module = network(Network(width=8), (1, 64, 64), 10, generator=torch.Generator())
    parts, batches = 100 * 0.1 * 3654 / people, job_costs.most_records("xrays", people, width)
    once = costs.gradient(module, (1, 64, 64), people * width).arithmetic
    lost = costs.forward(module, (1, 64, 64), people * width).arithmetic
    assert work.arithmetic > parts * batches * (once + 2.0 * lost)
    assert work.arithmetic < 1.3 * parts * batches * (once + 2.0 * lost)
    smaller = job_costs.of_training(_person_run(max_physical=1))
    assert smaller.seconds(costs.TWO_CORES) > work.seconds(costs.TWO_CORES), "each call has to be traced"
    assert smaller.seconds(costs.H100) > 5.0 * work.seconds(costs.H100), "and its kernels started"


def test_a_pass_under_vmap_takes_its_tracing_too():
    calm = Pass((Operation(1.0, 1.0),))
    assert calm._replace(calls=3).seconds(replace(SLOW, call=2.0)) == calm.seconds(SLOW) + 6.0


def test_records_of_the_largest_of_some_people_by_hand():
    assert job_costs.most_records("digits", 120, 12) == pytest.approx(1.0)
    assert job_costs.most_records("digits", 1, 4) == pytest.approx(3.0)
    one, many = (job_costs.most_records("xrays", people, 1) for people in (1, 64))
    assert 1.4 < one < 1.45, "5,216 images of 3,654 people"
    assert many > 5.0
    assert sum(SIZES[name] >= PEOPLE[name] for name in PEOPLE) == len(PEOPLE)


def test_meta_passes_need_no_memory_of_weights():
    module = nn.Linear(10, 10, device="meta")
    assert costs.forward(module, (10,), 10**6).arithmetic == 2 * 10**8
