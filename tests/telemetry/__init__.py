"""Tests of ``controller.telemetry``."""
