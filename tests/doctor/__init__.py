"""Tests of ``controller.doctor``."""
