"""Text that others wrote, made fit for a terminal. Imports nothing: errors are shown by it, too."""

import re
from collections.abc import Mapping

# What a terminal would obey or a reader could be fooled by: C0 but newline, DEL and C1, lone
# surrogates (which cannot be encoded either), and the marks that change the direction of text.
_CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_PICTURES = 0x2400  # Unicode's pictures of C0: ESC is shown as U+241B
_DEL = "\x7f"


def clean(text: str) -> str:
    """Give `text` with control characters replaced by what shows them; newlines stay."""
    return _CONTROL.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Give `text` clean, and on one line."""
    return " ".join(clean(text).split("\n"))


def json_safe(document: str) -> str:
    """Give a JSON document with its control characters escaped: the same values, harmless."""
    # Outside of strings JSON has but blanks and newlines, so every other match stands in one.
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    if char == "\t":
        return "    "
    if char == _DEL:
        return "\u2421"
    return chr(_PICTURES + ord(char)) if char < " " else "\ufffd"


def with_detail(reason: str, details: Mapping[str, str]) -> str:
    """Give a reason, and what more is known of it."""
    said = details.get(reason)
    return f"{reason} ({said})" if said else reason
