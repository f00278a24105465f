"""Carries out partition reassignments on ZooKeeper-based Kafka clusters, step by step."""

from __future__ import annotations

from typing import Final

DISTRIBUTION: Final = "kafka-reassigner"


def installed_version() -> str:
    """Return the version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - most commands do not show it

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "(not installed)"
