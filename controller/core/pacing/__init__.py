"""Concurrency limits: limits, pauses, windows, the health of the cluster, throttles."""
