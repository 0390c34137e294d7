"""What the papers add to the command `pacdp`: two commands, and the folders of studies' results."""

from pacdp.cli.extensions import Entry, Extension

EXTENSION = Extension(
    commands={
        "experiment": Entry(
            "experiments.commands",
            "Experiment",
            "Carry out a study: its runs, then table, figure, verdict, configuration and provenance.",
        ),
        "results": Entry(
            "experiments.commands",
            "Results",
            "Judge the tables of all studies again and write the page about them.",
        ),
    },
    folders="experiments.folders",
)
