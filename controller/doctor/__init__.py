"""
What is wrong with a cluster and with our own znodes: pure checks over one snapshot.

Each check is a small function from a snapshot to findings; ``examinations`` runs them all. This
room reads nothing and changes nothing: what no record of ours proves is listed, never touched.
"""
