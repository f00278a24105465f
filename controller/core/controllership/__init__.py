"""The controller role: claim, resignation, choice of engine, duties to partitions and brokers."""
