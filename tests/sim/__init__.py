"""
A simulated cluster in one thread: ZooKeeper, brokers, producers, Kafka's controller, faults.

Everything happens on one event queue with a virtual clock and one seeded ``random.Random``; the
same seed gives the same history. The daemon's real loop and core run on it unchanged.
"""
