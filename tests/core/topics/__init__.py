"""Tests of the core: topics."""
