"""Servers that are called: backends.py COUNT [--first-port PORT] [--certificate FILE --key FILE]

So many instances, each at an address of its own on the loopback interface. On one port each answers both gRPC (any
method, by grpcio) and HTTP/1.1 (any path) with its address, by TLS where a certificate is given. What it was asked is counted. Its first line tells the
addresses; then it is driven by lines, see driven.py:

    {"op": "counts"}                              calls of each address since they were asked last, without probes
    {"op": "probes"}                              the same of requests with /health in their path
    {"op": "requests", "at": ADDRESS}             head of the last HTTP/1.1 request there
    {"op": "behave", "at": ADDRESS, "http": 503, "grpc": 14}    it answers so from now on; 200 and 0 is well
    {"op": "down", "at": ADDRESS}, {"op": "up", "at": ADDRESS}  it refuses connections, and takes them again
"""

import argparse
import asyncio
import json
import os
import socket
import ssl
import sys
from collections import Counter

import grpc

PREFACE = b"PRI * HTTP/2.0"
PROBES = "/health"
CHUNK = 65536


class Backend(grpc.GenericRpcHandler):
    """One instance."""

    def __init__(self, address, inner, secure=None):
        self.address, self.inner, self.secure = address, inner, secure
        self.calls = self.probes = 0
        self.http, self.grpc = 200, 0
        self.last_request = ""
        self.listener = self.server = None
        self.connections = set()

    async def begin(self):
        self.server = grpc.aio.server(handlers=[self])
        self.server.add_insecure_port(f"unix-abstract:{self.inner}")
        await self.server.start()

    async def up(self):
        host, port = self.address.rsplit(":", 1)
        self.listener = await asyncio.start_server(self.connected, host, int(port), backlog=512, ssl=self.secure)

    async def down(self):
        self.listener.close()
        for writer in list(self.connections):
            writer.transport.abort()

    def count(self, path):
        if PROBES in path:
            self.probes += 1
        else:
            self.calls += 1

    # gRPC, by the server inside

    def service(self, _handler_call_details):
        return grpc.unary_unary_rpc_method_handler(self.answer_grpc)

    async def answer_grpc(self, _request, context):
        self.count("")
        if self.grpc:
            await context.abort(status(self.grpc), "as it was told")
        return self.address.encode()

    # both, by what a connection begins with

    async def connected(self, reader, writer):
        self.connections.add(writer)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(PREFACE):
                await self.splice(head, reader, writer)
            else:
                await self.answer_http(head, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()

    async def splice(self, head, reader, writer):
        inner_reader, inner_writer = await asyncio.open_unix_connection("\0" + self.inner)
        inner_writer.write(head)
        ways = [asyncio.ensure_future(pump(reader, inner_writer)), asyncio.ensure_future(pump(inner_reader, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        inner_writer.close()

    async def answer_http(self, head, reader, writer):
        while True:
            text = head.decode("latin-1")
            path = text.split(" ", 2)[1]
            self.count(path)
            if PROBES not in path:
                self.last_request = text
            length = [line for line in text.lower().split("\r\n") if line.startswith("content-length:")]
            if length:
                await reader.readexactly(int(length[0].split(":")[1]))
            body = self.address.encode()
            writer.write(f"HTTP/1.1 {self.http} X\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")


def status(code):
    return next(one for one in grpc.StatusCode if one.value[0] == code)


async def pump(reader, writer):
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()


class Fleet:
    """All of them, and the operations on them."""

    def __init__(self, backends):
        self.backends = {backend.address: backend for backend in backends}

    async def operate(self, op, at=None, **more):
        if op in ("counts", "probes"):
            return self.taken("calls" if op == "counts" else "probes")
        backend = self.backends[at]
        if op == "requests":
            return {"head": backend.last_request}
        if op == "behave":
            backend.http, backend.grpc = more.get("http", 200), more.get("grpc", 0)
            return {}
        await {"up": backend.up, "down": backend.down}[op]()
        return {}

    def taken(self, field):
        counts = Counter()
        for address, backend in self.backends.items():
            counts[address] = getattr(backend, field)
            setattr(backend, field, 0)
        return dict(counts)


def free_addresses(count, first_port):
    """Ports below those of outgoing connections, that nothing else listens on."""
    found, port = [], first_port
    while len(found) < count:
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                found.append(f"127.0.0.1:{port}")
            except OSError:
                pass
        port += 1
    return found


def secured(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def main(options):
    addresses = free_addresses(options.count, options.first_port or 10_000 + os.getpid() * 37 % 8_000)
    secure = secured(options.certificate, options.key) if options.certificate else None
    backends = [Backend(address, f"thuban-backend-{address}", secure) for address in addresses]
    for backend in backends:
        await backend.begin()
        await backend.up()
    print(json.dumps({"ready": True, "addresses": addresses}), flush=True)
    fleet, lines = Fleet(backends), asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await lines.readline():
        print(json.dumps(await fleet.operate(**json.loads(line))), flush=True)
    # Nobody waits for the calls that are left.
    os._exit(0)


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser()
    PARSER.add_argument("count", type=int)
    PARSER.add_argument("--first-port", type=int, default=0)
    PARSER.add_argument("--certificate")
    PARSER.add_argument("--key")
    asyncio.run(main(PARSER.parse_args()))
