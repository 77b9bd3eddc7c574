"""What a fresh deployment runs until it is given an app of its own: replace this file."""

from tradewind import App, Context

app = App()


@app.task("hello")
async def hello(ctx: Context, name: str = "world") -> dict[str, str]:
    """Greet, and say which region did."""
    return {"hello": name, "region": ctx.region}
