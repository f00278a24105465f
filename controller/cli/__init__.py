"""The command ``reassigner``: one module for each sub-command, with its options and behaviour."""

from controller.cli.app import main

__all__ = ["main"]
