"""Random rules in bulk, of which clients of xDS must refuse none: a hundred routing rules and 48 limits, breakers and probes
a seed, put to an Envoy beside the called service and to a gRPC client. Whoever refuses a resource is counted by the node."""

import re
import urllib.request

from callers import Client, free_ports
from limiting import BREAKERS, LIMITS, breaker, limit
from worlds import INSTANCES, ROUTES, custom, draw_of, sketch, sub_rules

PROBES = "/naming/v1/faultdetectors"
SERVICE, CALLER = "pay", "cart"
ROUTES_A_SEED, OTHERS_A_SEED = 100, 48
NACKS = re.compile(r"^thuban_xds_nacks_total\{([^}]*)\} (\S+)$", re.MULTILINE)
WEIGHTS = [0, 1, 100, 4_294_967_295]


def probe(draw, number):
    made = {
        "name": f"probe-{number}", "interval": draw.choice([1, 5, 60]), "timeout": draw.choice([1, 3]),
        "port": draw.choice([0, 80, 65_535]), "target_service": {"service": draw.choice([SERVICE, CALLER])},
    }
    if draw.random() < 0.5:
        return made | {"protocol": "TCP", "tcp_config": {
            "send": draw.choice(["", "0x01"]), "receive": draw.choice([[], ["0x02"], ["0x02", "0x03"]])}}
    return made | {"protocol": "HTTP", "http_config": {
        "method": draw.choice(["", "GET", "HEAD"]), "url": draw.choice(["", "/health", "/a?b=c"]),
        "headers": draw.choice([[], [{"key": "x-probe", "value": "1"}]])}}


def publish_all(node, family, namespace, rules):
    node.call(family, [rule | {"namespace": namespace} for rule in rules])
    node.call(f"{family}/releases", [{"rule_name": rule["name"], "namespace": namespace} for rule in rules])


def nacks(node):
    """Refused resources by type and client."""
    with urllib.request.urlopen(f"http://{node.api}/metrics", timeout=30) as answer:
        return {labels: float(count) for labels, count in NACKS.findall(answer.read().decode())}


def fill(node, namespace, draw, addresses):
    rows = []
    for number, address in enumerate(addresses):
        host, port = address.split(":")
        rows.append({
            "namespace": namespace, "service": [SERVICE, CALLER][number % 2], "host": host, "port": int(port),
            "weight": draw.choice(WEIGHTS), "healthy": draw.random() < 0.7, "protocol": draw.choice(["", "http", "grpc"]),
            "metadata": {"version": draw.choice(["v1", "v2"])}})
    node.call(INSTANCES, rows)
    routes = [custom(f"route-{number}", namespace, draw.choice([SERVICE, CALLER]), number % 10,
                     sub_rules(draw, namespace, SERVICE, draw.random() < 0.3)) for number in range(ROUTES_A_SEED)]
    publish_all(node, ROUTES, namespace, routes)
    limits, breakers = OTHERS_A_SEED // 2, OTHERS_A_SEED // 4
    publish_all(node, LIMITS, namespace, [limit(draw, namespace, number) for number in range(limits)])
    publish_all(node, BREAKERS, namespace, [breaker(draw, namespace, number) for number in range(breakers)])
    publish_all(node, PROBES, namespace, [probe(draw, number) for number in range(OTHERS_A_SEED - limits - breakers)])


def run(node, backends, seeds, counts):
    for seed in seeds:
        draw, namespace = draw_of("refused", seed), f"n{seed}"
        fill(node, namespace, draw, backends.first["addresses"])
        before = nacks(node)
        clients = [Client(node, namespace, "grpc", service=CALLER), beside_pay(node, namespace)]
        differences = []
        for client in clients:
            try:
                client.become_ready()
                for service in (SERVICE, CALLER):
                    client.call(sketch(draw) | {"service": service}, 1)
            except SystemExit as error:
                differences.append(f"{client.name}: {error}")
            client.program.end()
        refused = {labels: count - before.get(labels, 0) for labels, count in nacks(node).items()}
        differences += [f"{count:.0f} refused of {labels}" for labels, count in refused.items() if count]
        counts["routing rules"] += ROUTES_A_SEED
        counts["limits, breakers and probes"] += OTHERS_A_SEED
        counts["refused resources"] += int(sum(refused.values()))
        print(f"seed {seed}: {counts['routing rules']} rules, {counts['refused resources']} refused", flush=True)
        yield seed, differences


def beside_pay(node, namespace):
    """An Envoy beside the service whose limits it carries out."""
    return Client(node, namespace, "envoy-delta", service=SERVICE, inbound=tuple(free_ports(2)))
