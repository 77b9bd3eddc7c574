"""Every number of routing that regions.yaml does not set: its unit and its source.

What the file sets (bands, weights, limits, health) has its defaults in `tradewind.fleet`. Each line
above a number is "unit; what it says; source"; docs/routing.md shows them. "Own choice" is a number
that no source gives; the simulator (bench/sim) was its judge.
"""

from typing import Final

from tradewind.limits import SECOND_MS

# --- what is known of a region (scores)

#: seconds; an attempt, until one has been measured; own choice
SERVICE_S: Final = 1.0
#: ms; a round trip before any measurement; own choice, between continents (Linkerd: 30, for a LAN)
UNSEEN_RTT_MS: Final = 100.0
#: ms; the same, to the origin itself or to the router's own region; own choice
HOME_RTT_MS: Final = 1.0
#: tasks/s; of a region that nothing is known of: not free, and not out of reach; own choice
UNKNOWN_RATE: Final = 1.0
#: tasks/s; keeps a wait finite; own choice
MIN_RATE: Final = 0.001
#: share; of good calls, below which a region is judged by its health instead; own choice
MIN_OK: Final = 0.05
#: times; the score of a degraded region, or of one whose report is old; own choice
DEGRADED_FACTOR: Final = 1.5
#: share; where a slow start begins; Envoy slow_start min_weight_percent, gRPC A100
MIN_RAMP: Final = 0.1
#: ms; age of a report at which a region is unknown; three times health.stale_after's default
UNKNOWN_AFTER_MS: Final = 30 * SECOND_MS

# --- where a task goes (choose)

#: times the average by weight; where an affinity key walks on; Envoy hash_balance_factor 120 to 200
BOUNDED_LOAD: Final = 1.25
#: seconds; temperature of the softmin over fresh reports; own choice
MIN_TEMPERATURE_S: Final = 0.1
#: seconds per second; temperature by the age of the best region's report; own choice
TEMPERATURE_PER_AGE: Final = 0.3
#: share; temperature by the best region's wait over SPILL_PATIENCE_S: all are long; simulator
TEMPERATURE_PER_WAIT: Final = 0.3
#: share; of the band, within which tasks return home: two thresholds, so no swinging; own choice
RETURN_BAND: Final = 0.5
#: ms; round trips that differ by less differ by noise: one host, one metro area; own choice
EQUALLY_NEAR_MS: Final = 5.0

# --- how fast it may change, and how many may leave (router.pace)

#: seconds; how long tasks that returned stay more readily, and a share abroad is usual; own choice
DWELL_S: Final = 10.0
#: seconds; so much longer than elsewhere they wait, to stay; simulator, docs/decisions/0013
SETTLED_PATIENCE_S: Final = 0.12
#: share/s; how fast a router's share to one region abroad may rise over what is usual; own choice
SLEW_PER_S: Final = 0.1
#: seconds; tasks leave at once where they wait so much longer than elsewhere; simulator
SLEW_PATIENCE_S: Final = 0.25
#: seconds; over which guests are counted against limits.max_spill_in; as DWELL_S
SPILL_WINDOW_S: Final = 10.0
#: seconds; guests that would wait so much longer at home go all the same; own choice
SPILL_PATIENCE_S: Final = 5.0
#: seconds; a region takes no guests for as long as it was out, so long at most; simulator
GUESTS_AFTER_S: Final = 300.0
#: seconds; that guests may wait in a region that has just come back; as SLEW_PATIENCE_S
FILL_S: Final = 0.25
#: seconds per second; by how much that grows from then on; simulator
FILL: Final = 0.02
#: ms; two trial tasks of one router to one half-open region are so far apart at least; own choice
TRIAL_EVERY_MS: Final = 50.0

# --- panic, in decide

#: share; of the live slots of all permitted regions, below which it is panic; Envoy panic 50 %
PANIC_BELOW: Final = 0.5
#: share; of the same, from which panic ends; own choice, a dead band
PANIC_UNTIL: Final = 0.6
#: seconds; for which that has to hold; own choice
PANIC_CALM_S: Final = 30.0
#: ms; the earliest that a caller may ask again whom panic.mode: reject turned away; own choice
REJECT_RETRY_MIN_MS: Final = 1 * SECOND_MS
#: ms; the latest, so that they do not all come back at once; own choice
REJECT_RETRY_MAX_MS: Final = 5 * SECOND_MS

# --- moves, in relocate

#: share; of limits.max_wait, which a moved task must not be what fills; own choice
MOVE_WAIT_SHARE: Final = 0.5

# --- looks, in router.route

#: ms; how long the regions as seen once decide, while nothing is heard of any; own choice
LOOK_MS: Final = 5.0
#: tasks; how many that are alike one look decides: few beside what others send; own choice
LOOK_TASKS: Final = 64
#: tasks; that it decides at least, also where home takes fewer within the band; own choice
LEAST_TASKS: Final = 4
#: entries; of what a router remembers by kind of task; far above what a file gives rise to
MAX_MEMORY: Final = 1_024
