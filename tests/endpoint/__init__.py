"""Tests of the controller's Kafka API."""
