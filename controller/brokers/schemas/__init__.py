"""
Message definitions of the requests that public clients lack, one file per direction.

Only a controller sends LeaderAndIsr, StopReplica and UpdateMetadata; only brokers send it
ControlledShutdown, AlterPartition and AllocateProducerIds. The field layout is a fact of Kafka's
wire protocol, up to Kafka 3.9. A field is called otherwise than in Kafka where the message classes
reserve the name (``type``). ControlledShutdown v0, with a request header of its own, is left out.
"""
