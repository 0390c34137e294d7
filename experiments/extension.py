"""What the papers add to the command `pacdp`: two commands, and the folders of studies' results."""

from pacdp.cli.extensions import Entry

COMMANDS = {
    "experiment": Entry(
        "experiments.commands", "Experiment", "Carry out a study: its runs, then table, figures and what made them."
    ),
    "results": Entry(
        "experiments.commands", "Results", "Judge the tables of all studies and write the page about them."
    ),
}
FOLDERS = "experiments.folders"
