"""Tests of the room with the Kafka connections."""
