"""Measurements: real brokers where it is about time, the simulated cluster where it is about size."""
