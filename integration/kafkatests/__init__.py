"""
Kafka's own integration tests, with the daemon in the place of Kafka's controller.

``python -m integration.kafkatests`` (also ``make kafka-tests``) resolves the published test classes
of a Kafka release, and runs each class in a JVM of its own. Nothing of Kafka is copied here: the
Java sources in ``harness`` are hooks that start the daemon beside each test's ZooKeeper, and answer
where a test looks for a broker that is the controller.
"""
