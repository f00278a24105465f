"""Topic deletions: those that are requested, carried out or left to a broker."""
