"""A large registry on one node: writes in batches and one by one, reads, start-up, memory.

Loads services and, spread over the three families, rules, through HTTP; then, with the node held to
one core and this program on another, times lists with a fuzzy name at the front and deep in the
list, details and counts, and the pages of the console; last, starts the node again on that state.
`/livez` is timed beside them: it is what a request costs that reads nothing.
"""

import concurrent.futures
import gzip
import http.client
import itertools
import json
import os
import subprocess
import tempfile
import time
import urllib.parse

from nodes import PASSWORD, SECRET, built, call, eventually, free_ports, resident_mib

BATCH = 100
KINDS = ["routings", "ratelimits", "faultdetectors"]
MATCH = {"type": "EXACT", "value": "/pay", "value_type": "TEXT"}


def arguments(parser):
    parser.add_argument("--services", type=int, default=100_000)
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--singles", type=int, default=2_000, help="services written one by one")
    parser.add_argument("--reads", type=int, default=1_000, help="requests of each kind of read")


class Node:
    """One node of a cluster of one."""

    def __init__(self, binary, data):
        self.api, self.compat, peer = (f"127.0.0.1:{port}" for port in free_ports(3))
        self.command = [
            binary, "serve", "--node-id", "1", "--data-dir", data, "--api-addr", self.api, "--compat-addr", self.compat,
            "--peer-addr", peer, "--initial-cluster", f"1={peer}", "--cluster-secret", SECRET,
            "--admin-password", PASSWORD,
        ]
        self.process = None

    def start(self):
        """Returns the seconds from exec to ready."""
        begun = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually("the node is ready", self.ready, pause_s=0.002)
        return time.monotonic() - begun

    def ready(self):
        connection = http.client.HTTPConnection(self.api, timeout=5)
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200

    def login(self):
        body = {"name": "admin", "password": PASSWORD}
        answer = eventually("the login works", lambda: call(self.api, "/auth/v1/user/login", body))
        return answer["loginResponse"]["token"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Session:
    """One connection that stays open."""

    def __init__(self, api, token):
        self.connection = http.client.HTTPConnection(api, timeout=30)
        self.headers = {"Authorization": token, "Content-Type": "application/json"}

    def send(self, method, path, body=None):
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:500]}")
        return text


def service(number):
    return {
        "namespace": f"space-{number % 100}", "name": f"service-{number:06}", "business": "payments",
        "department": "shop", "comment": "made by the bench", "metadata": {"tier": "gold", "zone": f"z{number % 7}"},
    }


def rule(kind, number):
    head = {"namespace": f"space-{number % 100}", "name": f"rule-{number:06}", "priority": number % 10}
    key = {"service": f"service-{number:06}", "namespace": head["namespace"]}
    if kind == "routings":
        argument = {"type": "HEADER", "key": "x-user", "value": MATCH}
        sub = {"name": "one", "arguments": {"arguments": [argument]},
               "destinations": [dict(key, labels={"version": MATCH}, priority=0, weight=100, name="main")]}
        return dict(head, route_policy="RulePolicy", routing_config={"callee": key, "rules": [sub]})
    if kind == "ratelimits":
        sub = {"name": "one", "apis": [{"method": "GET", "path": MATCH}],
               "amounts": [{"maxAmount": 100, "validDuration": "1s"}]}
        return dict(head, callee=key, rules=[sub])
    probe = {"interval": 5, "timeout": 1, "port": 8080, "protocol": "HTTP"}
    probe["http_config"] = {"method": "GET", "url": "/"}
    return dict(head, target_service=key, rules=[probe])


def timed_writes(api, token, connections, requests):
    """Sends all (path, body) over so many connections; returns items a second."""
    sessions = [Session(api, token) for _ in range(connections)]

    def work(session, mine):
        for path, body in mine:
            session.send("POST", path, body)

    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        parts = [requests[n::connections] for n in range(connections)]
        for done in [pool.submit(work, session, part) for session, part in zip(sessions, parts)]:
            done.result()
    items = sum(len(body) for _, body in requests)
    return items / (time.monotonic() - begun)


def batches(count, make):
    return [[make(n) for n in range(first, min(first + BATCH, count))] for first in range(0, count, BATCH)]


def read_times(session, path, count):
    """Milliseconds of each of so many requests, sorted."""
    times = []
    for _ in range(count):
        begun = time.monotonic()
        session.send("GET", path)
        times.append((time.monotonic() - begun) * 1000)
    return sorted(times)


def reads(options, session):
    deep = max(options.services - 10_000, 0)
    deep_rules = max(options.rules // 3 - 3_000, 0)
    first = json.loads(session.send("GET", "/naming/v1/routings?limit=1"))["data"][0]
    fuzzy = urllib.parse.quote("*ERVICE-*")
    return [
        ("GET /livez", "/livez"),
        ("count of services", "/naming/v1/services/count"),
        ("services, fuzzy name, offset 0", f"/naming/v1/services?name={fuzzy}"),
        (f"services, fuzzy name, offset {deep}", f"/naming/v1/services?name={fuzzy}&offset={deep}"),
        ("services, fuzzy name that few have", "/naming/v1/services?name=*999*"),
        ("routes, fuzzy name, offset 0", "/naming/v1/routings?name=*ule*"),
        (f"routes, fuzzy name, offset {deep_rules}", f"/naming/v1/routings?name=*ule*&offset={deep_rules}"),
        ("routes of a service", "/naming/v1/routings?service=service-000300"),
        ("detail of a route by id", f"/naming/v1/routings/detail?id={first['id']}"),
    ]


class Visitor:
    """A browser that has signed in to the console."""

    def __init__(self, api):
        self.connection = http.client.HTTPConnection(api, timeout=30)
        form = urllib.parse.urlencode({"user": "admin", "password": PASSWORD})
        self.connection.request("POST", "/ui/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"})
        answer = self.connection.getresponse()
        answer.read()
        self.headers = {"Cookie": answer.headers["set-cookie"].split(";")[0], "Accept-Encoding": "gzip"}

    def get(self, path, wanted=200):
        """Milliseconds to the first byte, the whole page, and how many bytes it took on the wire."""
        begun = time.monotonic()
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        first = (time.monotonic() - begun) * 1000
        if answer.status != wanted:
            raise SystemExit(f"GET {path}: {answer.status}")
        sent = answer.read()
        packed = answer.headers.get("content-encoding") == "gzip"
        return first, (gzip.decompress(sent) if packed else sent).decode(errors="replace"), len(sent)


def pages(options, session):
    deep = max(options.services - 10_000, 0)
    first = json.loads(session.send("GET", "/naming/v1/routings?limit=1"))["data"][0]
    return [
        ("overview", "/ui"),
        ("services", "/ui/services"),
        (f"services, offset {deep}", f"/ui/services?offset={deep}"),
        ("services, part of a name", "/ui/services?name=999"),
        ("a service and the rules about it", "/ui/service?namespace=space-3&name=service-000303"),
        ("routes", "/ui/rules/routings"),
        ("a route", f"/ui/rules/routings/{first['id']}"),
        ("explained", "/ui/rules/routings/explain?namespace=space-3&service=service-000303"),
        ("config", "/ui/config"),
        ("search over everything", "/ui/search?q=999"),
        ("audit", "/ui/audit"),
        ("accounts", "/ui/accounts"),
        ("cluster", "/ui/cluster"),
    ]


def page_times(options, node, session):
    visitor = Visitor(node.api)
    print("\n| page of the console, the node on one core | first byte p50 ms | p99 ms | bytes sent "
          "| requests, and their bytes, on a first visit |\n|---|---|---|---|---|")
    count = max(options.reads // 10, 10)
    for name, path in pages(options, session):
        visits = [visitor.get(path) for _ in range(count)]
        times = sorted(first for first, _, _ in visits)
        _, text, sent = visits[-1]
        assets = {part.split('"')[0] for part in text.split("/ui/assets/")[1:]}
        with_assets = sent + sum(visitor.get(f"/ui/assets/{asset}")[2] for asset in assets)
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        print(f"| {name} | {p50:.1f} | {p99:.1f} | {sent:,} | {1 + len(assets)}, {with_assets:,} |", flush=True)


def main(options):
    binary = options.thuban or built()
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        node = Node(binary, os.path.join(directory, "data"))
        node.start()
        token = node.login()
        empty = resident_mib(node.process.pid)
        print("| written through HTTP | connections | items a second |\n|---|---|---|")
        services = [("/naming/v1/services", batch) for batch in batches(options.services, service)]
        print(f"| services, batches of {BATCH} | 4 | {timed_writes(node.api, token, 4, services):,.0f} |", flush=True)
        with_services = resident_mib(node.process.pid)
        rules = [
            (f"/naming/v1/{kind}", [rule(kind, n) for n in range(number * BATCH, (number + 1) * BATCH)])
            for number, kind in zip(range(options.rules // BATCH), itertools.cycle(KINDS))
        ]
        print(f"| rules, batches of {BATCH} | 4 | {timed_writes(node.api, token, 4, rules):,.0f} |", flush=True)
        with_rules = resident_mib(node.process.pid)
        one_by_one = [("/naming/v1/services", [service(options.services + n)]) for n in range(options.singles)]
        for connections, part in [(1, one_by_one[: options.singles // 4]), (16, one_by_one[options.singles // 4 :])]:
            rate = timed_writes(node.api, token, connections, part)
            print(f"| services, one a request | {connections} | {rate:,.0f} |")
        print(f"\n| resident memory | MiB | bytes an object |\n|---|---|---|\n| empty | {empty:.0f} | |")
        for name, before, after, count in [
            ("with services", empty, with_services, options.services),
            ("with rules too", with_services, with_rules, options.rules),
        ]:
            print(f"| {name} | {after:.0f} | {(after - before) * 2**20 / count:,.0f} |")
        if len(cores) > 1:
            for task in os.listdir(f"/proc/{node.process.pid}/task"):
                os.sched_setaffinity(int(task), cores[:1])
            os.sched_setaffinity(0, cores[1:])
        session = Session(node.api, token)
        print("\n| read, the node on one core | p50 ms | p99 ms |\n|---|---|---|")
        for name, path in reads(options, session):
            times = read_times(session, path, options.reads)
            print(f"| {name} | {times[len(times) // 2]:.2f} | {times[int(len(times) * 0.99)]:.2f} |", flush=True)
        page_times(options, node, session)
        os.sched_setaffinity(0, cores)
        node.stop()
        seconds = node.start()
        memory = resident_mib(node.process.pid)
        print(f"\nstart on this state to ready: {seconds:.2f} s, then {memory:.0f} MiB resident")
        node.stop()
