"""Tests of the adapter to ZooKeeper, without a ZooKeeper; the real one is in ``integration``."""
