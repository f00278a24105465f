"""
Message definitions of the three requests only a controller sends, one file per direction.

The field layout is a fact of Kafka's wire protocol (LeaderAndIsr, StopReplica, UpdateMetadata up to
Kafka 3.9). Public clients lack these messages, because only a controller needs them.
A field is called otherwise than in Kafka where the message classes reserve the name (``type``).
"""
