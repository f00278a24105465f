"""The controller role: claim, resignation, choice of engine, rejected writes."""
