"""Measurements: time on real brokers, size on the simulated cluster."""
