"""Being the controller: claim, release, choice of engine, duties to partitions and brokers."""
