"""Numbers that hold everywhere, each with its unit and where it comes from.

What a user may set is in regions.yaml; these are the bounds behind it. Relations between
numbers are code here, so that changing one cannot silently break another.
"""

KIB = 1024
MIB = 1024 * KIB
SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# --- what a caller may send (docs/limits.md)
MAX_PAYLOAD_BYTES = 1 * MIB
MAX_MESSAGE_BYTES = 8 * MIB  # above the sum of our own limits, so that ours answer
MAX_BATCH_SPECS = 1_000
MAX_BATCH_BYTES = 4 * MIB
MAX_NAME_BYTES = 200  # queue, handler name
MAX_KEY_BYTES = 4 * KIB  # affinity_key, idempotency_key, tenant, request_id: hashed before use
MAX_LABELS = 64
MAX_LABEL_KEY_BYTES = 200
MAX_LABEL_VALUE_BYTES = 1 * KIB
MAX_RESIDENCY_GROUPS = 32
MAX_CONTENT_TYPE_BYTES = 200
MAX_DELAY_MS = 30 * DAY_MS  # Cloud Tasks allows the same
MAX_EXPIRY_MS = 30 * DAY_MS  # from the earliest start; a forgotten task is not kept for ever
MAX_TIMEOUT_MS = 12 * HOUR_MS  # the longest visibility time-out that SQS allows
MAX_ATTEMPTS = 10_000
MAX_RESULT_BYTES = 256 * KIB
MAX_ERROR_BYTES = 16 * KIB  # stored error text is cut to this, traceback included
MAX_PAGE_SIZE = 1_000

# --- clocks of the protocol
NOT_AFTER_MS = 30 * SECOND_MS  # a copy may be created at most this long after it was meant
RESERVATION_LEASE_MS = 10 * SECOND_MS  # before: a repeat is ABORTED; after: it adopts
REQUEST_ID_WINDOW_MS = 15 * MINUTE_MS  # the SDK never retries longer
TOMBSTONE_MS = 10 * MINUTE_MS  # far above NOT_AFTER_MS, which ends every late writer
IMPORT_MEMORY_MS = 10 * MINUTE_MS  # after settle_import
UNSETTLED_IMPORT_MS = 1 * HOUR_MS  # then the target asks the source
EVACUATED_MS = 7 * DAY_MS  # what an evacuation has done can be read; own choice
MOVE_AGAIN_MS = 10 * MINUTE_MS  # between two moves of a waiting task: no tug of war
#: A dead letter that is to leave waits for so long until on_dead has heard of it, where nothing has
#: failed: whoever has word of it in hand, for 35 s by default (worker.herald), tells of it once.
TELL_FIRST_MS = 1 * MINUTE_MS

# --- work per call (invariant 9)
MAX_CLAIM = 128  # tasks a claim, and stale tickets dropped by one
MAX_PROMOTE = 64  # due tasks of each priority made ready by one sweep; a claim: MAX_CLAIM
MAX_EXPIRE = 64  # waiting tasks past their expiry that one sweep ends
MAX_REAP = 64  # expired leases taken back by one call
MAX_FLUSH = 256  # submits of one group flush
FLUSH_WAIT_MS = 1.0  # a submit waits for company; none when idle
FLUSH_LONGEST_MS = 5.0  # ... at a busy router, where more keeps coming within FLUSH_WAIT_MS

# --- upkeep
SWEEP_EVERY_MS = 10 * SECOND_MS
SWEEP_AFTER_LOSS_MS = 1 * SECOND_MS  # in the minute after a worker or connection was lost
HEARTBEAT_EVERY_MS = 1 * SECOND_MS
SETTLE_MS = 2 * HEARTBEAT_EVERY_MS  # within this, workers obey orders
WORKER_GONE_MS = 10 * SECOND_MS  # no heartbeat for this long: the worker is gone
MAX_TIMINGS = 32  # handler names of which a heartbeat tells how long they take: some 1.5 KiB
COURIER_LEASE_MS = 5 * SWEEP_AFTER_LOSS_MS  # a courier with work renews every SWEEP_AFTER_LOSS_MS
RECONCILE_EVERY_MS = 1 * HOUR_MS  # a full pass over a node's keys, unless it holds too many
RECONCILE_KEYS_PER_S = 200  # of one node, at most
RECONCILE_BATCH = 32  # tasks compared with their indexes by one call
RECONCILE_LOOK = 4_096  # tickets read by one call; a backlog of 100,000 has 1,563 a partition
RECOUNT_MOST = 2_048  # entries of a partition that is counted whole: some 5 ms of its node
RENEWALS_PER_LEASE = 6  # six chances a lease: every 5 s for one of 30 s, as asynq

# --- what a deployment is made of
SUPPORTED_PARTITIONS = (16, 64, 128, 256)  # those that store.tags has a table for
