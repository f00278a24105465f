"""The tests: one room per room of ``controller``, and ``sim``, the simulated cluster."""
