"""
The only room that knows kazoo.

``sessions`` keeps the connection, ``claims`` the controller role, ``leadership`` the role among our
daemons; ``stores`` is what the loop sees of all that. kazoo's own threads (connection, watches,
completions) only ever put work on a queue or an event into the inbox: every read and write runs on
a thread of ours.
"""
