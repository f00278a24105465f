"""
Tests on a real ZooKeeper and real brokers, and the harness that runs them as child processes.

Linux only: the kernel ties the children to the process that started them (``leash``), so that not
even a killed test run leaves a JVM behind.
"""
