"""
Logs, metrics, journal, status page and probes: observes decisions, never steers them.

The loop calls ``TelemetryObserver``; everything else here is reached from that, or read by the HTTP
server's threads from what it published.
"""

from controller.telemetry.arrivals import TimedInbox
from controller.telemetry.boards import StatusBoard
from controller.telemetry.health import Health
from controller.telemetry.http import HttpServer
from controller.telemetry.journal import Journal
from controller.telemetry.logs import configure_logging
from controller.telemetry.metrics import Metrics, SessionState
from controller.telemetry.observer import TelemetryObserver
from controller.telemetry.pages import Pages

__all__ = [
    "Health",
    "HttpServer",
    "Journal",
    "Metrics",
    "Pages",
    "SessionState",
    "StatusBoard",
    "TelemetryObserver",
    "TimedInbox",
    "configure_logging",
]
