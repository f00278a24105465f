"""
Pure rules of placement, lower bounds of copies, and the planner of ``generate``.

Every planner shares ``placement`` and ``lower_bounds``; ``proposer`` plans a few topics at once;
``volumes`` evens out the log directories of one broker.
Nothing here reads a cluster, a clock or a random number: the same input has the same plan.
"""
