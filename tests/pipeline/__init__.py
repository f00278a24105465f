"""Plans of whole clusters: the rules without Spark, and a few small runs with it."""
