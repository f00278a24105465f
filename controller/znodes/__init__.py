"""
Pure codecs, one module per znode family: bytes and stat in, a typed value or a typed refusal out.

Every ``decode_x`` is total: whatever the bytes are, it returns either the value or a ``str`` that
says in words what is wrong (``LegacyPlan`` carries its refusals itself). Every ``encode_x`` writes
what Kafka's own parsers accept. Nothing here knows a client, a clock or a view.
"""
