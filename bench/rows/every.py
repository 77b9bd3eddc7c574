"""All rows, in the order they are measured and printed."""

from bench.rows.cluster import CLUSTER
from bench.rows.drain import DRAIN
from bench.rows.growth import GROWTH, REGIONS
from bench.rows.memory import MEMORY
from bench.rows.model import Row
from bench.rows.rest import IDLE, LIFETIME
from bench.rows.scale import ROUTERS, WORKERS
from bench.rows.start import START
from bench.rows.submits import BULK, CLIENT, UNARY

ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        DRAIN,
        BULK,
        CLIENT,
        UNARY,
        START,
        MEMORY,
        GROWTH,
        REGIONS,
        CLUSTER,
        WORKERS,
        ROUTERS,
        IDLE,
        LIFETIME,
    )
}
