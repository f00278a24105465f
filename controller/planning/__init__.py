"""
Pure rules of placement, lower bounds of copies, and the planner of ``generate``.

``proposer`` plans a few topics at once; ``relief`` and ``byte_budget`` move a few replicas where
disks are full, for ``generate`` and the pipeline; ``volumes`` evens out the log directories of one
broker; ``quotas`` has the shares of brokers.
Nothing here reads a cluster, a clock or a random number: the same input has the same plan.
"""
