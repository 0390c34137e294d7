"""Scalars as functions of arrays."""

import pytest
from cells import refused

from bounds import binary_kl_upper
from bounds._arithmetic import cached


@pytest.mark.parametrize("wrong", ["a", 1j, 10**400])
def test_what_is_no_number_is_refused_in_words(wrong):
    refused(r"^binary_kl_upper takes real numbers", binary_kl_upper, wrong, 0.1)
    assert binary_kl_upper(nats=0.1, q=0.2) == binary_kl_upper(0.2, 0.1)


def test_code_is_compiled_where_no_folder_can_keep_it():
    def compiled(cache):
        if cache:
            raise RuntimeError("no locator available")
        return "compiled"

    assert cached(compiled) == "compiled"
