"""One partition's reassignment: KAFKA-6794 by either engine, with its gates and orphans."""
