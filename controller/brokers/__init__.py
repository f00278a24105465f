"""
Connections to Kafka brokers; the only room with a Kafka client.

``controller_requests``, ``responses`` and ``versions`` are the controller's protocol, ``channels``
sends its requests in order. ``topic_configs``, ``log_dirs`` and ``cluster_controller`` are queries
of the daemon, ``broker_survey`` and ``cluster_survey`` those of commands; ``cluster_ids`` asks by
librdkafka.
"""
