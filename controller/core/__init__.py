"""
Pure decisions: what to write and what to send, from what is known, what changed and the time.

Nothing here has a clock, a socket, a thread, a random number or a logger. ``observe`` folds facts
into the view, ``decide`` returns a decision, ``apply`` folds in what became durable.
"""
