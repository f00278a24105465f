"""
Generators of the reference documentation: each module prints one file of ``docs/`` or ``deploy/``.

``make reference`` and ``make diagram`` run them; tests compare the files with their output.
"""
