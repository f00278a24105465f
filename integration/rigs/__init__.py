"""The harness of tests on real servers: clusters, daemons, clients, faults, and checks of them."""
