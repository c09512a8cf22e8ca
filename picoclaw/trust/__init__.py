"""Who may do what: the rules that stand between a model and the world, and the owner's own.

What is asked about is kept by store/approvals.py; tools/guard.py decides, and tools/approving.py takes the answers.
"""
