"""Compares what clients of xDS do with what explain says: conformance.py --binary BINARY [--seeds N] [--first SEED]

Each seed is a namespace with services, instances with random labels, weights and health, and random routing rules, some of
them released for some clients. gRPC clients and Envoys, with labels and without, call it; where their calls went is compared
with what explain says of the same request, the share of each group spread over its instances by weight. A call has to be
answered by an instance that may get it, and the counts of each distribution pass a chi-square test, so that 1,000 seeds have
no false alarm. Rules that explain says are not carried out by a kind of client are not judged for it, and counted.

Status 1, with its seed, for the first that differs.
"""

import argparse
import collections
import json
import math
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "benches"))
from nodes import PASSWORD, SECRET, call, eventually, free_ports  # noqa: E402

SERVICES, BACKENDS, SKETCHES = 3, 12, 16
# One-sided normal quantile of one in ten million.
QUANTILE = 5.2
EXPECTED_MIN = 5
HEADERS, VALUES, PATHS = ["Env", "user", "level"], ["a", "b", "ab", "5", "7", "12"], ["/p.S/A", "/p.S/B", "/p.T/A"]
LABELS = {"version": ["v1", "v2", "v3"], "tier": ["x", "y"]}
ROUTES = "/naming/v1/routings"
# A warning that is not about sidecars, as which all Envoys here run.
OF_GATEWAYS = "W6:"


class Program:
    """A program that is driven by lines."""

    def __init__(self, name, *arguments):
        command = [sys.executable, os.path.join(HERE, name), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = json.loads(self.process.stdout.readline())

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "failed" in answer:
            raise SystemExit(f"{question}: {answer}")
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Node:
    """A node of its own cluster."""

    def __init__(self, binary, directory):
        self.binary, self.directory = binary, directory
        self.api, compat, peer, self.grpc = [f"127.0.0.1:{port}" for port in free_ports(4)]
        command = [
            binary, "serve", "--node-id", "1", "--data-dir", os.path.join(directory, "data"), "--api-addr", self.api,
            "--compat-addr", compat, "--peer-addr", peer, "--initial-cluster", f"1={peer}", "--cluster-secret", SECRET,
            "--admin-password", PASSWORD,
        ]
        with open(os.path.join(directory, "log"), "wb") as log:
            environment = dict(os.environ, THUBAN_GRPC_ADDR=self.grpc)
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        login = {"name": "admin", "password": PASSWORD}
        answer = eventually("the login works", lambda: call(self.api, "/auth/v1/user/login", login))
        self.token = answer["loginResponse"]["token"]

    def call(self, path, body=None, method=None):
        return call(self.api, path, body, self.token, method)

    def end(self):
        self.process.terminate()
        self.process.wait()


# --- a random world ---


def condition(draw):
    kind = draw.choice(["HEADER", "HEADER", "HEADER", "PATH", "METHOD", "QUERY", "CALLER_METADATA", "CALLER_SERVICE"])
    key = {"HEADER": draw.choice(HEADERS), "QUERY": "q", "CALLER_METADATA": "canary", "CALLER_SERVICE": "*"}.get(kind, "")
    words = {"PATH": PATHS, "METHOD": ["GET", "POST"], "CALLER_METADATA": ["yes", "no"], "CALLER_SERVICE": ["cart", "x"]}
    words = words.get(kind, VALUES)
    comparison = draw.choice(["EXACT", "EXACT", "NOT_EQUALS", "IN", "NOT_IN", "REGEX", "RANGE"])
    value = draw.choice(words)
    if comparison in ("IN", "NOT_IN"):
        value = ",".join(draw.sample(words, draw.randint(1, 2)))
    elif comparison == "REGEX":
        value = draw.choice(["^" + value, value + "$", "[" + value[-1] + "z]", f"^{value}$|b"])
    elif comparison == "RANGE":
        value = draw.choice(["5~7", "0~6", "7~100"])
    return {"type": kind, "key": key, "value": {"type": comparison, "value": value}}


def group(draw, namespace, service, number):
    labels = {}
    for key in draw.sample(sorted(LABELS), draw.randint(0, 2)):
        comparison = draw.choice(["EXACT", "EXACT", "IN", "NOT_EQUALS", "REGEX"])
        value = draw.choice(LABELS[key])
        labels[key] = {"type": comparison, "value": ",".join(draw.sample(LABELS[key], 2)) if comparison == "IN" else value}
    made = {"namespace": namespace, "service": service, "name": f"g{number}", "labels": labels}
    made["isolate"] = draw.random() < 0.1
    if draw.random() < 0.7:
        made["priority"] = draw.choice([0, 0, 1, 2])
    if draw.random() < 0.6:
        made["weight"] = draw.choice([0, 1, 30, 70, 100])
    return made


def rule(draw, namespace, service, number):
    parts = []
    for index in range(draw.randint(1, 3)):
        arguments = {
            "arguments": [condition(draw) for _ in range(draw.randint(0, 2))],
            "random_percent": draw.choice([100, 100, 50, 30, 1]),
            "matchMode": draw.choice(["AND", "AND", "AND", "OR"]),
        }
        groups = [group(draw, namespace, service, n) for n in range(draw.randint(1, 3))]
        parts.append({"name": f"p{index}", "arguments": arguments, "destinations": groups})
    caller = draw.choice(["*", "*", "cart", "other"])
    config = {
        "caller": {"service": caller, "namespace": "*" if caller == "*" else namespace},
        "callee": {"service": service, "namespace": namespace},
        "rules": parts,
    }
    name = f"{service}-{number}"
    head = {"name": name, "namespace": namespace, "priority": number, "route_policy": "RulePolicy"}
    return {**head, "routing_config": config}


class World:
    def __init__(self, node, seed, addresses):
        self.node, self.namespace = node, f"w{seed}"
        self.draw = random.Random(seed)
        self.instances = collections.defaultdict(list)
        for number, address in enumerate(addresses):
            host, port = address.split(":")
            instance = {
                "namespace": self.namespace, "service": f"s{number % SERVICES}", "host": host, "port": int(port),
                "metadata": {key: self.draw.choice(values) for key, values in LABELS.items() if self.draw.random() < 0.9},
                "weight": self.draw.choice([0, 100, 100, 200, 300]), "healthy": self.draw.random() < 0.85,
                "isolate": self.draw.random() < 0.1,
            }
            self.instances[instance["service"]].append(instance)
        node.call("/naming/v1/instances", [one for rows in self.instances.values() for one in rows])
        for service in sorted(self.instances):
            for number in range(self.draw.randint(0, 3)):
                self.release(rule(self.draw, self.namespace, service, number))

    def release(self, made):
        self.node.call(ROUTES, [made])
        gray = {"release_type": "gray", "client_labels": [{"key": "canary", "value": {"value": "yes"}}]}
        more = gray if self.draw.random() < 0.3 else {}
        self.node.call(f"{ROUTES}/releases", [{"rule_name": made["name"], "namespace": self.namespace, **more}])

    def sketch(self):
        headers = {name: self.draw.choice(VALUES) for name in HEADERS if self.draw.random() < 0.6}
        query = {"q": self.draw.choice(VALUES)} if self.draw.random() < 0.5 else {}
        return {"headers": headers, "query": query, "path": self.draw.choice(PATHS), "method": self.draw.choice(["GET", "POST"])}


# --- what is expected ---


def is_met(comparison, value):
    kind, wanted = comparison["type"], comparison["value"]
    if value is None:
        return False
    if kind == "NOT_EQUALS":
        return value != wanted
    return value in wanted.split(",") if kind == "IN" else wanted in value if kind == "REGEX" else value == wanted


def able(instances, labels):
    """Weights by address of those that may get calls."""
    return {
        f"{one['host']}:{one['port']}": one["weight"]
        for one in instances
        if one["healthy"] and not one["isolate"] and one["weight"] > 0
        and all(is_met(comparison, one["metadata"].get(key)) for key, comparison in labels.items())
    }


def rank(destination):
    return ("priority" not in destination, destination.get("priority", 0))


def spread(instances, destination, destinations):
    """Instances that get the share of a group: its own, else the others of its priority, else the next ones."""
    own = able(instances, destination["labels"])
    if own:
        return own
    others = [one for one in destinations if one["state"] in ("in_use", "standby") and one is not destination]
    for number in sorted({rank(one) for one in others}):
        if number >= rank(destination):
            found = {}
            for one in others:
                if rank(one) == number:
                    found.update(able(instances, one["labels"]))
            if found:
                return found
    return {}


def expected(explanation, instances):
    """Share of each address, None for calls that fail; and the kinds of clients that it is not judged for."""
    shares, left, unjudged = collections.Counter(), 100.0, set()

    def give(share, weights):
        total = sum(weights.values())
        for address, weight in weights.items():
            shares[address] += share * weight / total
        if not weights:
            shares[None] += share

    for candidate in explanation["candidates"]:
        carried = candidate["carried_out_by"]
        unjudged |= {kind for kind in ("grpc", "envoy") if carried[kind] != "yes"}
        if all(warning.startswith(OF_GATEWAYS) for warning in carried["warnings"]):
            unjudged.discard("envoy")
        for part in candidate["rules"]:
            if part["verdict"] == "applies":
                destinations = part["route"]["destinations"]
                for one in destinations:
                    if one["share"] > 0:
                        give(one["share"], spread(instances, one, destinations))
                left -= part["share"]
    if left > 1e-9:
        give(left, able(instances, {}))
    return {address: share / 100 for address, share in shares.items() if share > 1e-9}, unjudged


# --- clients ---


class Client:
    def __init__(self, node, namespace, kind, canary, directory):
        self.kind, self.canary, self.namespace = kind, canary, namespace
        self.is_envoy = kind != "grpc"
        self.outbound, admin = free_ports(2)
        name = os.path.join(directory, f"{namespace}-{kind}-{canary}")
        os.makedirs(name)
        command = [node.binary, "xds", "bootstrap", "envoy" if self.is_envoy else "grpc", "--server", node.grpc]
        command += ["--namespace", namespace, "--service", "cart", "--label", f"canary={canary}"]
        if self.is_envoy:
            command += ["--admin-port", str(admin), "--label", f"outbound_port={self.outbound}"]
        bootstrap = os.path.join(name, "bootstrap.json")
        with open(bootstrap, "wb") as file:
            file.write(subprocess.check_output(command))
        if self.is_envoy:
            self.program = Program("proxy.py", bootstrap, name, *(["--sotw"] if kind == "envoy-sotw" else []))
        else:
            self.program = Program("grpc_client.py", bootstrap)

    def heard_of(self, node, sketch):
        """The same request as this client sends it, for explain."""
        asked = {**sketch, "client_labels": {"canary": self.canary}, "caller_service": "cart"}
        asked |= {"caller_namespace": self.namespace, "caller_metadata": {"canary": self.canary}}
        if not self.is_envoy:
            asked |= {"query": {}, "method": "POST"}
        service = asked.pop("service")
        question = {"namespace": self.namespace, "service": service, **asked}
        return node.call(f"{ROUTES}/explain", question)["explanation"]

    def call(self, sketch, times):
        if not self.is_envoy:
            target = f"xds:///{self.namespace}/{sketch['service']}"
            metadata = {name.lower(): value for name, value in sketch["headers"].items()}
            return self.program.ask(op="call", target=target, method=sketch["path"], metadata=metadata, times=times)
        query = "&".join(f"{key}={value}" for key, value in sketch["query"].items())
        return self.program.ask(
            op="call", port=self.outbound, host=f"{sketch['service']}.{self.namespace}", method=sketch["method"],
            path=sketch["path"] + ("?" + query if query else ""), headers=sketch["headers"], times=times,
        )

    def is_ready(self, services):
        """Every service is known; one that has no instance fails otherwise than an unknown one."""
        if self.is_envoy:
            return self.program.ask(op="state")["ready"] == "LIVE" and self.can_call()
        return bool(services)

    def can_call(self):
        told = self.program.ask(op="call", port=self.outbound, host="nobody", times=1)
        return "ConnectionRefusedError" not in told["errors"]


# --- the comparison ---


def limit(degrees):
    """Quantile of chi-square by Wilson and Hilferty."""
    part = 2 / (9 * degrees)
    return degrees * (1 - part + QUANTILE * math.sqrt(part)) ** 3


def differs(shares, counts):
    """Why the counts are not of this distribution; None where they may be."""
    total = sum(counts.values())
    never = {address: count for address, count in counts.items() if address not in shares}
    if never:
        return f"calls that must not be: {never}"
    rare = [address for address, share in shares.items() if share * total < EXPECTED_MIN]
    cells = [(shares[one] * total, counts[one]) for one in shares if one not in rare]
    if rare:
        cells.append((sum(shares[one] for one in rare) * total, sum(counts[one] for one in rare)))
    cells = [(wanted, seen) for wanted, seen in cells if wanted > 1]
    if len(cells) < 2:
        return None
    statistic = sum((seen - wanted) ** 2 / wanted for wanted, seen in cells)
    return None if statistic <= limit(len(cells) - 1) else f"chi-square {statistic:.1f} of {len(cells)} cells"


def run(node, seed, addresses, calls, directory):
    """Differences that one seed shows, and the counts of judged and other calls."""
    world = World(node, seed, addresses)
    kinds = [("grpc", "yes"), ("grpc", "no"), ("envoy-delta", "yes"), ("envoy-sotw", "no")]
    clients = [Client(node, world.namespace, kind, canary, directory) for kind, canary in kinds]
    sketches = [{**world.sketch(), "service": service} for service in sorted(world.instances) for _ in range(SKETCHES)]
    times = max(1, calls // (len(sketches) * len(clients)))
    cells, judged, unjudged, differences = collections.defaultdict(collections.Counter), 0, 0, []
    for client in clients:
        eventually(f"{client.kind} is ready", lambda client=client: client.is_ready(world.instances))
        for sketch in sketches:
            shares, kinds_out = expected(client.heard_of(node, sketch), world.instances[sketch["service"]])
            told = client.call(sketch, times)
            if ("envoy" if client.is_envoy else "grpc") in kinds_out:
                unjudged += times
                continue
            judged += times
            key = (client.kind, client.canary, sketch["service"], tuple(sorted(shares.items(), key=str)))
            counts = collections.Counter(told["answers"])
            counts.update({None: sum(told["errors"].values())} if told["errors"] else {})
            never = {address for address in counts if address not in shares}
            if never:
                differences.append(f"{key[:3]} {json.dumps(sketch)}: expected {shares}, got {counts} {told['texts']}")
            cells[key].update(counts)
    for key, counts in cells.items():
        why = differs(dict(key[3]), counts)
        if why:
            differences.append(f"{key[:3]}: {why}: expected {dict(key[3])}, got {dict(counts)}")
    for client in clients:
        client.program.end()
    return differences, judged, unjudged


def main(options):
    with tempfile.TemporaryDirectory(prefix="thuban-conformance-") as directory:
        node, backends = Node(options.binary, directory), Program("backends.py", str(BACKENDS))
        try:
            for seed in range(options.first, options.first + options.seeds):
                differences, judged, unjudged = run(node, seed, backends.first["addresses"], options.calls, directory)
                print(f"seed {seed}: {judged} calls judged, {unjudged} of rules that are not carried out", flush=True)
                if differences:
                    print("\n".join(differences))
                    print(f"seed {seed} differs: scripts/xds-conformance --first {seed} --seeds 1")
                    return 1
        finally:
            backends.end()
            node.end()
    return 0


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    PARSER.add_argument("--binary", required=True)
    PARSER.add_argument("--seeds", type=int, default=20)
    PARSER.add_argument("--first", type=int, default=1)
    PARSER.add_argument("--calls", type=int, default=10_000)
    sys.exit(main(PARSER.parse_args()))
