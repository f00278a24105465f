"""Tests of the core: deletions."""
