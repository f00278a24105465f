"""
Mutation testing of the decisions: changes of the code that some test has to notice.

``python -m tests.mutants`` (``make mutants``) draws mutants, judges them and lists the survivors.
"""
