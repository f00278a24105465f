"""
The only room with Kafka connections.

``wire`` and ``versions`` know what a controller says to brokers, ``connections`` how bytes get
there, ``channels`` keeps one ordered conversation per broker, ``configs`` asks for effective
settings.
"""
