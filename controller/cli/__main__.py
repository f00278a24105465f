"""``python -m controller.cli``, the same as ``reassigner``."""

from controller.cli import main

main()
