"""Findings of the checks: what is wrong, about what, on which evidence, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller.core.core_settings import EngineName
from controller.core.model import BrokerId, count_text
from controller.core.pacing.throttle_settings import AppliedThrottle

NO_DAEMON: Final = (
    "start a daemon; if none will run here again: reassigner doctor --fix --no-daemon"
)
"""What to do with what only a daemon reads."""
CLIENTS_WAIT: Final = (
    "while the daemon is the controller, clients wait, and time out after 60 s by default, for: "
    "creating and altering topics, DescribeConfigs through librdkafka, --list of Kafka's tool "
    "(`controller_endpoint = public` answers them)"
)
"""What a tenure of the native engine means for clients, without the public endpoint."""
CLIENTS_WAIT_NOW: Final = (
    "some requests of clients wait until the daemon gives the controller role back: `reassigner "
    "doctor` says which"
)
"""The same where it is shown again and again."""


NOTHING: Final = "nothing"
"""With this, advice begins where nothing has to be done."""


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


def critical(check: str, subject: str, evidence: str, advice: str) -> Finding:
    """Return a finding of data or availability at risk, or of a daemon that cannot work."""
    return Finding(check, Severity.CRITICAL, subject, evidence, advice)


def warning(check: str, subject: str, evidence: str, advice: str) -> Finding:
    """Return a finding that an operator should examine."""
    return Finding(check, Severity.WARNING, subject, evidence, advice)


def info(check: str, subject: str, evidence: str, advice: str) -> Finding:
    """Return a finding that nothing is wrong."""
    return Finding(check, Severity.INFO, subject, evidence, advice)


def old_copies_text(broker: BrokerId, names: Sequence[str]) -> str:
    """Say of which partitions a broker may still hold copies that are to be deleted."""
    held = f"old copies of {len(names)} partitions"
    if len(names) == 1:
        held = f"an old copy of {names[0]}"
    return f"broker {broker} may still hold {held}"


def why_orphaned(reason: str) -> str:
    """Return the reason of an orphan record in a sentence."""
    known = {
        "not live": "its broker was not live",
        "not confirmed": "nothing confirmed its deletion",
        "dropped by another controller": "another controller dropped it",
        "ended by another controller": "another controller ended the reassignment",
    }
    return known.get(reason, reason)


def orphan_advice(engine: EngineName | None, *, is_live: bool, path: str | None) -> str:
    """
    Return what to do about the log of an orphan on a broker that may be live.

    ``engine`` is None if it is not known. ``path`` is the directory of the log, None if the broker
    is not known to have it.
    """
    if engine is EngineName.NATIVE:
        when = "no live replica lags" if is_live else "that broker is back"
        return f"{NOTHING}: the deletion follows when {when}"
    removal = (
        f"stop the broker, run `rm -r {path or 'DIRECTORY'}` on its machine, and start it; the "
        "daemon then ends the record"
    )
    if engine is None:
        return f"a daemon with the native engine has it deleted; without one, {removal}"
    if path is not None:
        return f"no request of Kafka deletes it: {removal}"
    if is_live:
        return f"{NOTHING}: the daemon ends the record when the broker reports no log of it"
    return "start the broker: if it has the log, its directory is named then"


def restart_text(broker: BrokerId, *, leads: int, is_live: bool, lacking: str) -> str:
    """
    Say whether a broker whose leaderships are evacuated can be restarted.

    ``lacking`` names the partitions of which another replica is not in sync; empty: none.
    """
    if leads:
        return f"broker {broker} still leads {count_text(leads, 'partition')}"
    if not is_live:
        return f"broker {broker} leads no partition, and is not live"
    if lacking:
        return (
            f"broker {broker} leads no partition, but do not restart it yet: another replica of "
            f"{lacking} is not in sync, and producers may be refused meanwhile"
        )
    return f"broker {broker} leads no partition: it can be restarted"


def keys_text(applied: AppliedThrottle) -> str:
    """List the settings of a throttle that a daemon set."""
    return ", ".join(sorted(applied.ours)) or "nothing"
