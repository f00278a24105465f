"""Throttles: what is set for which request, the former values, and their restoration."""
