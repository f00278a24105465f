"""
Pure checks of a cluster and of the reassigner's own znodes, over one snapshot.

Each check is a small function from a snapshot to findings; ``checks`` runs them all. This room
reads nothing and changes nothing: whatever no record explains is listed, never touched.
"""
