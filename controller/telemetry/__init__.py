"""
Logs, metrics, journal, status page and probes: observes decisions, never steers them.

The loop calls ``TelemetryObserver``; everything else here is reached from that, or read by the HTTP
server's threads from what it published.
"""

from controller.telemetry.event_arrivals import TimedInbox
from controller.telemetry.health import Health
from controller.telemetry.http import HttpServer
from controller.telemetry.journal import Journal
from controller.telemetry.logs import configure_logging
from controller.telemetry.metrics import Metrics, SessionState
from controller.telemetry.observer import TelemetryObserver
from controller.telemetry.routes import Routes
from controller.telemetry.status_publisher import StatusPublisher

__all__ = [
    "Health",
    "HttpServer",
    "Journal",
    "Metrics",
    "Routes",
    "SessionState",
    "StatusPublisher",
    "TelemetryObserver",
    "TimedInbox",
    "configure_logging",
]
