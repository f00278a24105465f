"""Topics: reads of them, their settings and ids, and those that clients create."""
