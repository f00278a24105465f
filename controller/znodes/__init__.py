"""
Pure codecs, one module per family of znodes.

Every ``decode_x`` is total: for any bytes it returns the value, or a ``str`` that says what is
wrong (``LegacyPlan`` carries its refusals itself). Every ``encode_x`` writes what Kafka's own
parsers accept. Nothing here knows a client, a clock or a view.
"""
