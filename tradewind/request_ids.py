"""Request ids that name a group: those of submits that come together begin alike. Pure.

`GROUP.NUMBER`: 32 hexadecimal digits, drawn at random, a dot, and one to four digits, as the SDK
mints them. The group says in which partition a router stores the task, and the entry that a repeat
is to find: so one script call stores what travelled in one message. Callers may mint ids of this
form, or of any other; all tasks of one group lie in one partition, so groups should be small.
"""

import re
from typing import Final

_FORM: Final = re.compile(r"[0-9a-f]{32}\.[0-9]{1,4}")
_GROUP_CHARS: Final = 32


def group_of(request_id: str) -> str:
    """Return the group that a request id names; empty if it is of another form."""
    return request_id[:_GROUP_CHARS] if _FORM.fullmatch(request_id) else ""
