"""One runner for tables of what is refused, and in which words."""

import pytest

from tests.marks import parametrize, refusal


def refuses(table, error=ValueError):
    """A test that every call of the table raises the error in one line, in which its words are found."""

    @pytest.mark.every_case
    @parametrize(("call", "words"), table.values() if isinstance(table, dict) else table)
    def test(call, words):
        with refusal(words, error) as caught:
            call()
        assert "\n" not in str(caught.value)

    return test
