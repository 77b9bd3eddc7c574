import json

import pytest

from tradewind.cli.text import clean, json_safe, one_line

CLEANED = {
    "plain text stays": ("Grüße, 東京 [red] {x}", "Grüße, 東京 [red] {x}"),
    "newlines stay, of whatever kind": ("a\r\nb\nc", "a\nb\nc"),
    "a tab becomes blanks": ("a\tb", "a    b"),
    "ESC and BEL are shown": ("\x1b[31m\x07", "␛[31m␇"),
    "a lone carriage return cannot overwrite": ("good\rbad", "good␍bad"),
    "DEL is shown": ("\x7f", "␡"),
    "C1 is as good as ESC": ("\x9b31m", "\ufffd31m"),
    "text cannot turn around": ("a\u202eb\u2066c", "a\ufffdb\ufffdc"),
    "a lone surrogate can be printed": ("\ud800", "\ufffd"),
}


@pytest.mark.parametrize(("text", "shown"), list(CLEANED.values()), ids=list(CLEANED))
def test_text_for_a_terminal(text: str, shown: str) -> None:
    assert clean(text) == shown
    assert "\n" not in one_line(text)


@pytest.mark.parametrize("text", [text for text, _ in CLEANED.values()], ids=list(CLEANED))
def test_json_keeps_every_value_and_holds_no_control_character(text: str) -> None:
    document = json.dumps({"x": text}, ensure_ascii=False, indent=2)
    safe = json_safe(document)
    assert json.loads(safe) == {"x": text}
    assert clean(safe) == safe
