"""
The controller's Kafka API, as brokers see it: authenticate, decode, forward, answer.

``codec`` translates between frames and the values of ``core.broker_requests``. Nothing here
decides: requests become events in the inbox, and the core returns the responses.
"""
