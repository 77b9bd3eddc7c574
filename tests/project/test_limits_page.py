"""The page of limits says what the code does."""

import re
from pathlib import Path

from router.server import GRACE_S, MAX_WAITING_CALLS, NOTICE_S
from tests.cases.test_c42_metrics import MOST_LINES
from tradewind import limits

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
UNITS = {
    "": 1,
    "bytes": 1,
    "KiB": limits.KIB,
    "MiB": limits.MIB,
    "hours": limits.HOUR_MS,
    "days": limits.DAY_MS,
}
ROWS = {
    "payload of a task": limits.MAX_PAYLOAD_BYTES,
    "tasks in one message of SubmitTasks or SubmitTaskStream": limits.MAX_BATCH_SPECS,
    "size of such a message": limits.MAX_BATCH_BYTES,
    "any message": limits.MAX_MESSAGE_BYTES,
    "queue and handler names": limits.MAX_NAME_BYTES,
    "`affinity_key`, `idempotency_key`, `tenant`, `request_id`": limits.MAX_KEY_BYTES,
    "labels": limits.MAX_LABELS,
    "key of a label": limits.MAX_LABEL_KEY_BYTES,
    "value of a label": limits.MAX_LABEL_VALUE_BYTES,
    "delay, or `not_before` from now": limits.MAX_DELAY_MS,
    "`expires_at` after the earliest start": limits.MAX_EXPIRY_MS,
    "`timeout` of one attempt": limits.MAX_TIMEOUT_MS,
    "`max_attempts`": limits.MAX_ATTEMPTS,
    "result": limits.MAX_RESULT_BYTES,
    "error text of an attempt, traceback included": limits.MAX_ERROR_BYTES,
}


def test_the_table_and_the_code_have_the_same_numbers() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) ?(\w*)(?: each)? \|", PAGE, re.MULTILINE)
    told = {what: int(number.replace(",", "")) * UNITS[unit] for what, number, unit in rows}
    assert told == ROWS


def test_the_words_below_it_have_them_too() -> None:
    assert f"{MOST_LINES:,} lines a process" in PAGE
    assert f"{NOTICE_S:g} s, so that" in PAGE
    assert f"the rest of {GRACE_S:g} s" in PAGE
    assert f"up to {MAX_WAITING_CALLS:,} calls in each" in PAGE
