"""
What operators do: submit plans, pause, cancel, change limits.

Each action is checked and written here, for commands and for the forms of the status page alike, so
that they cannot decide differently. How a result is shown is up to them.
"""
