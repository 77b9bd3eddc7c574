"""Throw-away Redis, for tests and benchmarks: started, ready, and gone afterwards.

A server, a Cluster of some with or without replicas, a master that Sentinels watch.
"""

from tradewind.local.scratch.cluster import SLOTS, cluster_nodes, cluster_processes, settle
from tradewind.local.scratch.roles import fail_over, is_primary
from tradewind.local.scratch.sentinel import SentinelProcess, Watched, watched_servers
from tradewind.local.scratch.server import RedisProcess, redis_process, running_redis

__all__ = [
    "SLOTS",
    "RedisProcess",
    "SentinelProcess",
    "Watched",
    "cluster_nodes",
    "cluster_processes",
    "fail_over",
    "is_primary",
    "redis_process",
    "running_redis",
    "settle",
    "watched_servers",
]
