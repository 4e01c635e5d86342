#!/usr/bin/env python3
"""Runs attacks that are meant to use a node up against three local nodes, beside an honest client.

    benches/attacks.py --binary BINARY [--seconds N] [--only NAME,NAME] [--directory DIR]

scripts/attacks builds the binary and calls this. For each attack: the honest client alone for a while, then beside the
attack for N seconds (default 60). A row tells the most memory and descriptors that a node had before and during it, the
99th percentile of the honest client's requests (a write, a linearizable read, a pull of a config file), how many of
them failed, and what the attacker was told. All of the attack comes from one address (127.0.0.9) and meets one node,
whose honest clients are counted with all others. Ends with status 1 if a node grew by more than MEMORY_MIB_MAX, died,
or the honest client was refused or waited for more than P99_MS_MAX.
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import PASSWORD, Thuban, call, eventually, resident_mib  # noqa: E402

ATTACKER = "127.0.0.9"
# Connections that the attacker works with at a time; polls need more of them to fill a node.
HANDS = 400
POLLS = 4000
ALONE_S = 5
MEMORY_MIB_MAX = 256
P99_MS_MAX = 1000
TIMEOUT_S = 10
PULL = "/configs/shop/default/application"
POLL = "/notifications/v2?appId=shop&cluster=default&notifications=" + urllib.parse.quote(
    json.dumps([{"namespaceName": "application", "notificationId": -1}])
)
DISCOVERY = json.dumps({"type": "SERVICES", "service": {"namespace": "nothing"}, "timeout_ms": 1})
BIG = "/configs/shop/default/big.txt"


# --- the honest client, a process of its own so that the attack's work does not show in its times ---


def honest(nodes, token, ends, results):
    """Asks every node in turn until `ends` is set; sends the times and the failures.

    The poll is answered at once, as it knows of no change yet; it needs a place among those that are held all the same.
    """
    times, failures, number = [], Counter(), 0
    while not ends.is_set():
        api, compat = nodes[number % len(nodes)]
        number += 1
        body = json.dumps([{"namespace": "shop", "name": f"s{number}-{time.monotonic_ns()}"}])
        for what, address, method, path, data in [
            ("write", api, "POST", "/naming/v1/services", body),
            ("read", api, "GET", "/naming/v1/services?namespace=shop&limit=1", None),
            ("pull", compat, "GET", PULL, None),
            ("poll", compat, "GET", POLL + f"&n={number}", None),
            ("discovery", api, "POST", "/v1/Discover", DISCOVERY),
        ]:
            began = time.monotonic()
            try:
                connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
                headers = {"Authorization": token, "Content-Type": "application/json"} if address == api else {}
                connection.request(method, path, data, headers)
                status = connection.getresponse().status
                connection.close()
                if status != 200:
                    failures[f"{what} {status}"] += 1
            except OSError as error:
                failures[f"{what} {type(error).__name__}"] += 1
            times.append(time.monotonic() - began)
        time.sleep(0.01)
    results.put((times, failures))


class Honest:
    def __init__(self, nodes, token):
        self.ends, self.results = multiprocessing.Event(), multiprocessing.Queue()
        self.process = multiprocessing.Process(target=honest, args=(nodes, token, self.ends, self.results))
        self.process.start()

    def finish(self):
        self.ends.set()
        times, failures = self.results.get(timeout=60)
        self.process.join()
        times.sort()
        return times[int(len(times) * 0.99)] * 1000, len(times), failures


# --- what the attacker does ---


async def dial(address):
    host, port = address.split(":")
    return await asyncio.open_connection(host, int(port), local_addr=(ATTACKER, 0), limit=1 << 16)


def post(path, body, headers=""):
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}"
    ).encode()


def login(name, headers=""):
    return post("/auth/v1/user/login", json.dumps({"name": name, "password": "wrong"}), headers)


def poll(count, chars):
    names = [{"namespaceName": str(n).rjust(chars, "n"), "notificationId": -1} for n in range(count)]
    query = "appId=a&cluster=c&dataCenter=d&notifications=" + urllib.parse.quote(json.dumps(names))
    return f"GET /notifications/v2?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


class Attack:
    """One attack: what one hand does again and again."""

    hands = HANDS

    def __init__(self, cluster, seconds):
        self.cluster, self.seconds, self.told = cluster, seconds, Counter()
        self.api, self.compat, self.peer = cluster.clients[0], cluster.compat[0], cluster.peers[0]

    async def status(self, address, request, wait_s=TIMEOUT_S):
        """Sends a request and notes how it is answered; nothing for one that is held."""
        reader, writer = await dial(address)
        try:
            writer.write(request)
            self.told["sent"] += 1
            head = await asyncio.wait_for(reader.read(64), wait_s)
            self.told[head.split(b" ")[1].decode() if b" " in head else "closed"] += 1
        except (TimeoutError, asyncio.TimeoutError):
            pass
        finally:
            writer.close()

    def held(self):
        """Requests that were not answered."""
        return self.told["sent"] - sum(count for status, count in self.told.items() if status.isdigit())

    async def hand(self, number):
        raise NotImplementedError

    async def repeat(self, number, end):
        while time.monotonic() < end:
            try:
                await asyncio.wait_for(self.hand(number), max(0.1, end - time.monotonic()))
            except (TimeoutError, asyncio.TimeoutError):
                pass
            except (OSError, asyncio.IncompleteReadError) as error:
                self.told[type(error).__name__] += 1
                await asyncio.sleep(0.05)

    async def run(self):
        end = time.monotonic() + self.seconds
        await asyncio.gather(*(self.repeat(number, end) for number in range(self.hands)), self.beside())

    async def beside(self):
        """What happens once meanwhile."""

    def verdict(self):
        """What else is wrong, in words."""
        return []


class HungUpLogins(Attack):
    """Logins whose client hangs up before it is answered."""

    async def hand(self, number):
        _, writer = await dial(self.api)
        writer.write(login(f"name {time.monotonic_ns()}"))
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.close()
        self.told["hung up"] += 1


class LongNames(Attack):
    """Logins with names of a megabyte."""

    async def hand(self, number):
        await self.status(self.api, login(f"{time.monotonic_ns()}" + "n" * (1 << 20)))

    def verdict(self):
        return [f"{self.told['401']} names of a megabyte were looked up"] if self.told["401"] else []


class Throttle(Attack):
    """Guesses from one address that claims another one each time."""

    async def hand(self, number):
        made_up = f"X-Forwarded-For: 203.0.113.{number % 250}, 198.51.100.9\r\n"
        await self.status(self.api, login("victim", made_up))

    def verdict(self):
        allowed = 5 * (1 + self.seconds // 60)
        return [f"{self.told['401']} guesses were judged"] if self.told["401"] > allowed else []


class ManyPolls(Attack):
    """Polls of 200 names, held for as long as they may be."""

    hands = POLLS
    request = poll(200, 8)

    async def hand(self, number):
        await self.status(self.compat, self.request, self.seconds)
        await asyncio.sleep(5)

    def verdict(self):
        return [] if self.told["503"] else [f"all of {self.held()} polls are held"]


class LongPolls(Attack):
    """Polls of names of 40 kB."""

    hands = POLLS
    request = poll(1, 40_000)

    async def hand(self, number):
        await self.status(self.compat, self.request, self.seconds)
        await asyncio.sleep(5)

    def verdict(self):
        return [] if self.told["400"] else [f"{self.held()} polls of long names are held"]


class Unread(Attack):
    """Answers of a megabyte that nobody reads, on connections that stay."""

    async def hand(self, number):
        _, writer = await dial(self.compat)
        writer.transport.pause_reading()
        writer.write((f"GET {BIG} HTTP/1.1\r\nHost: localhost\r\n\r\n" * 8).encode())
        self.told["opened"] += 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            writer.transport.abort()


class Heads(Attack):
    """Heads of requests of 40 kB that do not come whole."""

    hands = POLLS

    async def hand(self, number):
        reader, writer = await dial(self.compat)
        writer.write(b"GET /configs/a/b/c?label=" + b"x" * 40_000 + b" HTTP/1.1\r\n")
        self.told["opened"] += 1
        try:
            await reader.read(1)
        finally:
            writer.close()
        await asyncio.sleep(2)


class SilentPeers(Attack):
    """Connections to the peer ports that say nothing, while a node is restarted."""

    def __init__(self, cluster, seconds):
        super().__init__(cluster, seconds)
        self.ready_s = None

    async def hand(self, number):
        reader, writer = await dial(self.cluster.peers[number % len(self.cluster.peers)])
        self.told["opened"] += 1
        try:
            await reader.read(1)
        finally:
            writer.close()

    async def beside(self):
        await asyncio.sleep(self.seconds / 4)
        self.ready_s = await asyncio.to_thread(restart, self.cluster, 2)
        self.told[f"node 3 ready after {self.ready_s:.1f} s"] = 1

    def verdict(self):
        is_soon = self.ready_s is not None and self.ready_s < 10
        return [] if is_soon else [f"restarted node ready after {self.ready_s} s"]


class Readiness(Attack):
    """Questions after readiness, as fast as they are answered."""

    request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    async def hand(self, number):
        await self.status(self.api, self.request)


ATTACKS = {
    "hung-up-logins": HungUpLogins,
    "long-names": LongNames,
    "throttle": Throttle,
    "many-polls": ManyPolls,
    "long-polls": LongPolls,
    "unread": Unread,
    "heads": Heads,
    "silent-peers": SilentPeers,
    "readiness": Readiness,
}


# --- how it is told ---


def restart(cluster, index):
    """kill -9 and start; the seconds from the start to ready."""
    process = cluster.processes[index]
    process.kill()
    process.wait()
    with open(cluster.log(index), "ab") as log:
        cluster.processes[index] = subprocess.Popen(cluster.command(index), stdout=log, stderr=log)
    began = time.monotonic()
    eventually("the node is ready", lambda: cluster.ready(cluster.clients[index]))
    return time.monotonic() - began


def look(cluster):
    """The most memory (MiB) and descriptors that a node has."""
    pids = [process.pid for process in cluster.processes]
    try:
        return max(map(resident_mib, pids)), max(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
    except (OSError, StopIteration):
        return 0.0, 0  # a node is being restarted


async def watched(cluster, attack):
    """Runs the attack; the most memory and descriptors meanwhile."""
    task, most = asyncio.create_task(attack.run()), (0.0, 0)
    while not task.done():
        now = await asyncio.to_thread(look, cluster)
        most = (max(most[0], now[0]), max(most[1], now[1]))
        await asyncio.wait({task}, timeout=0.2)
    await task
    return most


def try_one(cluster, name, seconds):
    nodes = list(zip(cluster.clients, cluster.compat))
    alone = Honest(nodes[1:] + nodes[:1], cluster.token)
    time.sleep(ALONE_S)
    p99_before, _, failed_before = alone.finish()
    memory_before, files_before = look(cluster)
    attack = ATTACKS[name](cluster, seconds)
    # A node that is restarted refuses connections: its own clients go elsewhere.
    nodes = list(zip(cluster.clients, cluster.compat))[: 2 if name == "silent-peers" else 3]
    beside = Honest(nodes, cluster.token)
    memory, files = asyncio.run(watched(cluster, attack))
    p99, requests, failed = beside.finish()
    faults = attack.verdict()
    if memory - memory_before > MEMORY_MIB_MAX:
        faults.append(f"{memory - memory_before:.0f} MiB more")
    if p99 > P99_MS_MAX:
        faults.append(f"p99 {p99:.0f} ms")
    if failed or failed_before:
        faults.append(f"honest failures {dict(failed + failed_before)}")
    if any(process.poll() is not None for process in cluster.processes):
        faults.append("a node died")
    print(
        f"{name:<15} {memory_before:6.0f} {memory:6.0f} MiB  {files_before:5} {files:5} files  "
        f"{p99_before:7.1f} {p99:7.1f} ms of {requests} requests  {'; '.join(faults) or 'held'}\n"
        f"{'':<15} the attacker was told: {dict(attack.told)}",
        flush=True,
    )
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", default=",".join(ATTACKS))
    parser.add_argument("--directory")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        parser.error(f"no such attack: {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    with tempfile.TemporaryDirectory() as made, Thuban(options.binary, options.directory or made) as cluster:
        for file, content in [("application.properties", "a=1"), ("big.txt", "x" * (1 << 20))]:
            body = {"namespace": "default", "group": "shop", "file_name": file, "content": content}
            call(cluster.clients[0], "/config/v1/configfiles/createandpub", body, cluster.token)
        print(f"{cluster.version()}, {options.seconds} s each")
        print(f"{'attack':<15} memory before, most   descriptors         p99 of the honest client")
        held = [try_one(cluster, name, options.seconds) for name in names]
        call(cluster.clients[0], "/auth/v1/user/login", {"name": "admin", "password": PASSWORD})
    print(f"{sum(held)} of {len(held)} attacks held")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
