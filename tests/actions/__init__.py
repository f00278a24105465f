"""Tests of ``controller.actions``."""
