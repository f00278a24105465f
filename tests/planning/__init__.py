"""Tests of ``controller.planning``."""
