"""Tests of ``controller.cli``."""
