"""Suites that every implementation of a port has to pass, simulated or real."""
