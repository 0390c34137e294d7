"""Numbers of studies on pages: those of the results, and upper ends rounded up."""

import re

import pytest

from experiments import doc_numbers


@pytest.mark.parametrize("name", doc_numbers.PAGES)
def test_numbers_on_pages_are_those_of_the_results(name):
    text = (doc_numbers.ROOT / name).read_text(encoding="utf-8")
    assert "<!-- results." in text
    assert doc_numbers.written(text) == text, "run pacdp results"


def test_every_number_is_on_a_page_and_every_mark_on_a_page_that_is_written():
    pages = {str(path.relative_to(doc_numbers.ROOT)): path.read_text(encoding="utf-8")
             for path in (doc_numbers.ROOT / "docs").glob("*.md")}  # fmt: skip
    marked = {name for name, text in pages.items() if "<!-- results." in text}
    assert marked == set(doc_numbers.PAGES)
    assert {one for name in marked for one in re.findall(r"<!-- results\.([\w-]+)", pages[name])} == set(
        doc_numbers.NUMBERS
    )


def test_another_number_is_noticed_and_certificates_are_rounded_up():
    text = (doc_numbers.ROOT / "docs/trajectory.md").read_text(encoding="utf-8")
    down = text.replace("finite-ten -->.0225", "finite-ten -->.0224")
    assert down != text == doc_numbers.written(down), "0.022434 is no bound of .0224"


def test_marks_are_refused_that_nothing_can_be_written_under():
    with pytest.raises(ValueError, match="needs an end"):
        doc_numbers.written("<!-- results.mended -->\n")
    with pytest.raises(ValueError, match="a mark must name one of"):
        doc_numbers.written("<!-- results.nothing --><!-- end -->")
