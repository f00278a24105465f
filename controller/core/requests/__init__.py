"""Requests of operators: plans, requests, the queue, cancellations, and their outcomes."""
