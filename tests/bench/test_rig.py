"""What the rows of a Cluster measure on."""

from pathlib import Path
from typing import Any

import redis

from bench.rig.cluster import PRIMARIES, Cluster, fresh_cluster
from bench.rig.services import REGION, site
from tradewind import regions

KEYS = [f"task-{number}" for number in range(60)]


def test_a_new_cluster_holds_what_one_was_kept_with(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with fresh_cluster(tmp_path) as cluster, _client(cluster) as client:
        for key in KEYS:
            client.set(key, key)
        counts = _counts(cluster)
        cluster.save(kept)
    assert len(counts) == PRIMARIES
    assert all(counts)
    with fresh_cluster(tmp_path, snapshot=kept) as cluster, _client(cluster) as client:
        assert _counts(cluster) == counts
        assert [client.get(key) for key in KEYS] == KEYS


def test_its_region_file_names_every_primary(tmp_path: Path) -> None:
    with fresh_cluster(tmp_path) as cluster:
        fleet = regions.load(site(tmp_path, cluster).config)
        places = [server.url.removeprefix("redis://") for server in cluster.servers]
    assert list(fleet.regions[REGION].redis.nodes) == places


def _client(cluster: Cluster) -> Any:
    port = cluster.servers[0].process.port
    return redis.RedisCluster(host="127.0.0.1", port=port, decode_responses=True)


def _counts(cluster: Cluster) -> list[int]:
    return [server.raw.dbsize() for server in cluster.servers]
