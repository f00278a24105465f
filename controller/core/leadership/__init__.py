"""Leaderships: partition states, elections, ISR changes, and what brokers are sent of them."""
