"""A checker of certificates that shares no code with what made them: read it, and trust nothing else.

It imports NumPy, and python-flint for numbers with error bars; nothing of ``bounds``, nothing else of ``pacdp``. Torch
is imported only to count errors and to take steps again.

A map, from what is asked of a path down to the arithmetic; each room says which others it leads to:

==========================  ============================================================================================
report                      what a path is (a report, one certificate, a run's folder), and the program ``pacdp verify``
run_report                  a report on a run or a network: what certificates share, measured errors, every epsilon
predicted                   a report on predictions: its ledger, its rows, counts of parts and whole
selfcertified               what ``pacdp.self_certify`` writes: the smallest of several certificates
certificate                 one certificate: failure probability, hypotheses, labels, costs, terms, value, in this order
names                       what the name of a certificate says: predictor, loss, price, formula
needs                       which hypotheses a formula needs at a price, and what nothing can show
formulas                    every bound by its name; each function names the section of docs/guarantees.md
prices                      what a private prior costs
prices.noisy                the price of noisy sums, and so of a trajectory: ``realised_sum``
prices.accounted            the price of accounted privacy
events                      which mechanisms an event says that ran
loss, loss_of_a_step        the privacy loss of composed mechanisms, from both sides
folder                      a run's folder: what is checked of it, in which order, and in which room
folder.trajectory           whether a trajectory's price is paid for the norms that the run kept
folder.private              what is checked of a private run alone
folder.private_plan         what a private run's settings plan; ``folder.plan``: what a chain's do
folder.release              what is checked of an exported folder, and in which order
recount, replay, rerun      with data and network: rows, errors, kept steps of a chain, a compression's learner
claim                       when a number agrees, and what a verdict is
arithmetic                  kl and its inverse, Clopper and Pearson, ξ(n), as intervals
files, row_hashes           reading files and their hashes, and hashes of rows
examples                    examples record by record, and what an error is
==========================  ============================================================================================

So the price of a trajectory is ``realised_sum`` in ``prices/noisy.py``, held against "Noisy sums" of
docs/guarantees.md, and that the norms add up to what it pays for is ``check_norms`` in ``folder/trajectory.py``. What
is checked of a private run's folder, and in which order, is ``_checks`` in ``folder/__init__.py``.
"""
