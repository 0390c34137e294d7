"""What the papers add to the command `pacdp`: two commands, and the folders of studies' results."""

from experiments.commands import Experiment, Results

COMMANDS = {"experiment": Experiment, "results": Results}
FOLDERS = "experiments.folders"
