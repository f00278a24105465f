"""
Plans before their submission: files, entries, proposals, validation and forecasts.

Shared by the commands and by the forms of the status page, so that they cannot disagree.
"""
