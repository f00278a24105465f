"""
``stock``: the command line of ``kafka-reassign-partitions``, carried out by the daemon.

Options, texts and exit codes are those of Kafka's tool: of 3.9 with ``--bootstrap-server``, of the
last version before 2.6 with ``--zookeeper`` alone. Scripts rely on them.
"""
