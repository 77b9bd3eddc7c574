"""Canonical JSON the slow way, straight from the grammar of RFC 8259 and the text of RFC 8785."""

from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
MAX_DEPTH, MAX_NUMBER_CHARS = 64, 4_300
SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
SPELLED = {char: f"\\{name}" for name, char in SHORT.items() if name != "/"}


class Refused(Exception):
    pass


def refuse(unless: object) -> None:
    if not unless:
        raise Refused


class Reader:
    """One character at a time; `depth` containers are open."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, expected: str) -> None:
        refuse(self.text.startswith(expected, self.at))
        self.at += len(expected)

    def space(self) -> None:
        while self.peek() and self.peek() in " \t\r\n":
            self.at += 1

    def document(self) -> str:
        spelled = self.value()
        refuse(self.peek() == "")
        return spelled

    def value(self) -> str:
        self.space()
        if self.peek() == "{":
            spelled = self.object()
        elif self.peek() == "[":
            spelled = self.array()
        elif self.peek() == '"':
            spelled = spell_string(self.string())
        elif self.peek() and self.peek() in "-0123456789":
            spelled = self.number()
        else:
            spelled = {"t": "true", "f": "false", "n": "null"}.get(self.peek(), "")
            refuse(spelled)
            self.take(spelled)
        self.space()
        return spelled

    def object(self) -> str:
        self.open("{")
        members: dict[str, str] = {}
        while self.peek() != "}":
            if members:
                self.take(",")
                self.space()
            key = self.string()
            refuse(key not in members)
            self.space()
            self.take(":")
            members[key] = self.value()
        self.close("}")
        ordered = sorted(members, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(spell_string(key) + ":" + members[key] for key in ordered) + "}"

    def array(self) -> str:
        self.open("[")
        items: list[str] = []
        while self.peek() != "]":
            if items:
                self.take(",")
            items.append(self.value())
        self.close("]")
        return "[" + ",".join(items) + "]"

    def open(self, bracket: str) -> None:
        self.take(bracket)
        self.depth += 1
        refuse(self.depth <= MAX_DEPTH)
        self.space()

    def close(self, bracket: str) -> None:
        self.take(bracket)
        self.depth -= 1

    def string(self) -> str:
        self.take('"')
        units = b""
        while self.peek() != '"':
            refuse(self.peek() >= " ")
            if self.peek() != "\\":
                units += self.peek().encode("utf-16-be")
                self.at += 1
                continue
            self.at += 1
            if self.peek() == "u":
                digits = self.text[self.at + 1 : self.at + 5]
                refuse(len(digits) == 4 and set(digits) <= set("0123456789abcdefABCDEF"))
                units += bytes.fromhex(digits)
                self.at += 5
            else:
                refuse(self.peek() in SHORT)
                units += SHORT[self.peek()].encode("utf-16-be")
                self.at += 1
        self.take('"')
        try:
            return units.decode("utf-16-be")
        except UnicodeDecodeError:  # half of a pair
            raise Refused from None

    def digits(self) -> None:
        refuse(self.peek() and self.peek() in "0123456789")
        while self.peek() and self.peek() in "0123456789":
            self.at += 1

    def number(self) -> str:
        start, integer = self.at, True
        if self.peek() == "-":
            self.at += 1
        if self.peek() == "0":
            self.at += 1
        else:
            self.digits()
        if self.peek() == ".":
            integer = False
            self.at += 1
            self.digits()
        if self.peek() in ("e", "E"):
            integer = False
            self.at += 1
            if self.peek() in ("+", "-"):
                self.at += 1
            self.digits()
        token = self.text[start : self.at]
        refuse(len(token) <= MAX_NUMBER_CHARS)
        if integer:
            return spell_number(Decimal(token))
        value = float(token)
        refuse(value not in (float("inf"), float("-inf")))
        if value == 0:
            return "0"
        written = Fraction(token)
        return spell_number(Decimal(token if written.denominator == 1 else repr(value)))


def spell_number(number: Decimal) -> str:
    """ECMA-262 Number::toString, in its own letters: digits s, their count k, magnitude n."""
    if number == 0:
        return "0"
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    s = "".join(map(str, digits)).lstrip("0")
    n = len(s) + exponent
    s = s.rstrip("0")
    k = len(s)
    if k <= n <= 21:
        spelled = s + "0" * (n - k)
    elif 0 < n <= 21:
        spelled = s[:n] + "." + s[n:]
    elif -6 < n <= 0:
        spelled = "0." + "0" * -n + s
    else:
        mark = "+" if n - 1 > 0 else "-"
        spelled = s[0] + ("." + s[1:] if k > 1 else "") + "e" + mark + str(abs(n - 1))
    return "-" + spelled if sign else spelled


def spell_string(text: str) -> str:
    spelled = [SPELLED.get(c) or (c if c >= " " else f"\\u{ord(c):04x}") for c in text]
    return '"' + "".join(spelled) + '"'


def reference(payload: bytes) -> bytes:
    """What `canonical_json` must answer. Raises Refused where that must refuse."""
    if payload == b"":
        return b""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused from None
    return Reader(text).document().encode()


def spell(value: Json, random: Random) -> str:
    """One of the many JSON spellings of a value, drawn from `random`."""
    gap = random.choice(["", "", " ", "\n", "\t ", "\r\n"])
    match value:
        case str():
            body = '"' + "".join(random.choice(char_spellings(c)) for c in value) + '"'
        case list():
            body = "[" + ",".join(spell(item, random) for item in value) + gap + "]"
        case dict():
            keys = random.sample(list(value), len(value))
            spelled = [f"{spell(key, random)}:{spell(value[key], random)}" for key in keys]
            body = "{" + ",".join(spelled) + gap + "}"
        case None:
            body = "null"
        case bool():
            body = "true" if value else "false"
        case _:
            body = random.choice(number_spellings(value))
    return gap + body + gap


def number_spellings(value: float) -> list[str]:
    if value == 0:
        return ["0", "-0", "0.0", "-0.00", "0e9", "-0E-9", "1e-400"]
    if isinstance(value, float):
        found = [repr(value), repr(value).replace("e", "E")]
        if abs(value) < 2**53:  # above, more digits are another whole number
            found += [f"{value:.17e}", f"{value:.40E}"]
        return found
    return [f"{value}", f"{value}.0", f"{value}e0", f"{value}0E-1", f"{value}.000e+00"]


def char_spellings(char: str) -> list[str]:
    units = char.encode("utf-16-be").hex()
    escaped = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
    found = [escaped, escaped.upper().replace("U", "u")]
    if char in SPELLED:
        found.append(SPELLED[char])
    elif char >= " ":
        found.append(char)
    if char == "/":
        found.append("\\/")
    return found
