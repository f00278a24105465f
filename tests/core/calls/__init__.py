"""Tests of the core: calls."""
