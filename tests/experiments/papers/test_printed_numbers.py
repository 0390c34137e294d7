"""Every number of a paper's printed tables is compared with ours, or listed with the reason why it is not; and what the
first page says follows from the claims."""

from collections import Counter

import pytest

from experiments.registry import study
from experiments.runner import RESULTS, SCALES, read_table

# Copied from the papers' texts, column by column, without our own tables.
PRINTED = {
    "knolle-table-1": "0.984 0.999 0.0020 0.5 0.967 0.996 0.0210 0.5 0.963 0.995 0.0044",
    "knolle-table-2": "0.857 0.942 0.0526 6.0 0.783 0.910 0.1790 6.0 0.786 0.920 0.0833",
    "dp-bnn-accuracy": """
        10 10 0.90 0.95 0.89 0.89 0.95 0.96 0.90 0.89 480 480 0.80 0.81 0.97 0.98 9 0.78 0.77 0.98 0.97
        10 0.77 0.95 0.97 0.99""",
    "dp-bnn-calibration": """
        0.204 0.641 0.024 0.052 0.167 0.141 0.166 0.166 0.007 0.175 0.035 0.175 0.126 0.465 0.008 0.289
        0.008 0.080 0.030 0.041 0.078 0.225 0.002 0.725 0.013 0.089 0.016 0.139 0.106 0.625 0.005 0.299""",
    "dp-bnn-regression": "0.510 0.523 1.276 0.562 0.682 0.591",
    "p3sgd-table-1": """
        60.9 99.87 91.58 8.29 98.97 93.13 5.84 96.85 92.74 4.11
        14.7 99.81 92.19 7.81 99.28 94.32 4.96 96.23 93.87 2.36
        11.2 99.85 92.25 7.60 99.63 92.12 7.51 95.70 95.23 0.47
        21.3 99.23 93.19 6.04 99.16 93.22 5.94 95.80 95.34 0.46
        3.2 98.73 92.01 6.72 98.65 91.61 7.04 94.79 94.13 0.66
        2.3 98.52 93.24 5.28 98.37 93.28 5.09 95.32 94.86 0.46
        98.85 94.87 3.68""",
    "p3sgd-table-2": "95.23 6.97 94.31 7.10 93.57 4.97 94.38 8.48 93.24 5.13 92.15 4.70",
}


@pytest.mark.parametrize("name", PRINTED)
def test_every_number_of_a_printed_table_is_compared_or_listed(name):
    folders = (RESULTS / name / scale for scale in SCALES)  # the most telling first
    folder = next(folder for folder in folders if (folder / "table.csv").is_file())
    verdict = study(name).judge(read_table(folder), "cpu")
    answered = Counter(float(one.paper) for one in verdict.comparisons if isinstance(one.paper, float | int))
    answered += Counter(number for one in verdict.omissions for number in one.numbers)
    printed = Counter(map(float, PRINTED[name].split()))
    assert {number: count for number, count in printed.items() if answered[number] < count} == {}
