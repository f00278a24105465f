"""
Every interleaving of a small cluster, explored: the production core and reactor, not a model.

``search`` enumerates what may happen next in each state of a ``system``: the real loop on abstract
brokers and a small ZooKeeper. States are compared in a canonical form (``canonical``), the laws
(``laws``) are checked in each, and the shortest history to a violation is printed as a scenario.
"""
