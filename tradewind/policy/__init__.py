"""Where a task goes, and why. Pure: chance comes as an argument, ages are in the views.

resolve -> filter -> affinity -> score -> choose; the decision object is the explanation
(docs/routing.md).
"""
