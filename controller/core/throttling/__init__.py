"""Throttles as a lease: what is set for whom, what stood there before, and its way back."""
