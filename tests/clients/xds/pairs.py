"""Every pair of types of conditions in one sub-rule, under AND and under OR.

A type is a part of the request and a comparison. A service for each pair has two instances: a request that meets the
sub-rule is for the one, any other for the other, so that one call tells. Four requests are tried for each, chosen so that
each of the two conditions is met and not met.
"""

import itertools
import json

from callers import on_each, start_clients
from judging import expected, counts_of
from worlds import COMPARISONS, INSTANCES, KINDS, ROUTES, condition, custom, draw_of, is_met, sketch

CLIENTS = [("grpc", "yes", ("", "", ""), "cart"), ("envoy-delta", "yes", ("", "", ""), "cart"),
           ("envoy-sotw", "yes", ("", "", ""), "cart")]
BATCH, CALLS, TRIED = 146, 2, 60


def all_pairs():
    kinds = [(kind, comparison) for kind in KINDS for comparison in COMPARISONS]
    return [(mode, *pair) for pair in itertools.combinations_with_replacement(kinds, 2) for mode in ("AND", "OR")]


class Batch:
    """Services of some pairs, in a namespace of their own."""

    def __init__(self, node, namespace, asked, addresses):
        self.node, self.namespace = node, namespace
        self.instances, self.conditions, self.is_by_name = {}, {}, {}
        draw, rules = draw_of("pairs", namespace), []
        for number, (mode, *kinds) in enumerate(asked):
            service, by_name = f"pair-{number}", draw.random() < 0.5
            self.is_by_name[service] = by_name
            pair = [condition(draw, namespace, by_name, *kind) for kind in kinds]
            self.conditions[service], self.instances[service] = pair, self.two(service, addresses)
            arguments = {"arguments": pair, "matchMode": mode}
            first = {"name": "met", "arguments": arguments, "destinations": [self.group(service, "v1")]}
            other = {"name": "other", "destinations": [self.group(service, "v2")]}
            rules.append(custom(service, namespace, service, 0, [first, other]))
        self.draw = draw
        for some in chunks([one for rows in self.instances.values() for one in rows], 100):
            node.call(INSTANCES, some)
        for some in chunks(rules, 50):
            node.call(ROUTES, some)
            node.call(f"{ROUTES}/releases", [{"rule_name": one["name"], "namespace": namespace} for one in some])

    def two(self, service, addresses):
        rows = []
        for version, address in zip(("v1", "v2"), addresses):
            host, port = address.split(":")
            rows.append({"namespace": self.namespace, "service": service, "host": host, "port": int(port), "weight": 100,
                         "metadata": {"version": version}, "healthy": True, "isolate": False})
        return rows

    def group(self, service, version):
        labels = {"version": {"type": "EXACT", "value": version}}
        return {"namespace": self.namespace, "service": service, "name": version, "labels": labels}

    def sketches(self, service):
        """One request for each way in which the two conditions are met, as far as some are found."""
        found = {}
        for _ in range(TRIED):
            asked = sketch(self.draw) | {"service": service}
            met = tuple(is_met(one.get("value"), value_of(one, asked, self.is_by_name[service]))
                        for one in self.conditions[service])
            found.setdefault(met, asked)
        return list(found.values())


def value_of(one, asked, is_by_name):
    """The value of a part; of what the client is, nothing is chosen."""
    if one["type"] == "HEADER":
        return next((value for name, value in asked["headers"].items() if name.lower() == one["key"].lower()), None)
    named = {"QUERY": "query", "COOKIE": "cookies"}.get(one["type"])
    if named:
        return asked[named].get(one["key"])
    method = asked["path"].rsplit("/", 1)[-1] if is_by_name else asked["method"]
    return {"PATH": asked["path"], "METHOD": method}.get(one["type"])


def chunks(rows, size):
    return [rows[at:at + size] for at in range(0, len(rows), size)]


def run(node, backends, seeds, counts):
    """The seeds are batches; all pairs are in them if there are enough."""
    batches = chunks(all_pairs(), BATCH)
    for seed in seeds:
        if seed > len(batches):
            return
        batch = Batch(node, f"p{seed}", batches[seed - 1], backends.first["addresses"])
        clients = start_clients(node, batch.namespace, CLIENTS)
        asked = {service: batch.sketches(service) for service in batch.instances}
        results = on_each(clients, lambda client, batch=batch, asked=asked: of_client(batch, client, asked, counts))
        for client in clients:
            client.program.end()
        counts["pairs under AND or OR"] += len(batch.instances)
        print(f"batch {seed} of {len(batches)}: {len(batch.instances)} pairs, {counts['requests']} requests", flush=True)
        yield seed, [told for differences in results for told in differences]


def of_client(batch, client, asked, counts):
    differences, judged = [], 0
    for service, sketches in asked.items():
        for one in sketches:
            heard = client.as_heard(one)
            explanation = batch.node.call(f"{ROUTES}/explain", heard)["explanation"]
            wanted = expected(explanation, batch.instances, service, client)
            if wanted.extent == "nothing":
                counts["requests of rules that are not carried out"] += 1
                continue
            told = client.call(one, CALLS)
            judged += 1
            counts["answers of a sub-rule that is met"] += int(explanation["applies"][0]["index"] == 0)
            if set(counts_of(told)) != set(wanted.shares):
                pair = json.dumps(batch.conditions[service])
                differences.append(f"{client.name} {pair} {json.dumps(one)}: expected {wanted.shares}, got {told}")
        if not client.is_envoy:
            client.program.ask(op="forget", target=client.question(sketches[0])["target"])
    counts["requests"] += judged
    counts["calls"] += judged * CALLS
    return differences
