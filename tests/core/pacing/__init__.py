"""Tests of the core: pacing."""
