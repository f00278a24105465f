"""``python -m controller.cli`` is the command ``reassigner``."""

from controller.cli import main

main()
