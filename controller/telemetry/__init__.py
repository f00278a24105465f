"""
Logs, metrics, journal and status: observes decisions and never steers them.

The loop calls ``observer.TelemetryObserver``, which feeds the other modules. ``web`` reads what is
published here.
"""
