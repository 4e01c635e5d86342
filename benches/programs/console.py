"""Pages of the console over many services, rules, config files and clients: time to the first byte, processor time, size.

Loads so many of each through HTTP, lets clients pull config files, leaves a tenth of the rules and files as drafts and
a fiftieth in a canary, and then opens each page in turn. Ends with status 1 if the p99 of a page is above the limit.
"""

import concurrent.futures
import http.client
import json
import os
import tempfile
import urllib.parse

from nodes import built, cpu_seconds
from programs.registry import Node, Session, Visitor, batches, rule, service, timed_writes

CONNECTIONS = 4
# Clients that read the same file.
READERS = 20
# One of so many rules and files is a draft, and one is in a canary.
DRAFTS, CANARIES = 10, 50
LABELS = [{"key": "zone", "value": {"type": "EXACT", "value": "a"}}]


def arguments(parser):
    parser.add_argument("--rows", type=int, default=1_000, help="services, rules and config files, of each so many")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--visits", type=int, default=100, help="visits of each page")
    parser.add_argument("--only", default="", help="only pages with this in their names")
    parser.add_argument("--limit-ms", type=float, default=150, help="highest p99 of the first byte; 0 for none")


def key(number):
    return {"namespace": f"space-{number % 100}", "group": f"group-{number % 50}", "file_name": f"file-{number:06}.yaml"}


def published(number):
    content = "".join(f"line-{line}: {number}\n" for line in range(20))
    return dict(key(number), content=content, format="yaml")


def draft(number):
    place = key(number)
    return {"namespace": place["namespace"], "group": place["group"], "name": place["file_name"], "content": "a: draft\n"}


def limited(number):
    return dict(rule("ratelimits", number), enable=True)


def released(number, **more):
    return {"rule_name": f"rule-{number:06}", "namespace": f"space-{number % 100}", **more}


def instance(number):
    of = service(number)
    return {
        "namespace": of["namespace"], "service": of["name"], "host": f"10.1.{number // 200 % 200}.{number % 200}",
        "port": 8080, "healthy": number % 97 != 0, "metadata": {"version": str(number % 3)},
    }


def pulled(address, options):
    """Lets each client pull a file, so that the node knows it with its release."""

    def work(mine):
        connection = http.client.HTTPConnection(address, timeout=30)
        for client in mine:
            place = key(client // READERS % options.rows)
            ip = f"10.{client >> 16}.{client >> 8 & 255}.{client & 255}"
            words = urllib.parse.urlencode({"ip": ip, "label": "zone=b"})
            connection.request("GET", f"/configs/{place['group']}/{place['namespace']}/{place['file_name']}?{words}")
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"a client got {answer.status}")

    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = [range(first, options.clients, CONNECTIONS) for first in range(CONNECTIONS)]
        for done in [pool.submit(work, part) for part in parts]:
            done.result()


def load(options, node, token):
    rows, session = options.rows, Session(node.api, token)

    def write(path, make, step=1):
        bodies = batches(len(range(0, rows, step)), lambda number: make(number * step))
        timed_writes(node.api, token, CONNECTIONS, [(path, batch) for batch in bodies])

    write("/naming/v1/services", service)
    write("/naming/v1/instances", instance)
    write("/naming/v1/ratelimits", limited)
    write("/naming/v1/ratelimits/releases", released)
    write("/naming/v1/routings", lambda number: rule("routings", number), step=4)
    for number in range(rows):
        session.send("POST", "/config/v1/configfiles/createandpub", published(number))
    pulled(node.compat, options)
    for number in range(0, rows, DRAFTS):
        session.send("PUT", "/config/v1/configfiles", draft(number))
        session.send("PUT", "/naming/v1/ratelimits", [dict(limited(number), description="not released")])
    for number in range(0, rows, CANARIES):
        gray = {"release_type": "gray", "name": "some", "beta_labels": LABELS}
        session.send("POST", "/config/v1/configfiles/release", [dict(key(number), **gray)])
        gray = {"release_type": "gray", "release_name": "some", "client_labels": LABELS}
        session.send("POST", "/naming/v1/ratelimits/releases", [released(number, **gray)])


def pages(options, session):
    """Each page with the kind of its rows."""
    first = json.loads(session.send("GET", "/naming/v1/ratelimits?limit=1"))["data"][0]
    deep = max(options.rows - 100, 0)
    file = urllib.parse.urlencode({"namespace": "space-0", "group": "group-0", "name": "file-000000.yaml"})
    asked = urllib.parse.urlencode({"namespace": "space-3", "service": "service-000003", "path": "/pay"})
    edit = ["policies", "contracts", "namespaces", "aliases", "services", "templates", "users", "tokens", "accesskeys"]
    return [
        ("home", "/ui"),
        ("home of a namespace", "/ui?namespace=space-3"),
        ("services", "/ui/services"),
        ("services, last page", f"/ui/services?offset={deep}"),
        ("services, part of a name", "/ui/services?name=99"),
        ("services, unhealthy", "/ui/services?state=unhealthy"),
        ("services by health", "/ui/services?sort=health"),
        ("a service", "/ui/service?namespace=space-3&name=service-000003"),
        ("map of calls", "/ui/map"),
        ("rate limits", "/ui/rules/ratelimits"),
        ("rate limits, drafts", "/ui/rules/ratelimits?state=draft"),
        ("routes", "/ui/rules/routings"),
        ("a rule", f"/ui/rules/ratelimits/{first['id']}"),
        ("a new rule", "/ui/rules/routings/new"),
        ("explain", f"/ui/rules/ratelimits/explain?{asked}"),
        ("config", "/ui/config"),
        ("config, drafts", "/ui/config?state=draft"),
        ("files of a group", "/ui/config?namespace=space-0&group=group-0"),
        ("a file", f"/ui/config/file?{file}"),
        ("clients", "/ui/clients"),
        ("clients, last page", f"/ui/clients?offset={max(options.clients - 100, 0)}"),
        ("clients, search", "/ui/clients?q=10.0.7."),
        ("clients behind", "/ui/clients?state=behind"),
        ("approvals", "/ui/requests"),
        ("search", "/ui/search?q=99"),
        ("namespaces", "/ui/namespaces"),
        ("templates", "/ui/templates"),
        ("contracts", "/ui/contracts"),
        ("policies", "/ui/policies"),
        ("webhooks", "/ui/webhooks"),
        ("users and tokens", "/ui/accounts"),
        ("my account", "/ui/account"),
        ("audit", "/ui/audit"),
        ("xDS resources", "/ui/proxies"),
        ("cluster", "/ui/cluster"),
        *((f"form: {sort}", f"/ui/edit/{sort}") for sort in edit),
        ("no such page", "/ui/none"),
    ]


def measured(options, node, session):
    """Prints a row for each page; returns the names of those above the limit."""
    visitor, pid = Visitor(node.api), node.process.pid
    print("| page | first byte p50 ms | p99 ms | processor ms a visit | bytes |\n|---|---|---|---|---|")
    slow = []
    for name, path in pages(options, session):
        if options.only not in name:
            continue
        before = cpu_seconds(pid)
        visits = [visitor.get(path, wanted=404 if path == "/ui/none" else 200) for _ in range(options.visits)]
        used = (cpu_seconds(pid) - before) * 1000 / options.visits
        times = sorted(first for first, _, _ in visits)
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        print(f"| {name} | {p50:.1f} | {p99:.1f} | {used:.1f} | {visits[-1][2]:,} |", flush=True)
        if 0 < options.limit_ms < p99:
            slow.append(name)
    return slow


def main(options):
    binary = options.thuban or built()
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        node = Node(binary, os.path.join(directory, "data"))
        try:
            node.start()
            token = node.login()
            load(options, node, token)
            slow = measured(options, node, Session(node.api, token))
        finally:
            node.stop()
    if slow:
        raise SystemExit(f"p99 above {options.limit_ms:g} ms: {', '.join(slow)}")
