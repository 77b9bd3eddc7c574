"""What the demo submits: a thousand tasks of a shop with customers on three continents."""

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from PIL import Image, ImageDraw

from tradewind import TaskOptions, TaskRequest

TOTAL = 1_000
REPEATS = 60
PERSONAL = 120  # webhooks with Europeans' personal data: they may not leave the EU
PICTURES = 90
REPEAT_DISTANCE = 120  # a repeat comes at least so many submits after its first

# Origins' shares of the traffic; Europe sells most.
ORIGINS = {"us-east": 0.4, "eu-west": 0.4, "ap-south": 0.2}

_CUSTOMERS = 60
_PICTURE_PX = (480, 320)


class Kind(StrEnum):
    """What a submit is there to show."""

    WEBHOOK = "webhook"
    PERSONAL = "personal"  # a webhook with personal data of Europeans
    PICTURE = "picture"
    REPEAT = "repeat"  # the same idempotency key once more
    KEPT = "kept"  # personal data, for a customer whose endpoint is down


FENCED = frozenset({Kind.PERSONAL, Kind.KEPT})


@dataclass(frozen=True, slots=True)
class Order:
    """One submit. `repeats` is the index of the submit whose idempotency key it uses again."""

    index: int
    origin: str
    kind: Kind
    request: TaskRequest
    repeats: int | None = None


def orders(sink_url: str, seed: int = 7) -> list[Order]:
    """Give all submits in order: the same for the same seed."""
    chance = random.Random(seed)
    kinds = list(_kinds(chance))
    made: list[Order] = []
    with_key: list[int] = []
    for index, kind in enumerate(kinds):
        origin = chance.choices(list(ORIGINS), list(ORIGINS.values()))[0]
        if kind is Kind.REPEAT:
            first = made[
                chance.choice([each for each in with_key if each <= index - REPEAT_DISTANCE])
            ]
            made.append(Order(index, origin, kind, first.request, first.index))
            continue
        request = _request(index, kind, sink_url, chance)
        if "idempotency_key" in request.options:
            with_key.append(index)
        made.append(Order(index, origin, kind, request))
    return made


def _kinds(chance: random.Random) -> Iterator[Kind]:
    plain = TOTAL - REPEATS - PERSONAL - PICTURES - 1
    counts: dict[Kind, int] = {Kind.WEBHOOK: plain, Kind.PERSONAL: PERSONAL, Kind.PICTURE: PICTURES}
    rest = [kind for kind, count in counts.items() for _ in range(count)]
    chance.shuffle(rest)
    early, late = rest[: 2 * REPEAT_DISTANCE], rest[2 * REPEAT_DISTANCE :]
    # Repeats come once there is something to repeat; one task is for a customer who is down.
    later = [*late, *(Kind.REPEAT for _ in range(REPEATS)), Kind.KEPT]
    chance.shuffle(later)
    yield from early
    yield from later


def _request(index: int, kind: Kind, sink_url: str, chance: random.Random) -> TaskRequest:
    if kind is Kind.PICTURE:
        # The store's address travels as a label: the payload is the picture itself.
        labels = {"store-at": f"{sink_url}/thumbnails/{index}"}
        options: TaskOptions = {"content_type": "image/png", "labels": labels, "priority": "low"}
        return TaskRequest("image.thumbnail", picture(index), options)
    customer = chance.randrange(_CUSTOMERS)
    path = "down" if kind is Kind.KEPT else "hooks"
    args = {
        "url": f"{sink_url}/{path}/{index}",
        "event": {"type": "order.paid", "order": index, "customer": customer},
    }
    options = {}
    if kind in FENCED:
        options["labels"] = {"data-class": "pii-eu"}
    elif index % 3 == 0:
        options["affinity_key"] = f"customer-{customer}"
    elif index % 3 == 1:
        options["idempotency_key"] = f"order-{index}-paid"
    if index % 10 == 0:
        options["priority"] = "high"
    return TaskRequest("webhook.deliver", args, options)


def picture(index: int) -> bytes:
    """Paint a picture and give it as PNG."""
    image = Image.new("RGB", _PICTURE_PX, (index % 200, 80, 200 - index % 200))
    draw = ImageDraw.Draw(image)
    for ring in range(8):
        inset = 10 + ring * 16
        box = (inset, inset, _PICTURE_PX[0] - inset, _PICTURE_PX[1] - inset)
        draw.ellipse(box, outline=(255, 255 - ring * 25, ring * 30), width=4)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
