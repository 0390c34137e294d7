"""The number of runs is the inverse of the law's distribution function at a secret uniform number."""

from decimal import Decimal, localcontext
from itertools import islice

from bounds.accounting import NegativeBinomialRuns, PoissonRuns
from pacdp.step import budget
from tests.marks import every_case


@every_case("law", [NegativeBinomialRuns(stopping=0.2, shape=-0.5), PoissonRuns(mean=3.0)])
def test_each_number_has_the_words_of_its_probability(law, monkeypatch):
    with localcontext(prec=60):
        below = Decimal(0)
        for k, probability in enumerate(islice(law.probabilities(), 60)):
            for share in ("0.001", "0.999") if probability else ():
                word = int((below + Decimal(share) * probability) * 2**192)
                monkeypatch.setattr(budget.secrets, "randbits", lambda bits, word=word: word >> (192 - bits))
                assert budget.number_of_runs(law) == k
            below += probability
    monkeypatch.undo()
    assert len({budget.number_of_runs(law) for _ in range(64)}) > 2
