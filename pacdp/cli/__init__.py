"""The command `pacdp`: recipes and run folders, figures and reports of a run, sweeps over processes.

Torch is imported only where a command trains or certifies networks.
"""
