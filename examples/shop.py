"""A shop's background work: deliver signed webhooks, make thumbnails of uploaded pictures.

    tradewind up --app ./examples/shop.py:app

Webhooks are signed as standardwebhooks.com describes: HMAC-SHA256 over id, time and body. The id
is the task's, so that a receiver can tell a repeated delivery from a second event.
"""

import base64
import hashlib
import hmac
import io
import json
import os
import urllib.error
import urllib.request
from typing import Any

from PIL import Image

from tradewind import App, Context, Reject
from tradewind.clock import SystemClock

app = App()

SECRET_VARIABLE = "SHOP_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable, not a secret
THUMBNAIL_PX = 96

_TIMEOUT_S = 5.0
_GONE = 410


@app.task("webhook.deliver", timeout=10)
def deliver(ctx: Context, url: str, event: dict[str, Any]) -> dict[str, Any]:
    """POST an event to a customer's endpoint, signed. A plain function: it runs in a thread."""
    body = json.dumps(event, separators=(",", ":")).encode()
    status = _send("POST", url, body, "application/json", ctx)
    return {"status": status, "region": ctx.region}


@app.task("image.thumbnail", timeout=20)
def thumbnail(ctx: Context, picture: bytes) -> bytes:
    """Shrink a picture and store it where the label `store-at` says. PNG in, PNG out."""
    try:
        image = Image.open(io.BytesIO(picture))
        image.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
    except OSError as error:
        raise Reject(f"not a picture: {error}") from None  # no region will read it better
    out = io.BytesIO()
    image.save(out, "PNG")
    _send("PUT", ctx.labels["store-at"], out.getvalue(), "image/png", ctx)
    return out.getvalue()


def sign(secret: str, message_id: str, timestamp_s: int, body: bytes) -> str:
    """Sign a message: `v1,` and the base64 of its HMAC-SHA256."""
    content = f"{message_id}.{timestamp_s}.".encode() + body
    mac = hmac.new(secret.encode(), content, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(mac).decode()}"


def _send(method: str, url: str, body: bytes, content_type: str, ctx: Context) -> int:
    if not url.startswith(("http://", "https://")):
        raise Reject(f"{url!r} is no http address")
    timestamp_s = SystemClock().now_ms() // 1_000
    secret = os.environ.get(SECRET_VARIABLE, "")
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url,
        data=body,
        method=method,
        headers={
            "Content-Type": content_type,
            "Webhook-Id": ctx.task_id,
            "Webhook-Timestamp": str(timestamp_s),
            "Webhook-Signature": sign(secret, ctx.task_id, timestamp_s, body),
            "X-Sent-From": ctx.region,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        if error.code == _GONE:
            raise Reject("the endpoint is gone for good") from None
        raise RuntimeError(f"the endpoint answered {error.code} {error.reason}") from None
