"""The ``reassigner`` command: parse, call, print, exit code."""

from controller.cli.app import main

__all__ = ["main"]
