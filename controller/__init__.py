"""Carries out partition reassignments on ZooKeeper-based Kafka clusters, step by step."""
