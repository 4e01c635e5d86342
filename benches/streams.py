#!/usr/bin/env python3
"""Runs hostile streams of xDS against one node, beside honest clients of another address.

    benches/streams.py --binary BINARY [--seconds N] [--only NAME,NAME] [--directory DIR]

scripts/attacks builds the binary and calls this. For each attack: the honest clients alone,
then beside the attack for N seconds (default 20). All of the attack comes from 127.0.0.1, the honest clients come
from 127.0.0.2. A row has the 99th percentile of each honest call (`/livez`, a pull, a write, the first answer to a new
stream), the most memory more than before, the processors that the node used, and what the attacker got. Ends
with status 1 if an honest call failed, if its 99th percentile is over P99_MS_MAX, if the node grew by more than
MEMORY_MIB_MAX, or died. The node has a memory limit of 1 GiB.
"""

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import queue
import socket
import struct
import sys
import tempfile
import time
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import Thuban, call, cpu_seconds, free_ports, resident_mib  # noqa: E402
from storm import percentile, prefer  # noqa: E402

HONEST = "127.0.0.2"
ALONE_S = 4
CALM_S = 3
TIMEOUT_S = 10
P99_MS_MAX = 100
MEMORY_MIB_MAX = 128
INSTANCES = 2000
SERVICES = 3000
ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
TYPES = {
    name: f"type.googleapis.com/envoy.config.{name}.v3.{message}".encode()
    for name, message in [
        ("cluster", "Cluster"), ("endpoint", "ClusterLoadAssignment"), ("route", "RouteConfiguration"),
    ]
}  # fmt: skip
LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


# --- messages, written by hand: attackers write what no library would ---


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def metadata(entries):
    """A google.protobuf.Struct of texts."""
    return b"".join(field(1, field(1, key) + field(2, field(3, value))) for key, value in entries.items())


def node(name, entries=None, agent=b"envoy"):
    return field(1, name) + field(3, metadata(entries or {})) + field(6, agent)


def state_of_the_world(kind, asked=(), of=node(b"n")):
    return field(2, of) + b"".join(field(3, name) for name in asked) + field(4, TYPES[kind])


def delta(kind, asked=(), of=node(b"n")):
    return field(1, of) + field(2, TYPES[kind]) + b"".join(field(3, name) for name in asked)


def framed(message):
    return b"\0" + len(message).to_bytes(4, "big") + message


def head(method):
    """Header fields without a table, as literals that are never indexed."""
    fields = [
        (":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", ADS + method),
        ("content-type", "application/grpc"), ("te", "trailers"),
    ]  # fmt: skip

    def text(value):
        long = len(value) >= 127
        return (b"\x7f" + varint(len(value) - 127) if long else bytes([len(value)])) + value.encode()

    return b"".join(b"\x10" + text(name) + text(value) for name, value in fields)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class Connection:
    """One connection of HTTP/2. It answers pings, opens its window by what it reads, and nothing else."""

    def __init__(self, address, source="127.0.0.1", window=1 << 20):
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_open = window > 1
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, window)))
        self.buffer, self.next, self.initial = b"", 1, 65535
        self.windows, self.received, self.ended = {0: 65535}, Counter(), set()

    def open(self, method):
        stream, self.next = self.next, self.next + 2
        self.windows[stream] = self.initial
        self.socket.sendall(frame(1, 4, stream, head(method)))
        return stream

    def send(self, stream, data):
        """Sends as the windows allow; False if the stream ends before."""
        at = 0
        while at < len(data):
            if stream in self.ended:
                return False
            size = min(self.windows[0], self.windows[stream], 16384, len(data) - at)
            if size <= 0:
                self.read(TIMEOUT_S)
                continue
            self.socket.sendall(frame(0, 0, stream, data[at : at + size]))
            self.windows[0] -= size
            self.windows[stream] -= size
            at += size
        return True

    def read(self, timeout_s):
        """Reads once; False if nothing came in time."""
        self.socket.settimeout(max(timeout_s, 0.001))
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(TIMEOUT_S)
        if not data:
            raise ConnectionError("closed")
        self.buffer += data
        while len(self.buffer) >= 9:
            length = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + length:
                break
            kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
            payload, self.buffer = self.buffer[9 : 9 + length], self.buffer[9 + length :]
            self.take(kind, flags, stream, payload)
        return True

    def take(self, kind, flags, stream, payload):
        if kind == 0:
            self.received[stream] += len(payload)
            if self.is_open and payload:
                more = struct.pack(">I", len(payload))
                self.socket.sendall(frame(8, 0, 0, more) + frame(8, 0, stream, more))
        elif kind == 8:
            self.windows[stream] = self.windows.get(stream, 0) + int.from_bytes(payload, "big")
        elif kind == 6 and not flags:
            self.socket.sendall(frame(6, 1, 0, payload))
        elif kind == 4 and not flags:
            self.socket.sendall(frame(4, 1, 0))
            for at in range(0, len(payload), 6):
                setting, value = struct.unpack(">HI", payload[at : at + 6])
                if setting == 4:
                    for known in self.windows.keys() - {0}:
                        self.windows[known] += value - self.initial
                    self.initial = value
        elif kind == 7:
            raise ConnectionError("the node ended the connection")
        if kind == 3 or (kind in (0, 1) and flags & 1):
            self.ended.add(stream)

    def answer(self, stream, timeout_s=TIMEOUT_S):
        """Waits for the first bytes of an answer; False if the stream ends or nothing comes."""
        end = time.monotonic() + timeout_s
        while not self.received[stream] and stream not in self.ended and time.monotonic() < end:
            self.read(end - time.monotonic())
        return bool(self.received[stream])

    def rest(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(end - time.monotonic())

    def close(self):
        self.socket.close()


# --- the honest clients ---


def ask(address, method, path, body=None, token=""):
    host, port = address.split(":")
    connection = http.client.HTTPConnection(host, int(port), TIMEOUT_S, source_address=(HONEST, 0))
    connection.request(method, path, body, {"Authorization": token, "Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status == 200


def stream_of(address):
    connection = Connection(address, HONEST)
    stream = connection.open("StreamAggregatedResources")
    connection.send(stream, framed(state_of_the_world("route", [b"shop/other"])))
    answered = connection.answer(stream)
    connection.close()
    return answered


def honest(name, addresses, token, ends, results):
    """Makes one call again and again until `ends` is set; sends the times and the number of failures."""
    os.setsid()
    prefer(os.getpid())
    api, compat, grpc = addresses
    times, failures = [], 0
    for number in itertools.count():
        if ends.is_set():
            break
        began = time.monotonic()
        item = {"namespace": "shop", "service": "other", "host": "10.9.9.9", "port": 1 + number % 3}
        calls = {
            "livez": lambda: ask(api, "GET", "/livez"),
            "pull": lambda: ask(compat, "GET", "/configs/shop/default/application"),
            "write": lambda item=item: ask(api, "POST", "/naming/v1/instances", json.dumps([item]), token),
            "stream": lambda: stream_of(grpc),
        }
        try:
            failures += not calls[name]()
        except OSError:
            failures += 1
        times.append(time.monotonic() - began)
        time.sleep(0.02)
    results.put((name, times, failures))


class Honest:
    def __init__(self, addresses, token):
        self.ends, self.results = multiprocessing.Event(), multiprocessing.Queue()
        self.processes = [
            multiprocessing.Process(target=honest, args=(name, addresses, token, self.ends, self.results))
            for name in ("livez", "pull", "write", "stream")
        ]
        for process in self.processes:
            process.start()

    def finish(self):
        """The 99th percentile of each call in milliseconds, and the failures."""
        self.ends.set()
        seen = [self.results.get(timeout=60) for _ in self.processes]
        for process in self.processes:
            process.join()
        return {name: percentile(times, 0.99) for name, times, _ in seen}, {n: failed for n, _, failed in seen if failed}


# --- attacks: each is what one process does again and again until its time is over; it yields what it got ---


def places(address, _number):
    """10,000 made-up places of one service with 2,000 instances, in one request."""
    connection = Connection(address)
    stream = connection.open("DeltaAggregatedResources")
    yield connection.send(stream, framed(delta("endpoint", [f"shop/pay@a/b/{n}".encode() for n in range(10_000)])))
    yield connection.answer(stream)
    connection.rest(2)
    connection.close()


def large(address, number):
    """A request of 16 MiB with two million entries of four letters, half of them versions that the client says it has."""
    keys = (bytes(letters) for letters in itertools.product(LETTERS, repeat=4))
    entry = (lambda key: field(5, field(1, key))) if number % 2 else (lambda key: field(3, key))
    entries, size = [], 0
    while size < (16 << 20) - 300:
        entries.append(entry(next(keys)))
        size += len(entries[-1])
    message = framed(delta("cluster") + b"".join(entries))
    for _ in range(3):
        connection = Connection(address)
        stream = connection.open("DeltaAggregatedResources")
        yield connection.send(stream, message)
        yield connection.answer(stream)
        connection.close()


def namespaces(address, number):
    """A stream that asks for all routes, of ever another namespace that it sees and has as its own; it is closed at once."""
    connection = Connection(address)
    for turn in range(100):
        seen = {b"namespace": f"own-{number}-{turn}".encode(), b"namespaces": f"shop,made-up-{turn % 10}".encode()}
        stream = connection.open("StreamAggregatedResources")
        yield connection.send(stream, framed(state_of_the_world("route", [b"outbound"], node(b"n", seen))))
        yield connection.answer(stream)
        connection.socket.sendall(frame(3, 0, stream, struct.pack(">I", 8)))
    connection.close()


def unread(address, _number):
    """900 streams on a connection that never opens its window, each with an answer of nearly 64 KiB."""
    connection = Connection(address, window=1)
    message = framed(state_of_the_world("endpoint", [b"shop/pay"]))
    for _ in range(900):
        stream = connection.open("StreamAggregatedResources")
        yield connection.send(stream, message)
        connection.read(0)
    connection.rest(10)
    connection.close()


def names(address, number):
    """130 streams on a connection, each with 10,000 names of nothing."""
    connection = Connection(address)
    for turn in range(130):
        stream = connection.open("StreamAggregatedResources")
        asked = [f"shop/n{number}-{turn}-{n:05}".encode() for n in range(10_000)]
        yield connection.send(stream, framed(state_of_the_world("route", asked)))
        yield connection.answer(stream)
    connection.rest(10)
    connection.close()


def labels(address, number):
    """800 streams on a connection, each with metadata of 60 KB."""
    connection = Connection(address)
    for turn in range(800):
        said = {f"k{n}".encode(): f"{number}-{turn}-".encode() + b"x" * 1000 for n in range(60)}
        stream = connection.open("StreamAggregatedResources")
        yield connection.send(stream, framed(state_of_the_world("route", [b"shop/pay"], node(b"n", said))))
        yield connection.answer(stream)
    connection.rest(10)
    connection.close()


def trickle(address, _number):
    """Twelve streams that announce 16 MiB and send a byte a second."""
    connection = Connection(address)
    streams = [connection.open("StreamAggregatedResources") for _ in range(12)]
    for stream in streams:
        yield connection.send(stream, b"\0" + (16 << 20).to_bytes(4, "big") + b"\x0a")
    while not connection.ended.issuperset(streams):
        connection.rest(1)
        for stream in streams:
            if stream not in connection.ended:
                connection.send(stream, b"\x01")
    yield False
    connection.close()


# By the number of processes that attack at a time.
ATTACKS = {places: 2, large: 4, namespaces: 4, unread: 10, names: 4, labels: 4, trickle: 4}


def attack(run, address, number, seconds, got):
    os.nice(10)
    end, counts = time.monotonic() + seconds, Counter()
    while time.monotonic() < end:
        try:
            for is_taken in run(address, number):
                counts["taken" if is_taken else "refused"] += 1
                if time.monotonic() > end:
                    break
        except OSError as error:
            counts[type(error).__name__] += 1
            time.sleep(0.05)
    got.put(counts)


# --- one node ---


class Node(Thuban):
    """One node with a port for gRPC and a memory limit."""

    in_sessions = True

    def __init__(self, binary, directory):
        super().__init__(binary, directory)
        self.clients, self.peers, self.compat = self.clients[:1], self.peers[:1], self.compat[:1]
        self.grpc = f"127.0.0.1:{free_ports(1)[0]}"
        self.options += ["--grpc-addr", self.grpc, "--memory-limit-bytes", str(1 << 30)]

    def prepare(self):
        super().prepare()
        self.fill("/naming/v1/services", lambda n: {"namespace": "shop", "name": f"service-{n:05}"}, SERVICES)
        pay = {"namespace": "shop", "service": "pay", "port": 8080}
        self.fill("/naming/v1/instances", lambda n: pay | {"host": f"10.1.{n >> 8}.{n & 255}"}, INSTANCES)
        file = {"namespace": "default", "group": "shop", "file_name": "application.properties", "content": "a=1"}
        call(self.clients[0], "/config/v1/configfiles/createandpub", file, self.token)
        prefer(self.processes[0].pid)


def try_one(cluster, run, seconds):
    addresses, pid = (cluster.clients[0], cluster.compat[0], cluster.grpc), cluster.processes[0].pid
    alone = Honest(addresses, cluster.token)
    time.sleep(ALONE_S)
    before, failed_before = alone.finish()
    memory_before, most, cpu, got = resident_mib(pid), 0, cpu_seconds(pid), multiprocessing.Queue()
    beside = Honest(addresses, cluster.token)
    began = time.monotonic()
    attackers = [
        multiprocessing.Process(target=attack, args=(run, cluster.grpc, number, seconds, got)) for number in range(ATTACKS[run])
    ]
    for process in attackers:
        process.start()
    try:
        while time.monotonic() < began + seconds:
            most = max(most, resident_mib(pid))
            time.sleep(0.05)
    except (OSError, StopIteration):
        pass  # the node died, as is seen below
    is_alive = cluster.processes[0].poll() is None
    cpu = (cpu_seconds(pid) - cpu) / (time.monotonic() - began) if is_alive else float("nan")
    p99, failed = beside.finish()
    counts = Counter()
    for process in attackers:
        try:
            counts += got.get(timeout=TIMEOUT_S + 5)
        except queue.Empty:
            counts["unfinished"] += 1
        process.terminate()
        process.join()
    faults = [f"{name} {ms:.0f} ms" for name, ms in p99.items() if ms > P99_MS_MAX]
    if most - memory_before > MEMORY_MIB_MAX:
        faults.append(f"{most - memory_before:.0f} MiB more")
    if failed or failed_before:
        faults.append(f"honest failures {failed_before | failed}")
    if not is_alive:
        faults.append("the node died")
    times = "  ".join(f"{before[name]:5.1f} {p99[name]:6.1f}" for name in ("livez", "pull", "write", "stream"))
    print(
        f"{run.__name__:<11} {times}   {memory_before:4.0f} {most - memory_before:+5.0f} MiB  {cpu:4.2f} processors  "
        f"{'; '.join(faults) or 'held'}\n{'':<11} the attacker: {dict(counts)}",
        flush=True,
    )
    time.sleep(CALM_S)
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--only", default=",".join(run.__name__ for run in ATTACKS))
    parser.add_argument("--directory")
    options = parser.parse_args()
    by_name = {run.__name__: run for run in ATTACKS}
    unknown = [name for name in options.only.split(",") if name not in by_name]
    if unknown:
        parser.error(f"no such attack: {', '.join(unknown)}; there are {', '.join(by_name)}")
    with tempfile.TemporaryDirectory() as made, Node(options.binary, options.directory or made) as cluster:
        print(f"{cluster.version()}, {options.seconds} s each; 99th percentiles in ms, alone and beside the attack")
        print(f"{'attack':<11} {'livez':>12}  {'pull':>12}  {'write':>12}  {'stream':>12}   memory before, more")
        held = [try_one(cluster, by_name[name], options.seconds) for name in options.only.split(",")]
    print(f"{sum(held)} of {len(held)} attacks held")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
