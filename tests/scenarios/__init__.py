"""Scenarios: text files of commands to a simulated cluster and the decisions of the daemon."""
