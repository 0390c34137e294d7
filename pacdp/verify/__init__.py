"""A checker of certificates that shares no code with what made them: read it, and trust nothing else.

It imports NumPy, and python-flint for numbers with error bars; nothing of ``bounds``, nothing else of ``pacdp``. Torch
is imported only to count errors and to take steps again.

A map, from what is asked of a path down to the arithmetic; each room says which others it leads to:

==========================  ============================================================================================
report                      what a path is, what a report is, the program ``pacdp verify``, and every epsilon
measured                    what a report counts: settings, rows, records, measured errors, and each once
prior                       what a report says of its prior, and whether certificates are at the price of it
predicted, parts            a report on predictions: its ledger, its rows, its remarks; families, parts and their whole
selfcertified               a report of ``pacdp.self_certify``: the smallest of several certificates, and its ledger
certificate                 one certificate: what its name says, and what is asked of it, in which order
needs                       which hypotheses a formula needs at a price, and what nothing can show
formulas                    the table of bounds: formula, hypotheses, costs; each function names its section of
                            docs/guarantees.md. ``risk`` has PAC-Bayes bounds and counts, ``counts`` draws, people and
                            noise, ``calibration`` and ``compression`` what their names say
formulas.prices             the table of prices, what a private prior costs; ``realised_sum`` is that of a trajectory
formulas.transfer           the price of accounted privacy
events                      which mechanisms an event says that ran
loss, loss_of_a_step        the privacy loss of composed mechanisms, from both sides
folder                      what is checked of a run's folder, and in which order
norms                       a chain's noise; its norms, and whether certificates pay for all, and for each listed end
compressed                  what is checked of a compression alone
plan                        which mechanisms a run's settings plan, and what was spent of a private run's budget
release                     what is checked of an exported folder, and in which order
recount, replay, rerun      with data and network: rows, errors, kept steps of a chain, a compression's learner
given                       what the callables of --data and --model return, and what is said where they fail
examples                    examples record by record: their hashes, and what an error is
files                       reading files, their hashes, a network's weights, and which version can check them
claim                       what a record says, when a number agrees, and what a verdict is
arithmetic                  kl and its inverse, Clopper and Pearson, ξ(n), as intervals
==========================  ============================================================================================

So the price of a trajectory is ``realised_sum`` in ``formulas/prices.py``, held against "Noisy sums" of
docs/guarantees.md, and that the norms add up to what it pays for is ``check_norms`` in ``norms.py``. What is checked of
a run's folder, and in which order, is ``_checks`` in ``folder.py``. What has to be the same in two files stands in
tables of lines ``file.name = file.name``, over which ``hold`` in ``claim.py`` walks. What no check asks for is named as
what cannot be checked: ``unasked`` in ``files.py`` walks over all of it.
"""
