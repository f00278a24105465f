"""
The controller's Kafka API, as brokers and clients see it: authenticate, decode, forward, answer.

``codec`` and ``client_codec`` translate between frames and the values of ``core.broker_requests``
and ``core.client_requests``. Nothing here decides: requests become events in the inbox, and the
core returns the responses. What is not the controller's is relayed to a broker.
"""
