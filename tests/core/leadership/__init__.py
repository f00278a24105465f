"""Tests of the core: leadership."""
