"""
The only room that imports kazoo.

For the daemon, ``sessions`` keeps the connection, ``claims`` the controller role, and
``daemon_election`` the leadership of the daemons; ``store`` is the facade that the loop calls.
kazoo's own threads (connection, watches, completions) only put work on a queue or an event into the
inbox: every read and write runs on a thread of this room. For commands, ``operator_client`` is the
facade.

``*_znodes`` read families of znodes, for both, through the interface of ``readers``.
"""
