"""What histories cost: brackets by other accountants, Opacus's registry, calibration, the hand-over to bounds."""

import json
import math

import pytest
import torch
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant, RDPAccountant
from private_toys import ADD, Exponential, data, mechanism, mlp, sweep, trained
from torch.optim import SGD

import bounds
from bounds.accounting import event_from_dict, renyi_epsilon
from pacdp import load_checkpoint
from pacdp.private import (
    DPSGD,
    EventAccountant,
    calibrated,
    epsilon,
    joined,
    planned,
    privacy_claim,
    privacy_spent,
    runs_of,
    sampled_step,
)
from pacdp.store.ledger import Ledger
from tests.marks import near, parametrize, refusal, slow

DECAYING = planned(Exponential(initial=0.9, factor=1.04), sample_rate=0.05, steps=25)
HISTORIES = {
    "constant": planned(1.1, sample_rate=0.02, steps=100),
    "decaying": DECAYING,
    "two rates": joined(DECAYING, planned(1.5, sample_rate=0.2, steps=30)),
    "full batch": planned(lambda t: 20.0 * (1.0 + t) ** -0.1, sample_rate=1.0, steps=12),
}


def numbers(history):
    """(noise multiplier, sample rate, steps) of equal steps in a row."""
    return [(step.event.noise_multiplier, step.sample_rate, count) for step, count in runs_of(history)]


def one_step(noise, rate):
    return joined(sampled_step([noise], sample_rate=rate))


def by_opacus(accountant, history, **options):
    accountant.history = numbers(history)
    return float(accountant.get_epsilon(1e-5, **options))


@pytest.mark.filterwarnings("ignore:Optimal order")
@parametrize("name", ["constant", *(slow(one) for one in ("decaying", "two rates")), "full batch"])
def test_the_bracket_agrees_with_the_accountants_of_opacus(name):
    """Its Rényi accountant is an upper bound; its PRV accountant errs by at most 0.01 either way, upper end first."""
    made = privacy_spent(HISTORIES[name], **ADD)
    assert made.lower <= made.estimate <= made.upper == made.epsilon == epsilon(HISTORIES[name], **ADD)
    assert made.upper - made.lower < 0.01 * made.upper
    assert made.lower <= by_opacus(RDPAccountant(), HISTORIES[name])
    assert made.lower <= renyi_epsilon(event=HISTORIES[name], **ADD).upper
    if name == "full batch":
        return  # which the PRV accountant cannot do
    prv = by_opacus(PRVAccountant(), HISTORIES[name], eps_error=0.01)
    assert made.lower <= prv + 1e-9
    assert prv - 0.025 <= made.upper


def test_no_steps_no_noise_and_extreme_noise():
    assert joined() is planned(1.0, sample_rate=0.1, steps=0) is None, "what did not run is no event"
    assert epsilon(None, **ADD) == 0.0
    assert privacy_claim(None, adjacency="add-remove").mu == 0.0
    for rate in (1.0, 0.3, 1e-300):
        assert epsilon(one_step(0.0, rate), **ADD) == epsilon(one_step(1e-300, rate), **ADD) == math.inf
        assert 0.0 <= epsilon(one_step(1e300, rate), **ADD) < 1e-3
    assert epsilon(one_step(20.0, 1e-3), delta=0.01, adjacency="add-remove") == 0.0, "Opacus says less than 0"


@pytest.mark.filterwarnings("ignore:Secure RNG")
@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.*:FutureWarning")
def test_an_engine_of_opacus_counts_with_it(tmp_path):
    def engine():
        made = PrivacyEngine(accountant="pld")
        module = mlp()
        parts = made.make_private(
            module=module, optimizer=SGD(module.parameters(), lr=0.1), noise_multiplier=1.2,
            data_loader=torch.utils.data.DataLoader(data(40), batch_size=10), max_grad_norm=1.0)  # fmt: skip
        return made, *parts

    one, module, optimizer, loader = engine()
    sizes = sweep(module, optimizer, torch.nn.CrossEntropyLoss(), loader)
    history = planned(1.2, sample_rate=0.25, steps=len(sizes))
    assert one.accountant.event == history
    assert one.get_epsilon(1e-5) == epsilon(history, **ADD)
    path = tmp_path / "theirs.pt"
    one.save_checkpoint(path=path, module=module, optimizer=optimizer)
    second, module, optimizer, _ = engine()
    second.load_checkpoint(path=path, module=module, optimizer=optimizer)
    assert second.get_epsilon(1e-5) == one.get_epsilon(1e-5)


def test_the_state_comes_back_and_that_of_another_mechanism_is_refused():
    mine, fresh, theirs = EventAccountant(), EventAccountant(), RDPAccountant()
    for noise in (1.0, 2.0, 2.0):
        mine.step(noise_multiplier=noise, sample_rate=0.1)
    assert numbers(mine.event) == [(1.0, 0.1, 1), (2.0, 0.1, 2)]
    assert len(mine) == 3, "Opacus counts entries"
    mine.public_size = True
    state = json.loads(json.dumps(mine.state_dict()))
    fresh.load_state_dict(state)
    assert (fresh.event, fresh.adjacency) == (mine.event, "replace-one")
    theirs.step(noise_multiplier=1.0, sample_rate=0.1)
    for other in (theirs.state_dict(), {"mechanism": "pld"}, {**state, "event": [[1.0, 0.1, 1]]},
                  {**state, "event": {"event": "Gaussian", "noise_multiplier": -1.0}}):  # fmt: skip
        empty = EventAccountant()
        with refusal(r"^state must be|^record must hold|^event must be|^noise_multiplier must"):
            empty.load_state_dict(other)
        assert empty.event is None
    with refusal("would forget"):
        mine.load_state_dict(state)


def test_steps_that_told_the_number_of_records_say_so_in_the_ledger_that_enters_them(tmp_path):
    told, fresh = EventAccountant(), EventAccountant()
    told.public_size, fresh.books = True, Ledger.open(tmp_path)
    told.step(noise_multiplier=1.0, sample_rate=0.1)
    fresh.load_state_dict(told.state_dict())
    (entry,) = fresh.books.entries
    assert entry.stretch.tells_size


@parametrize("adjacency", ["add-remove", "replace-one"])
def test_calibration_scales_the_whole_schedule_and_rounds_to_the_safe_side(adjacency):
    question = {"delta": 1e-4, "adjacency": adjacency}
    decay = Exponential(initial=1.0, factor=0.97)
    schedule, finer = (calibrated(decay, sample_rate=0.1, steps=5, target_epsilon=2.0, tolerance=tolerance, **question)
                       for tolerance in (1e-3, 1e-4))  # fmt: skip
    history = planned(schedule, sample_rate=0.1, steps=5)
    assert [noise for noise, _, _ in numbers(history)] == [schedule.factor * decay(t) for t in range(5)]
    assert 1.98 < epsilon(history, **question) <= 2.0
    assert schedule.factor * (1.0 - 1.1e-3) < finer.factor <= schedule.factor * (1.0 + 1e-9)


def test_a_checkpoint_s_record_pays_for_a_private_prior(tmp_path):
    path, numbers = (
        tmp_path / "run.safetensors",
        mechanism(
            noise_multiplier=Exponential(initial=3.0, factor=0.99), sample_rate=0.002, expected_batch_size=4.0, steps=20
        ),
    )
    run = trained(DPSGD(learning_rate=0.1), mechanism=numbers, checkpoint=path)
    history = event_from_dict(load_checkpoint(path).header["event"])
    assert history == run.event
    claim = privacy_claim(history, adjacency="add-remove")
    assert claim.status == "accounted"
    given = {"risk": 0.1, "kl_nats": 5.0, "n": 2000, "failure_prob": 0.05}
    certificate = bounds.printed.private_pac_bayes(privacy=claim, **given)
    assert certificate.status == "rigorous"
    ordinary = bounds.maurer(**given).value
    assert ordinary < certificate.value < ordinary + 0.02
    longer = joined(history, planned(1.0, sample_rate=0.05, steps=50))
    more = bounds.printed.private_pac_bayes(privacy=privacy_claim(longer, adjacency="add-remove"), **given)
    assert more.value > certificate.value


def test_full_batches_hand_over_a_gaussian():
    claim = privacy_claim(planned(20.0, sample_rate=1.0, steps=4), adjacency="add-remove")
    assert isinstance(claim, bounds.GaussianDP)
    assert claim.mu == near(0.1, rel=1e-10)


def test_a_choice_on_a_sample_hides_a_replaced_record_as_two_steps_of_one_more_or_less():
    chosen = joined(*[sampled_step([1.5], sample_rate=0.1, choice_epsilon=0.3) for _ in range(20)])
    found = privacy_spent(chosen, delta=1e-5, adjacency="replace-one")
    half = found.upper / 2.0
    share = 1e-5 / (1.0 + math.exp(half))
    assert privacy_spent(chosen, delta=share, adjacency="add-remove").upper <= half
    assert privacy_spent(chosen, delta=share, adjacency="add-remove").upper > 0.999 * half
    assert (found.adjacency, found.delta) == ("replace-one", 1e-5)
    # as much noise without a choice, for which there is a theorem
    plain = joined(*[sampled_step([1.5], sample_rate=0.1) for _ in range(20)])
    assert privacy_spent(plain, delta=1e-5, adjacency="replace-one").upper < found.upper
    assert privacy_spent(chosen, delta=1e-5, adjacency="add-remove").lower == found.lower
    nothing = sampled_step([0.0], sample_rate=1.0, choice_epsilon=0.3)
    assert privacy_spent(nothing, delta=1e-5, adjacency="replace-one").upper == math.inf
