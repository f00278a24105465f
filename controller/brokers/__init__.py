"""
Connections to Kafka brokers; the only room with a Kafka client.

``messages`` and ``controller_requests`` are the controller's protocol, ``channels`` sends its
requests in order, as ``frames``. ``config_queries``, ``log_dirs``, ``topic_validation`` and
``cluster_controller`` are queries of the daemon, ``surveys`` and ``setting_survey`` those of
commands; ``cluster_ids`` asks by librdkafka.
"""
