"""
The HTTP server, its pages and forms, and the notifications that leave the daemon.

Reads the snapshots that telemetry publishes and asks the loop about partitions; never reads the
view. Changes nothing but through the control form, which needs a token.
"""
