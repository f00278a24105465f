"""Log directories: their space, the copies that reserve it, and the replicas placed in them."""
