"""
Message definitions of the three requests that brokers send to their controller.

The field layout is a fact of Kafka's wire protocol (ControlledShutdown, AlterPartition,
AllocateProducerIds up to Kafka 3.9). Public clients lack these messages, because only brokers send
them. ControlledShutdown v0, which has a request header of its own, is left out.
"""
