"""
Tests on a real ZooKeeper and real brokers; ``rigs`` is the harness that runs these as processes.

Programs: ``chaos``, ``demo``, ``playground`` and ``shown_moves``. Linux only: the kernel kills the
children of a test run that is killed (``rigs.die_with_parent``), so that no JVM is left behind.
"""
