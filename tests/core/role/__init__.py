"""Tests of the core: role."""
