"""``python -m pacdp.cli`` is the command `pacdp`."""

from pacdp.cli.main import main

main()
