"""Tests of ``controller.web``."""
