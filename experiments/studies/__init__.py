"""Studies: the runs behind a table or figure, and what is made of their results."""
