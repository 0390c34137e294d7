"""One text for equal values."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from pacdp.store.canonical import canonical, digest

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_the_text_is_read_back_and_written_again(values):
    text = canonical(values)
    assert text.isascii()
    assert json.loads(text) == values
    assert canonical(json.loads(text)) == text


def test_order_of_keys_does_not_count_and_kinds_of_numbers_do():
    assert canonical({"b": 1, "a": [1.0, "é"]}) == '{"a":[1.0,"\\u00e9"],"b":1}'
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 1.0})
    assert digest([1], after="x") == hashlib.sha256(b"x[1]").hexdigest()
