"""
Plans of whole clusters on Spark: snapshot, plan, waves, and the report of what was carried out.

The only room that imports pyspark (extra ``pipeline``). The rows of partitions and replicas stay in
DataFrames; the driver holds values by broker, and by topic and broker. Rules that need no Spark are
in ``placement_ledger``, ``moves``, ``leadership``
and ``waves``, and in ``controller.planning``.
"""
