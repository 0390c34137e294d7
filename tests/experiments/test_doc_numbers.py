"""Numbers of studies on pages: those of the results, and upper ends rounded up."""

import pytest

from experiments import doc_numbers


@pytest.mark.parametrize("name", doc_numbers.PAGES)
def test_numbers_on_pages_are_those_of_the_results(name):
    text = (doc_numbers.ROOT / name).read_text(encoding="utf-8")
    assert "<!-- results." in text
    assert doc_numbers.written(text) == text, "run pacdp results"


def test_another_number_is_noticed_and_certificates_are_rounded_up():
    text = (doc_numbers.ROOT / "docs/trajectory.md").read_text(encoding="utf-8")
    down = text.replace("finite-ten -->.0225", "finite-ten -->.0224")
    assert down != text == doc_numbers.written(down), "0.022434 is no bound of .0224"
