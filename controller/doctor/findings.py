"""What a check has found: how bad, about what, on which evidence, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much it matters."""

    CRITICAL = "critical"
    """Records or availability are at stake, or our work cannot go on."""
    WARNING = "warning"
    """Somebody should look at it."""
    INFO = "info"
    """Worth knowing; nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check has found."""

    check: str
    """A short name, stable, for scripts."""
    severity: Severity
    subject: str
    """The partition, broker or znode it is about."""
    evidence: str
    advice: str
