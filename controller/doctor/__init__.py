"""
Pure checks of a cluster and of our own znodes, over one snapshot.

Each check is a small function from a snapshot to findings; ``checks`` runs them all. This room
reads nothing and changes nothing: what no record of ours explains is listed, never touched.
"""
