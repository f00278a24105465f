"""Tests of the core: reassignments."""
