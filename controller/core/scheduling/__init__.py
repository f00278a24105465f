"""How much may be under way at once: limits, pauses, hours, the health of the cluster, sizes."""
