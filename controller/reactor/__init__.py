"""
The one loop that owns all state, and the ports through which it meets the outside.

No adapter is imported here: ``daemon`` builds them and hands them in.
"""
