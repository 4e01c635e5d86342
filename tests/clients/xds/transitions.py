"""Rules that change while calls go on: after each change all calls agree with the new explain within five seconds.

A release for everybody, one for some, its promotion, a roll back, a share of the clients, its end, instances that are
isolated and come back, and the end of the rule. Calls that go on all the time fail only where explain says so before or after
the change.
"""

import functools
import json
import time

from callers import on_each, start_clients
from judging import counts_of, differs, expected
from worlds import INSTANCES, ROUTES, custom, draw_of, sketch, sub_rules

SERVICE, LIMIT_S = "pay", 5.0
CLIENTS = [("grpc", "yes", ("eu", "a", "1"), "cart"), ("envoy-delta", "no", ("", "", ""), "cart"),
           ("envoy-sotw", "yes", ("", "", ""), "other")]
SKETCHES, CALLS = 5, 48
# Of so many calls expected at an address some come.
SEEN_FROM = 20
CANARY = {"release_type": "gray", "client_labels": [{"key": "canary", "value": {"value": "yes"}}]}
HALF = {"release_type": "gray", "client_percent": {"by": "NODE_ID", "percent": 50}}


class World:
    """A service of which all instances are well, and its one rule."""

    def __init__(self, node, namespace, draw, addresses):
        self.node, self.namespace, self.draw, self.is_by_name = node, namespace, draw, draw.random() < 0.3
        rows = []
        for number, address in enumerate(addresses):
            host, port = address.split(":")
            labels = {"version": f"v{number % 3 + 1}", "tier": "xy"[number % 2], "level": ["1", "5", "12"][number % 3]}
            rows.append({
                "namespace": namespace, "service": SERVICE, "host": host, "port": int(port), "metadata": labels, "weight": 100,
                "healthy": True, "isolate": False, "location": {"region": "", "zone": "", "campus": ""},
            })
        self.instances = {SERVICE: rows}
        answer = node.call(INSTANCES, rows)
        self.ids = [one["instance"]["id"] for one in answer["responses"]]
        self.is_saved = False

    def publish(self, release, **more):
        rules = sub_rules(self.draw, self.namespace, SERVICE, self.is_by_name)
        for destination in [one for part in rules for one in part["destinations"]]:
            destination.pop("transfer", None)
        made = custom("parts", self.namespace, SERVICE, 0, rules, self.draw.choice(["*", "*", "cart"]))
        self.node.call(ROUTES, [made], method="PUT" if self.is_saved else "POST")
        self.is_saved = True
        self.release("releases", release, method="POST", **more)

    def release(self, way, release, method="PUT", **more):
        item = {"rule_name": "parts", "namespace": self.namespace, "release_name": release, **more}
        self.node.call(f"{ROUTES}/{way}", [item], method=method)

    def isolate(self, is_isolated):
        for position in (0, 1):
            self.instances[SERVICE][position]["isolate"] = is_isolated
        items = [{"id": self.ids[position], "isolate": is_isolated} for position in (0, 1)]
        self.node.call(INSTANCES, items, method="PUT")

    def expected(self, client, asked):
        explanation = self.node.call(f"{ROUTES}/explain", client.as_heard(asked))["explanation"]
        return expected(explanation, self.instances, SERVICE, client)


def steps_of(world):
    return [
        ("a release", lambda: world.publish("first")),
        ("a release for canaries", lambda: world.publish("second", **CANARY)),
        ("its promotion", lambda: world.release("releases/promote", "second")),
        ("a roll back", lambda: world.release("releases/rollback", "first")),
        ("a release for half of the clients", lambda: world.publish("third", **HALF)),
        ("two instances isolated", lambda: world.isolate(True)),
        ("its end", lambda: world.release("releases/stopbeta", "third")),
        ("the instances back", lambda: world.isolate(False)),
        ("another release", lambda: world.publish("fourth")),
        ("withdrawn to the one before", lambda: world.release("releases/withdraw", "fourth", to_previous=True)),
        ("withdrawn", lambda: world.release("releases/withdraw", "first")),
    ]


def run(node, backends, seeds, counts):
    for seed in seeds:
        differences = of_seed(node, f"t{seed}", seed, backends.first["addresses"][:6], counts)
        slowest = counts.pop("slowest ms")
        counts["ms of the slowest change"] = max(counts["ms of the slowest change"], slowest)
        print(f"seed {seed}: {counts['changes']} changes, the slowest within {slowest} ms", flush=True)
        yield seed, differences


def of_seed(node, namespace, seed, addresses, counts, is_stale=False):
    """Differences of one seed; with `is_stale` it is expected what was so before each change."""
    draw = draw_of("transitions", seed)
    world = World(node, namespace, draw, addresses)
    clients = start_clients(node, namespace, CLIENTS)
    sketches = [sketch(draw) | {"service": SERVICE} for _ in range(SKETCHES)]
    for client in clients:
        client.program.ask(op="flow", name="flow", **client.question(sketches[0]))
    before = on_each(clients, lambda client: [world.expected(client, one) for one in sketches])
    differences = []
    for name, change in steps_of(world):
        change()
        begun = time.monotonic()
        after = on_each(clients, lambda client: [world.expected(client, one) for one in sketches])
        wanted = dict(zip(clients, before if is_stale else after))

        found = on_each(clients, functools.partial(settle_with, sketches, wanted, begun, counts))
        for client, told, old, new in zip(clients, found, before, after):
            is_safe = None not in old[0].shares and None not in new[0].shares
            failed = failures(client)
            differences += [f"{client.name} {name}: {told}"] if told else []
            if is_safe and failed and "nothing" not in (old[0].extent, new[0].extent):
                differences.append(f"{client.name} {name}: calls that went on failed: {failed}")
        counts["changes"] += 1
        counts["changes that are seen"] += int(any(old.shares != new.shares for olds, news in zip(before, after)
                                                   for old, new in zip(olds, news)))
        before = after
    for client in clients:
        counts["calls that went on"] += sum(client.program.ask(op="stop", name="flow")["answers"].values())
        client.program.end()
    return differences


def failures(client):
    """Calls of the flow that failed since it was asked last."""
    errors = client.program.ask(op="seen", name="flow")["errors"]
    seen = getattr(client, "failed", {})
    client.failed = errors
    return {kind: count - seen.get(kind, 0) for kind, count in errors.items() if count > seen.get(kind, 0)}


def settle_with(sketches, wanted, begun, counts, client):
    """The same of one of several clients."""
    return settle(client, sketches, wanted[client], begun, counts)


def settle(client, sketches, wanted, begun, counts):
    """Calls until all agree; the difference that is left at the limit, None if there is none."""
    for one, shares in zip(sketches, wanted):
        if shares.extent == "nothing":
            counts["requests of rules that are not carried out"] += 1
            continue
        while True:
            told = client.call(one, CALLS)
            counts["calls"] += CALLS
            why = disagrees(shares, counts_of(told))
            took = time.monotonic() - begun
            if not why:
                break
            if took > LIMIT_S:
                return f"{json.dumps(one)}: {why}: expected {shares.shares}, got {told}"
    counts["slowest ms"] = max(counts["slowest ms"], round(1000 * (time.monotonic() - begun)))
    return None


def disagrees(wanted, counts):
    never = {address: count for address, count in counts.items() if address not in wanted.shares}
    if never or wanted.extent == "allowed":
        return f"calls that must not be: {never}" if never else None
    missing = [one for one, share in wanted.shares.items() if share * CALLS >= SEEN_FROM and not counts[one]]
    return f"no call at {missing}" if missing else differs(wanted.shares, counts)
