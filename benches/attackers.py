"""What attackers of a node do, for storm.py: each hand does one thing again and again."""

import asyncio
import itertools
import json
import random
import time
import urllib.parse
from collections import Counter

ONE = "127.0.0.9"
MIB = 1 << 20
TIMEOUT_S = 10
PULL = "/configs/shop/default/application"
# What a client knows that has been told of no rules.
NO_RULES = "e3b0c44298fc1c149afbf4c8996fb924"

# What attackers send, made once: their time is better spent on sending it.
LABELS = urllib.parse.quote(",".join(f"k{n}={'x' * 600}" for n in range(60)))
BODY = b'[{"name":"x","namespace":"shop","more":[' + b"[]," * 600_000 + b"[]]}]"
FORM = b"user=" + b"&a=b" * 500_000
PORTS = ",".join(map(str, range(1, 9000)))
LONG_LABELS = json.dumps({f"k{n}": "x" * 4096 for n in range(63)})
NAMES = urllib.parse.quote(json.dumps([{"namespaceName": f"{n}-?", "notificationId": -1} for n in range(200)]))


class Origin:
    """Where the requests of a hand come from."""

    def __init__(self, is_one):
        self.is_one = is_one

    def source(self):
        return ONE if self.is_one else f"127.0.1.{random.randrange(1, 255)}"

    def header(self):
        if self.is_one:
            return ""
        return "X-Forwarded-For: " + ".".join(str(random.randrange(1, 255)) for _ in range(4)) + "\r\n"


class Attacker:
    """One process of attackers, all of them from one address or each from another."""

    def __init__(self, target, is_one, end, ends):
        self.api, self.compat, self.tokens = target
        self.origin, self.end, self.ends, self.told = Origin(is_one), end, ends, Counter()

    async def dial(self, address):
        host, port = address.split(":")
        source = (self.origin.source(), 0)
        return await asyncio.wait_for(asyncio.open_connection(host, int(port), local_addr=source, limit=MIB), TIMEOUT_S)

    def head(self, method, path, token="", length=None, content_type="application/json"):
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"Authorization: {token}"] if token else []
        lines += [f"Content-Length: {length}", f"Content-Type: {content_type}"] if length is not None else []
        return ("\r\n".join(lines) + "\r\n" + self.origin.header() + "\r\n").encode()

    async def ask(self, name, address, request, wait_s=TIMEOUT_S):
        """Sends a request on a connection of its own and counts what is answered."""
        reader, writer = await self.dial(address)
        try:
            writer.write(request)
            head = await asyncio.wait_for(reader.read(64), wait_s)
            self.told[name, head.split(b" ")[1].decode() if b" " in head else "closed"] += 1
        except (TimeoutError, asyncio.TimeoutError):
            self.told[name, "no answer"] += 1
        finally:
            writer.close()

    async def register(self, number):
        path = f"{PULL}?ip={number}-{random.random()}&label={LABELS}"
        await self.ask("register", self.compat, self.head("GET", path))

    async def bodies(self, _number):
        head = self.head("POST", "/naming/v1/services", self.tokens["client"], len(BODY))
        await self.ask("bodies", self.api, head + BODY)

    async def half_bodies(self, _number):
        head = self.head("POST", "/naming/v1/services", self.tokens["client"], 2 * MIB)
        await self.ask("half bodies", self.api, head + b" " * (2 * MIB - 10), 30)

    async def slow_readers(self, _number):
        path = "/config/v1/configfiles/search?group=large&limit=100&brief=false"
        reader, writer = await self.dial(self.api)
        try:
            writer.write(self.head("GET", path, self.tokens["reader"]))
            head = await asyncio.wait_for(reader.read(64), TIMEOUT_S)
            self.told["slow readers", head.split(b" ")[1].decode() if b" " in head else "closed"] += 1
            writer.transport.pause_reading()
            await asyncio.sleep(30)
        finally:
            writer.transport.abort()

    async def grays(self, number):
        labels = [
            {"key": f"k{n}", "value": {"type": "REGEX", "value": "\\pL{12}" + str(number)}} for n in range(64)
        ]
        body = {"namespace": "default", "group": "eve", "file_name": "f", "name": f"r{random.random()}"}
        body = json.dumps({**body, "release_type": "gray", "betaLabels": labels}).encode()
        head = self.head("POST", "/config/v1/configfiles/release", self.tokens["eve"], len(body))
        await self.ask("regex grays", self.api, head + body)
        await self.ask("pulls of grays", self.compat, self.head("GET", "/configs/eve/default/f?label=k1%3Da"))
        await asyncio.sleep(0.5)

    async def walks(self, number):
        paths = [
            f"/naming/v1/instances?port={PORTS}",
            "/config/v1/configfiles/search?content=x",
            "/naming/v1/services?name=*x*",
        ]
        token = self.tokens["blind" if number % 2 else "reader"]
        await self.ask("walks", self.api, self.head("GET", paths[number % len(paths)], token))

    async def logins(self, _number):
        body = json.dumps({"name": f"u{random.random()}", "password": "wrong"}).encode()
        await self.ask("logins", self.api, self.head("POST", "/auth/v1/user/login", length=len(body)) + body)

    async def held(self, number):
        if number % 2:
            names = NAMES.replace("%3F", str(random.randrange(1 << 30)))
            query = f"appId=a&cluster=c&dataCenter=d&notifications={names}"
            await self.ask("held polls", self.compat, self.head("GET", f"/notifications/v2?{query}"), 60)
            return
        service = {"namespace": "shop", "name": f"s{random.random()}", "revision": NO_RULES}
        body = {"type": "RATE_LIMIT", "service": service, "timeout_ms": 50_000}
        body = (json.dumps(body)[:-1] + f', "filter": {{"caller": {{"labels": {LONG_LABELS}}}}}}}').encode()
        head = self.head("POST", "/v1/Discover", self.tokens["client"], len(body))
        await self.ask("held questions", self.api, head + body, 60)

    async def forms(self, _number):
        head = self.head("POST", "/ui/sign-in", length=len(FORM), content_type="application/x-www-form-urlencoded")
        await self.ask("sign-in forms", self.api, head + FORM)

    async def deletes(self, _number):
        body = json.dumps([{"namespace": "shop", "name": f"n{random.random()}"}] * 100).encode()
        head = self.head("POST", "/naming/v1/services/delete", self.tokens["blind"], len(body))
        await self.ask("deletes of nothing", self.api, head + body)

    async def heads(self, _number):
        reader, writer = await self.dial(self.compat)
        try:
            writer.write(b"GET /configs/a/b/c?label=" + b"x" * 40_000 + b" HTTP/1.1\r\n")
            self.told["half heads", "closed" if await asyncio.wait_for(reader.read(1), 30) == b"" else "answered"] += 1
        finally:
            writer.close()

    async def repeat(self, name, number):
        numbers = itertools.count(number, 1001)
        while time.monotonic() < self.end and not self.ends.is_set():
            try:
                await asyncio.wait_for(getattr(self, name)(next(numbers)), self.end - time.monotonic())
            except (TimeoutError, asyncio.TimeoutError):
                pass
            except (OSError, asyncio.IncompleteReadError) as error:
                self.told[name.replace("_", " "), type(error).__name__] += 1
                await asyncio.sleep(0.2)
            await asyncio.sleep(0.02)

    async def run(self, names):
        hands = [self.repeat(name, number) for name in names for number in range(ATTACKS[name])]
        await asyncio.gather(*hands)


# How many hands each attack has, from one address and again from many.
ATTACKS = {
    "register": 20, "bodies": 20, "half_bodies": 40, "slow_readers": 20, "grays": 2, "walks": 10, "logins": 20,
    "held": 400, "forms": 20, "deletes": 2, "heads": 200,
}  # fmt: skip


def attack(target, is_one, names, seconds, ends, results):
    attacker = Attacker(target, is_one, time.monotonic() + seconds, ends)
    asyncio.run(attacker.run(names))
    results.put(attacker.told)
