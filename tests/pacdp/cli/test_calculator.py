"""`pacdp bound`: one bound, a comparison, a plan."""

import inspect
import re

import bounds
from pacdp.cli import calculator
from pacdp.cli.commands.bounds import Bound
from tests.marks import every_case, parametrize


def test_a_printed_bound_is_rounded_up(said):
    made = bounds.maurer(risk=0.0856, kl_nats=1.4, n=1437, failure_prob=0.05)
    assert float(f"{made.value:.6g}") < made.value, "one that the nearest digit would make smaller"
    shown = re.search(r"<= ([\d.]+)", said("bound", "maurer", "--risk", 0.0856, "--kl-nats", 1.4, "--n", 1437))
    assert made.value <= float(shown[1]) < made.value * (1 + 1e-5)


@parametrize("name", calculator.CELLS)
def test_every_name_is_that_of_its_certificates_and_of_the_library_s_function_if_it_has_one(name):
    given = Bound(name=name, risk=0.02, kl_nats=100.0, n=60_000, n_bound=60_000, epsilon=0.001, lam=1.0,
                  inverse_temperature=6e4)  # fmt: skip
    made = calculator.compute(given)
    assert made.name == name
    assert made.hypotheses
    known = calculator.arguments(given)
    function = getattr(bounds, name, getattr(bounds.printed, name, None))
    if function is not None:
        asked = inspect.signature(function).parameters
        assert made == function(**{key: value for key, value in known.items() if key in asked})


def test_comparison_is_sorted_and_says_what_the_others_lack(said):
    found = said("bound", "compare", "--risk", 0.02, "--kl-nats", 500, "--n", 60_000, "--mu", 0.02, "--json")
    values = [certificate["value"] for certificate in found["certificates"]]
    assert values == sorted(values)
    named = {certificate["name"] for certificate in found["certificates"]}
    assert {"maurer", "private_pac_bayes", "private_kl_chernoff"} <= named
    assert found["not_applicable"]["dp_pac_bayes"].startswith("needs --epsilon alone")
    assert named | found["not_applicable"].keys() == set(calculator.CELLS)
    assert "private_quadratic" in named, "a formula without a name of its own at this price"


def test_add_remove_epsilon_counts_twice_for_replace_one_bounds():
    known = calculator.arguments(Bound(name="", epsilon=0.01, adjacency="add-remove"))
    privacy = known["privacy"]
    assert (known["epsilon"], privacy.epsilon, privacy.adjacency) == (0.02, 0.02, "replace-one")


@every_case(
    ("question", "said"),
    [
        ("maurer --epsilon 1", "maurer does not use --epsilon"),
        ("maurer --lam 1 --n-bound 30", "maurer does not use --n-bound, --lam"),
        ("maurer --adjacency add-remove", "--adjacency is that of --epsilon, --mu or --rho"),
        ("compare --target 0.1", "compare does not use --target"),
        ("plan --expected-error 0.1", "plan does not use --risk, --kl-nats"),
    ],
)
def test_an_option_that_an_answer_would_leave_out_is_refused(question, said, refused):
    """Weights that are private in the records have no bound of an independent prior."""
    assert said in refused("bound", *question.split(), "--risk", 0.02, "--kl-nats", 3, "--n", 600)
