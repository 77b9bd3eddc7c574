"""The floor: a bare grpc.aio echo with the messages of SubmitTask, in a process of its own."""

import sys

import grpc
import uvloop

from tradewind.v1 import router_pb2

METHOD = "/bench.Echo/Submit"


async def _echo(
    request: router_pb2.SubmitTaskRequest,
    _context: grpc.aio.ServicerContext[router_pb2.SubmitTaskRequest, router_pb2.SubmitTaskResponse],
) -> router_pb2.SubmitTaskResponse:
    return router_pb2.SubmitTaskResponse(task_id=request.spec.request_id, region="here")


async def serve() -> None:
    """Serve on a free port, and say which on standard output."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handler = grpc.unary_unary_rpc_method_handler(
        _echo,
        request_deserializer=router_pb2.SubmitTaskRequest.FromString,
        response_serializer=router_pb2.SubmitTaskResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Echo", {"Submit": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve())
    sys.exit(0)
