"""
Kafka's own client libraries, as readers and writers of frames.

A broker stops on an answer that it cannot decode, so what is sent to brokers goes through the
decoders of their releases first.
"""
