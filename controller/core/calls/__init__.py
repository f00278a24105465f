"""Requests of brokers and clients to the controller, and the answers."""
