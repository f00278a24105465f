"""Findings of the checks: what is wrong, about what, on which evidence, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_DAEMON: Final = (
    "start a daemon; if none will run here again: reassigner doctor --fix --no-daemon"
)
"""What to do with what only a daemon reads."""


class Severity(StrEnum):
    """The severity of a finding."""

    CRITICAL = "critical"
    """Data or availability is at risk, or the daemon cannot work."""
    WARNING = "warning"
    """An operator should examine it."""
    INFO = "info"
    """Nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a check."""

    check: str
    """A short, stable name for scripts."""
    severity: Severity
    subject: str
    """The partition, broker or znode."""
    evidence: str
    advice: str
