import json
import random
import struct
from itertools import combinations
from pathlib import Path
from subprocess import run
from sys import executable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.canonical_reference import Json, Refused, reference, spell
from tradewind.fingerprint import (
    PayloadNotCanonical,
    canonical_json,
    fingerprint,
    is_json,
    ledger_key_business,
    ledger_key_request,
    payload_digest,
    read_body,
)

JSON = "application/json"
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
# Letters that sort apart as code points and as UTF-16 units, or that need escapes, come up often.
TEXTS = st.text(
    st.sampled_from('aA"\\/\b\n\x00\x1f\x7fé\u2028\ue000\ufb33\uffff😀𐀀')
    | st.characters(codec="utf-8")
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
TOKENS = r"""
    { } [ ] , : "" "a" "b" "\u0061" " \ \u \ud83d \ude00 "\ud83d\ude00" / ' /**/
    true false null tru True NaN Infinity -Infinity nan 0 -0 00 1 - + . .5 1. 1.5 1e5 1E+5
    1e400 -1e400 1e-400 1e-7 1e21 1000000000000000000000 9007199254740993 9007199254740993.0
"""
LONG = ["[" * 40, "]" * 40, "1" * 22, "1" * 4_300, "1" * 4_301]
PIECES = st.sampled_from([*TOKENS.split(), *" \n\t\x0c\x00\xa0\u0661\ue000\ufeff😀", *LONG])


def outcome(payload: bytes) -> bytes | None:
    try:
        return canonical_json(payload)
    except PayloadNotCanonical:
        return None


def expected(payload: bytes) -> bytes | None:
    try:
        return reference(payload)
    except Refused:
        return None


@given(VALUES, st.randoms(use_true_random=False))
def test_every_spelling_of_a_value_is_the_references_one(value: Json, rand: random.Random) -> None:
    one, other = spell(value, rand).encode(), spell(value, rand).encode()
    canonical = canonical_json(one)
    assert canonical == canonical_json(other) == reference(one)
    assert canonical_json(canonical) == canonical


@given(st.lists(PIECES, max_size=12))
def test_any_text_is_read_or_refused_as_by_the_reference(pieces: list[str]) -> None:
    for payload in ("".join(pieces).encode(), f"[{','.join(pieces)}]".encode()):
        assert outcome(payload) == expected(payload)


@given(st.binary(max_size=12), st.sampled_from([b'"%b"', b"[%b]", b'{"%b":1}', b"%b"]))
def test_any_bytes_are_read_or_refused_as_by_the_reference(inner: bytes, around: bytes) -> None:
    payload = around % inner
    assert outcome(payload) == expected(payload)


SAME = {
    "an integer, a fraction of zero, an exponent of zero": ["1", "1.0", "1e0", "10E-1", "0.1e+1"],
    "zero of either sign and zero after underflow": ["0", "-0", "0.0", "-0.0", "0e5", "1e-400"],
    "the last integers that are doubles": ["9007199254740991", "9007199254740991.0"],
    "2**53 spelled both ways": ["9007199254740992", "9007199254740992.0", "9.007199254740992e15"],
    "a large power of ten": ["1e21", "1000000000000000000000", "1E+21", "10e20"],
    "a large number with digits": ["1.5e+22", "15000000000000000000000", "1.50e22"],
    "a whole number past 2**53": ["9007199254740993", "9007199254740993.0", "900719925474099.3e1"],
    "a double that pads its digits": ["67119457142899570", "6.711945714289957e16"],
    "an exponent with zeros in front": ["1e30", "1e" + "0" * 700 + "30"],
    "one double, more digits than it has": ["0.1", "1e-1", "0.1000000000000000055511"],
    "escapes": ['"é/\\n"', '"\\u00e9\\/\\u000a"', '"\\u00E9/\\u000A"'],
    "a pair and its character": ['"😀"', '"\\ud83d\\ude00"', '"\\uD83D\\uDE00"'],
    "key order at all depths": [
        '{"a":{"b":1,"c":[{"d":2,"e":3}]}}',
        ' { "a" : { "c" : [ { "e" : 3 , "d" : 2 } ] , "b" : 1 } } ',
    ],
}
DIFFERENT = {
    "array order": ["[1,2]", "[2,1]"],
    "null and missing": ['{"a":null}', "{}"],
    "null and nothing": ["null", ""],
    "a number and its text": ["1", '"1"'],
    "true and one": ["true", "1", '"true"'],
    "neighbours past 2**53": ["9007199254740992", "9007199254740993", "9007199254740994"],
    "neighbours past 2**53 as fractions": ["9007199254740992.0", "9007199254740993.0"],
    "neighbours past 10**21": ["1000000000000000000000", "1000000000000000000001"],
    "neighbours with 400 digits": ["1" + "0" * 400, "1" + "0" * 399 + "1"],
    "sign": ["1", "-1"],
    "composed and decomposed": ['"\u00e9"', '"e\u0301"'],
    "empty containers": ["{}", "[]", '""', '[""]', "[[]]"],
}


@pytest.mark.parametrize("spellings", SAME.values(), ids=SAME)
def test_the_same_value(spellings: list[str]) -> None:
    assert len({canonical_json(text.encode()) for text in spellings}) == 1


@pytest.mark.parametrize("spellings", DIFFERENT.values(), ids=DIFFERENT)
def test_different_values(spellings: list[str]) -> None:
    assert len({canonical_json(text.encode()) for text in spellings}) == len(spellings)


# RFC 8785 appendix B: IEEE 754 bits and the spelling.
RFC_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "spelled"), RFC_NUMBERS.items())
def test_numbers_of_rfc_8785(bits: str, spelled: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(repr(value).encode()) == spelled.encode()


def test_the_sample_of_rfc_8785() -> None:
    payload = rb"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"""
    assert canonical_json(payload).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_sort_by_utf_16_as_in_rfc_8785() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    payload = json.dumps(dict.fromkeys(keys, 0)).encode()
    assert list(json.loads(canonical_json(payload))) == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]


REFUSED: dict[str, tuple[bytes, str]] = {
    "only white space": (b"  ", "not valid JSON at line 1 column 3"),
    "cut short": (b'{"a":\n', "not valid JSON at line 2 column 1"),
    "two documents": (b"1 2", "not valid JSON"),
    "a raw control character": (b'"\x01"', "not valid JSON"),
    "NaN": (b"[NaN]", "no NaN"),
    "Infinity": (b"[-Infinity]", "no NaN and no Infinity"),
    "a duplicate key": (b'{"a":1,"a":1}', "same key twice"),
    "a duplicate key in two spellings": (b'[{"a":1,"\\u0061":1}]', "same key twice"),
    "a duplicate key beside an odd number": (b'{"a":1e30,"a":1}', "same key twice"),
    "a lone high surrogate": (b'"\\ud83d"', "surrogate"),
    "a lone low surrogate in a key": (b'{"\\ude00":1}', "surrogate"),
    "a pair the wrong way round": (b'["\\ude00\\ud83d",1e30]', "surrogate"),
    "a surrogate in UTF-8": (b'"\xed\xa0\x80"', "UTF-8; byte 1 "),
    "an overlong encoding": (b'"\xc0\xaf"', "UTF-8; byte 1 "),
    "latin-1": ('"é"'.encode("latin-1"), "UTF-8"),
    "UTF-16, which json.loads would take": ("{}".encode("utf-16"), "UTF-8"),
    "UTF-32 without a mark": ("[]".encode("utf-32-be"), "not valid JSON"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "65 levels": (b"[" * 65 + b"]" * 65, "more than 64 levels"),
    "65 levels of both kinds": (b'{"a":[' * 32 + b"{}" + b"]}" * 32, "more than 64 levels"),
    "a million levels": (b"[" * 1_000_000, "more than 64 levels"),
    "a million levels behind a quote in a string": (
        b'["\\"",' + b'{"a":' * 500_000,
        "more than 64 levels",
    ),
    "past the largest double": (b"[1e400]", "range of a double"),
    "far past the largest double": (b"[-1e999999999999]", "range of a double"),
    "an integer of 4,301 digits": (b"1" * 4_301, "longer than 4300"),
    "an integer of a million digits": (b"[" + b"7" * 1_000_000 + b"]", "longer than 4300"),
    "a fraction of a million digits": (b"0." + b"1" * 1_000_000, "longer than 4300"),
}


@pytest.mark.parametrize(("payload", "problem"), REFUSED.values(), ids=REFUSED)
def test_no_canonical_form(payload: bytes, problem: str) -> None:
    with pytest.raises(PayloadNotCanonical) as caught:
        canonical_json(payload)
    assert problem in caught.value.problem
    assert len(caught.value.problem) < 120


READ: dict[str, tuple[bytes, bytes]] = {
    "an empty payload stays empty": (b"", b""),
    "64 levels": (b"[" * 64 + b"]" * 64, b"[" * 64 + b"]" * 64),
    "many containers side by side": (b"[" + b"[]," * 99 + b"{}]", b"[" + b"[]," * 99 + b"{}]"),
    "brackets and quotes inside strings": (
        b'"' + b'[{\\"' * 100 + b'"',
        b'"' + b'[{\\"' * 100 + b'"',
    ),
    "an integer of 4,300 digits": (b"[" + b"7" * 4_300 + b"]", b"[7." + b"7" * 4_299 + b"e+4299]"),
    "a string of digits is no number": (b'"' + b"7" * 5_000 + b'"', b'"' + b"7" * 5_000 + b'"'),
}


@pytest.mark.parametrize(("payload", "canonical"), READ.values(), ids=READ)
def test_a_canonical_form_at_the_edge(payload: bytes, canonical: bytes) -> None:
    assert canonical_json(payload) == canonical


ORDER: Json = {
    "customer": {"id": 9_007_199_254_740_993, "name": "Zoë 😀", "tags": ["b", "a", "c"]},
    "lines": [{"sku": "A/1", "qty": 2, "price": 19.9}, {"sku": 'B"2', "qty": 1e3, "price": 1e-7}],
    "note": None,
    "paid": True,
}


def twenty_spellings() -> list[bytes]:
    rand = random.Random(18)
    return [spell(ORDER, rand).encode() for _ in range(20)]


def of(payload: bytes, **changed: Any) -> bytes:
    parts: dict[str, Any] = {"tenant": "acme", "queue": "default", "name": "email.send"}
    parts |= {"key": None, "content_type": JSON, "payload": payload}
    return fingerprint(**parts | changed)


def test_twenty_spellings_are_one_task_and_a_reordered_array_is_another() -> None:
    spellings = twenty_spellings()
    assert len(set(spellings)) == 20
    assert len({of(payload) for payload in spellings}) == 1
    assert len({payload_digest(payload, JSON) for payload in spellings}) == 1
    reordered = json.loads(json.dumps(ORDER))
    reordered["customer"]["tags"].reverse()
    assert of(json.dumps(reordered).encode()) != of(spellings[0])


ENVIRONMENTS = [
    {"PYTHONHASHSEED": "1", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
    {"PYTHONHASHSEED": "random", "LC_ALL": "POSIX", "PYTHONINTMAXSTRDIGITS": "640"},
]


def test_hash_seed_locale_and_interpreter_settings_change_nothing() -> None:
    payloads = [*twenty_spellings(), b"7" * 4_000]
    script = (
        "import sys; from tradewind.fingerprint import fingerprint\n"
        "for line in sys.stdin:\n"
        "    print(fingerprint(tenant='acme', queue='default', name='email.send', key=None,\n"
        "        payload=bytes.fromhex(line), content_type='application/json').hex())\n"
    )
    lines = "".join(f"{payload.hex()}\n" for payload in payloads)
    for environment in ENVIRONMENTS:
        done = run(
            [executable, "-c", script],
            input=lines,
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
            text=True,
        )
        assert done.stdout.split() == [of(payload).hex() for payload in payloads]


def test_digests_are_those_of_every_release_before() -> None:
    payload = b'{"b": [1.0, "\\u00e9"], "a": null}'
    assert canonical_json(payload) == '{"a":null,"b":[1,"é"]}'.encode()
    assert of(payload).hex() == "09dd9640d801e9f6fa54e88e72f1de2f5b07324884f8b0d1359ecd2e578186e2"
    assert (
        of(payload, key="k-1").hex()
        == "adf1c4fe67d6f25acd171fbb409ca96a6a7cfb04d6b63591c5f3d3e86be35a36"
    )
    assert payload_digest(payload, JSON).hex() == "68b19c882c7ea3f37c4f5212c4555488"
    business = ledger_key_business("acme", "default", "email.send", ("eu",), of(payload))
    assert business.hex() == "8bc7137270df103103e12ac2adb735fc1a480992a38a34eaabb19f07077d4cf8"
    assert (
        ledger_key_request("acme", "r-1").hex()
        == "3edf4873e56563b485664ffaa1a9770c82cbfd20d1073fdf546830b806fb43f7"
    )


CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "another tenant": {"tenant": "acm"},
    "another queue": {"queue": "mail"},
    "another name": {"name": "email.sent"},
    "a letter over from tenant to queue": {"tenant": "acmed", "queue": "efault"},
    "a letter over from queue to name": {"queue": "defaulte", "name": "mail.send"},
    "another payload": {"payload": b'{"a":2}'},
    "raw bytes that look the same": {"content_type": "text/plain"},
    "a key that is the canonical payload": {"key": '{"a":1}'},
    "another key": {"key": "k"},
}


def test_whatever_identifies_a_task_changes_its_fingerprint() -> None:
    found = {why: of(**{"payload": b'{"a":1}', **change}) for why, change in CHANGES.items()}
    same = [pair for pair in combinations(found, 2) if found[pair[0]] == found[pair[1]]]
    assert same == []
    assert {len(digest) for digest in found.values()} == {32}


def test_with_a_key_the_payload_is_not_read() -> None:
    assert of(b"{broken", key="k") == of(b"other", key="k", content_type="text/plain")


def test_an_empty_key_is_refused_since_it_would_join_all_tasks() -> None:
    with pytest.raises(ValueError, match="pass None for no key"):
        of(b"{}", key="")


CONTENT_TYPES = {
    "application/json": True,
    "Application/JSON": True,
    " application/json ; charset=utf-8": True,
    "application/json;": True,
    "application/jsonl": False,
    "application/ld+json": False,
    "text/plain; x=application/json": False,
    "": False,
}


@pytest.mark.parametrize(("content_type", "expected_"), CONTENT_TYPES.items())
def test_is_json(content_type: str, expected_: bool) -> None:
    assert is_json(content_type) is expected_


def test_what_is_not_json_counts_byte_by_byte() -> None:
    assert of(b"{ }", content_type="text/plain") != of(b"{}", content_type="text/plain")
    assert of(b"\xff", content_type="image/png") == of(b"\xff", content_type="text/plain")


def test_a_payload_digest_has_16_bytes_and_ignores_spelling() -> None:
    assert len(payload_digest(b"{}", JSON)) == 16
    assert payload_digest(b'{"a": 1.0}', JSON) == payload_digest(b'{"a":1}', JSON)
    assert payload_digest(b"{}", JSON) != payload_digest(b"{}", "text/plain")
    assert payload_digest(b"", JSON) != payload_digest(b"", "text/plain")
    assert read_body(b" 1 ", JSON).digest() == payload_digest(b"1", JSON)


def test_the_fence_of_a_ledger_key_is_a_set() -> None:
    one = ledger_key_business("t", "q", "n", ("eu", "us"), b"f" * 32)
    assert one == ledger_key_business("t", "q", "n", ("us", "eu", "us"), b"f" * 32)


def test_ledger_keys_never_run_into_each_other() -> None:
    scopes: list[tuple[str, str, str, tuple[str, ...], bytes]] = [
        ("t", "q", "n", (), b"f"),
        ("tq", "", "n", (), b"f"),
        ("t", "qn", "", (), b"f"),
        ("t", "q", "n", ("",), b"f"),
        ("t", "q", "n", ("f",), b""),
        ("t", "q", "n", ("eu", "us"), b"f"),
        ("t", "q", "n", ("euus",), b"f"),
        ("t", "q", "n", ("eu",), b"usf"),
    ]
    keys = [ledger_key_business(*scope) for scope in scopes]
    keys += [ledger_key_request("t", "qn"), ledger_key_request("tq", "n")]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}
