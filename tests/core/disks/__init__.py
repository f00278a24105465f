"""Tests of the core: disks."""
