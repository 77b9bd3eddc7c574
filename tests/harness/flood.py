"""Many clients that send far too much, in a process of their own, until they are ended.

    python -m tests.harness.flood HOST:PORT CLIENTS

Prints one letter for each refusal, so that whoever reads knows that the flood runs; any other
answer ends it with an error.
"""

import asyncio
import sys
from itertools import cycle
from typing import Any

import grpc
import grpc.aio

from tests.rpc.running import spec
from tradewind.limits import MAX_BATCH_BYTES, MAX_MESSAGE_BYTES, MAX_PAYLOAD_BYTES
from tradewind.v1 import router_pb2

METHOD = "/tradewind.v1.RouterService/SubmitTask"
# One that our own limit refuses, one above gRPC's usual limit, one above ours for a message.
SIZES = (MAX_PAYLOAD_BYTES + 1, MAX_BATCH_BYTES + 1, 8 * MAX_MESSAGE_BYTES)


async def main(address: str, clients: int) -> None:
    """Send for ever, each client one message at a time."""
    unlimited = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    messages = {
        size: router_pb2.SubmitTaskRequest(
            spec=spec(payload=bytes(size), content_type="a/b")
        ).SerializeToString()
        for size in SIZES
    }

    async def one(first: int) -> None:
        async with grpc.aio.insecure_channel(address, options=unlimited) as opened:
            channel: Any = opened
            submit = channel.unary_unary(METHOD)
            for size in cycle(SIZES[first:] + SIZES[:first]):
                try:
                    await submit(messages[size])
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                        raise
                    sys.stdout.write("x")
                    sys.stdout.flush()
                else:
                    raise AssertionError(size)

    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(one(number % len(SIZES)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
