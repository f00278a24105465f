"""
Plans of whole clusters on Spark: snapshot, plan, waves, and what really happened afterwards.

The only room that imports pyspark (extra ``pipeline``). The rows of partitions and replicas stay in
DataFrames; the driver holds what there is per broker, and per topic and broker. Rules that need no
Spark are in ``ledgers``, ``samples``, ``residues``, ``placings`` and ``leaderships`` here, and in
``controller.planning``.
"""
