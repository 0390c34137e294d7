"""What the papers add to the command `pacdp`: two commands, and the folders of studies' results."""

COMMANDS = {"experiment": "experiments.commands:Experiment", "results": "experiments.commands:Results"}
FOLDERS = "experiments.folders"
