"""
Pure decisions: what to write and send, as functions of what is known, what changed and the time.

Nothing here has a clock, a socket, a thread, a random number or a logger. ``observe`` folds facts
into the view, ``decide`` answers with a decision, ``apply`` folds what became durable.
"""
