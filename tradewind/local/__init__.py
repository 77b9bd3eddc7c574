"""Embedded regions: what `tradewind up` runs on one machine, for development, demos and tests.

Real redis-servers, routers and worker pools as child processes. None of them outlives its parent.
"""
