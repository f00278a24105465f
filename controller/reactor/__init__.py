"""
The loop that owns all state, and the ports that adapters implement for it.

The room imports no adapter: ``daemon`` builds the adapters and passes them in.
"""
