"""What drove newcomers away in their first hour, and the tests that hold each of it, by the labels of the review.

A label is a kind of fault and not one case: whoever finds another case of it adds a test here.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HELD = {
    "U1 numbers on a terminal are rounded up": ["experiments/test_surfaces.py::test_no_certificate_is_rounded_down"],
    "U2 a failure probability of 0 and labels that are floats are refused": [
        "experiments/test_foreign.py::test_a_failure_probability_is_none_of_these",
        "experiments/test_foreign.py::test_what_does_not_fit_is_refused_in_a_sentence",
        "pacdp/certify/test_network_streams.py::test_what_does_not_fit_is_refused_in_a_sentence",
    ],
    "U3 spaces in figures are spaces": ["experiments/test_figures.py::test_spaces_of_any_width_are_drawn_as_spaces"],
    "U4 no traceback, whatever a stranger's files and functions do": [
        "experiments/test_foreign.py::test_networks_that_give_no_logits_are_refused_in_a_sentence",
        "experiments/test_foreign.py::test_logits_in_a_dictionary_are_found_where_the_network_is_counted_as_it_is",
        "experiments/test_foreign.py::test_a_device_that_is_not_there_is_a_sentence",
        "experiments/test_foreign.py::test_damaged_weights_are_refused_in_a_sentence",
        "experiments/test_foreign.py::test_wrong_names_shapes_and_values_are_refused",
    ],
    "U5 the network's own row comes first, and no report is lost": [
        "experiments/test_foreign.py::test_without_a_prior_the_network_is_counted_as_it_is",
        "experiments/test_foreign.py::test_reports_are_not_lost_and_other_files_not_overwritten",
        "experiments/test_surfaces.py::test_status_predictor_risk_and_unit_are_in_sight",
    ],
    "U6 what new data are like is a hypothesis, and an error above a certificate is explained": [
        "experiments/test_surfaces.py::test_every_hypothesis_is_shown_with_its_standing_and_who_vouches_for_it",
        "experiments/test_surfaces.py::test_a_certificate_below_the_test_error_is_explained",
    ],
    "U7 the commonest jobs have a command": [
        "experiments/test_predictions_command.py::test_every_kind_of_file_says_what_python_says",
        "pacdp/certify/test_network_streams.py::test_every_form_of_the_examples_gives_what_tensors_at_once_give",
        "experiments/test_calculator.py::test_comparison_is_sorted_and_says_what_the_others_lack",
    ],
    "U8 the demonstration ends with a network that works": [
        "experiments/test_figures.py::test_demo_ends_with_a_sentence_that_its_files_prove",
    ],
    "U9 packages take no name of a user's own, and list theirs": [
        "test_packages.py::test_the_wheel_holds_both_packages_and_no_name_of_a_user_s_own",
        "test_packages.py::test_help_lists_the_public_names",
    ],
    "U10 nothing is imported that is not needed": [
        "experiments/test_start_up.py::test_a_command_imports_nothing_that_it_does_not_need",
        "experiments/test_start_up.py::test_a_worker_imports_what_it_runs",
        "experiments/test_predictions_command.py::test_the_command_and_the_function_start_without_torch",
    ],
    "U11 errors say what is wrong": [
        "experiments/test_usage.py::test_a_wrong_command_line_is_one_sentence_and_leaves_nothing",
        "experiments/test_usage.py::test_help_about_a_bound_shows_what_the_bound_needs",
        "experiments/test_foreign.py::test_sound_weights_of_another_program_are_not_called_damaged",
    ],
    "U12 plain language": [
        "test_first_hour.py::test_no_docstring_begins_in_the_middle_of_a_sentence",
    ],
}


@pytest.mark.parametrize("finding", HELD)
def test_every_finding_has_tests(finding):
    for name in HELD[finding]:
        path, _, function = name.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_the_findings_are_those_of_the_review():
    assert [re.match(r"U(\d+) ", finding)[1] for finding in HELD] == [str(k) for k in range(1, 13)]


@pytest.mark.parametrize("package", ["bounds", "pacdp", "experiments"])
def test_no_docstring_begins_in_the_middle_of_a_sentence(package):
    found = [
        f"{path.relative_to(ROOT)}: {said.splitlines()[0]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module | ast.AsyncFunctionDef)
        if (said := ast.get_docstring(node)) and re.match(r"(Of|And|Or) ", said)
    ]
    assert found == []
