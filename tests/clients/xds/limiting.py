"""Random rate limits and circuit breakers, as far as explain says that clients of xDS carry them out.

A limit holds a number of calls for a time that no run lasts. A call has to be answered as long as every counter that explain
names has been asked for fewer calls than it holds; it has to be refused with 429 once one of them has answered as many as it
holds; gRPC calls are refused with RESOURCE_EXHAUSTED. Between them a call that another limit refused may have counted or not. A limit that is not carried out refuses none.

A breaker is tried with an instance that fails: clients have to leave it out if explain says of a call that a breaker watches
it which this kind of client carries out, and have to go on to call it else.
"""

import collections
import json
import time

from callers import Client, Program, eventually, free_ports
from judging import effect_of
from worlds import INSTANCES, VERBS, condition, draw_of, sketch

LIMITS, BREAKERS = "/naming/v1/ratelimits", "/naming/v1/circuitbreakers"
SERVICE, REQUESTS = "pay", 120
LONG = "3600s"
GRPC_REQUESTS, REFILLED_EACH = 10, 5
# By then every kind of client has left out an instance that fails: it counts for a second, and looks each second.
EJECTED_S = 8
STAYING_S = 3


class World:
    """A namespace with one service of these addresses."""

    def __init__(self, node, namespace, addresses, **more):
        self.node, self.namespace = node, namespace
        rows = []
        for address in addresses:
            host, port = address.split(":")
            rows.append({"namespace": namespace, "service": SERVICE, "host": host, "port": int(port), **more})
        node.call(INSTANCES, rows)

    def publish(self, family, rule):
        self.node.call(family, [rule | {"namespace": self.namespace}])
        self.node.call(f"{family}/releases", [{"rule_name": rule["name"], "namespace": self.namespace}])

    def explain(self, family, asked):
        return self.node.call(f"{family}/explain", asked)["explanation"]


# --- limits ---


def limit(draw, namespace, number):
    arguments = [condition(draw, namespace, False) for _ in range(draw.choice([0, 1, 1, 2]))]
    apis = []
    for _ in range(draw.choice([0, 0, 1, 2])):
        path = condition(draw, namespace, False, "PATH").get("value")
        api = {"protocol": draw.choice(["*", "HTTP", ""]), "method": draw.choice(["*", "", *VERBS])}
        apis.append(api | ({"path": path} if path else {}))
    amounts = [{"maxAmount": draw.choice([0, 1, 3, 8, 20]), "validDuration": LONG}]
    if draw.random() < 0.3:
        amounts.append({"maxAmount": draw.choice([2, 5, 30]), "validDuration": "7200s"})
    trigger = {
        "name": "one", "resource": "QPS", "arguments": arguments, "apis": apis, "amounts": amounts,
        "regex_combine": draw.random() < 0.5,
    }
    return {"name": f"limit-{number}", "service": SERVICE, "type": draw.choice(["LOCAL", "GLOBAL"]), "rules": [trigger]}


class Counters:
    """Calls that each counter was asked for, and those that it answered."""

    def __init__(self, instances):
        self.instances = instances
        self.asked, self.answered = collections.Counter(), collections.Counter()

    def of(self, explanation):
        """Counters of a request, each with how many calls it holds."""
        found = {}
        for candidate in explanation["candidates"]:
            if candidate["carried_out_by"]["envoy"] == "no":
                continue
            for part in candidate["rules"]:
                if part["verdict"] != "applies":
                    continue
                quota = effect_of(part, "counter")
                counted = tuple((one["type"], one["key"].lower(), one["value"]) for one in quota["counter"])
                for amount in quota["amounts"]:
                    total = int(amount["maxAmount"])
                    if quota["type"] == "GLOBAL" and total:
                        total = max(1, total // self.instances)
                    found[(candidate["rule_name"], part["index"], counted, amount["validDuration"])] = total
        return found

    def judge(self, holds, is_answered):
        """Reason why a call with these counters must not be answered so; None where it may."""
        must_be_answered = all(self.asked[key] < total for key, total in holds.items())
        must_be_refused = any(self.answered[key] >= total for key, total in holds.items())
        self.asked.update(holds.keys())
        if is_answered:
            self.answered.update(holds.keys())
        if is_answered and must_be_refused:
            return "answered, and the limit was reached"
        return "refused, and no limit was reached" if not is_answered and must_be_answered else None


def of_seed(node, seed, addresses, counts, falsified=None):
    """Differences that calls to a service with random limits show; `falsified` changes what is expected."""
    draw, namespace = draw_of("limits", seed), f"l{seed}"
    world = World(node, namespace, addresses[:2])
    for number in range(draw.randint(1, 3)):
        world.publish(LIMITS, limit(draw, namespace, number))
    kind = draw.choice(["envoy-delta", "envoy-sotw"])
    inbound = (free_ports(1)[0], int(addresses[0].split(":")[1]))
    client = Client(node, namespace, kind, service=SERVICE, inbound=inbound)
    client.become_ready()
    counters, differences = Counters(2), []
    for _ in range(REQUESTS):
        asked = sketch(draw) | {"service": SERVICE}
        heard = client.as_heard(asked) | {"protocol": "http"}
        # The proxy of the service that is called knows nothing of who calls but the address.
        for field in ("caller_service", "caller_namespace", "caller_metadata"):
            heard.pop(field)
        heard["caller_ip"] = "127.0.0.1"
        holds = counters.of(world.explain(LIMITS, heard))
        if falsified:
            holds = falsified(holds)
        for _ in range(draw.choice([1, 1, 3, 6])):
            told = client.call_inbound(asked, 1)
            if set(told["errors"]) - {"429"}:
                differences.append(f"{client.name} {json.dumps(asked)}: {told}")
                continue
            counts["calls that limits counted" if holds else "calls without a limit"] += 1
            counts["calls that were limited"] += int("429" in told["errors"])
            why = counters.judge(holds, bool(told["answers"]))
            if why:
                differences.append(f"{client.name} limits {json.dumps(asked)}: {why}: {holds}")
    if not falsified:
        differences += of_grpc(world, client, counters, draw, counts)
        differences += refilled(node, seed, addresses, counts) if seed % REFILLED_EACH == 0 else []
    client.program.end()
    return differences


def of_grpc(world, client, counters, draw, counts):
    """Differences of calls of gRPC that have to be refused; what answers HTTP alone answers no others."""
    program, differences = Program("grpc_client.py", "no bootstrap"), []
    for _ in range(GRPC_REQUESTS):
        asked = sketch(draw) | {"service": SERVICE, "method": "POST", "query": {}, "cookies": {}}
        heard = {"namespace": world.namespace, "service": SERVICE, "protocol": "grpc", "method": "POST", "path": asked["path"]}
        holds = counters.of(world.explain(LIMITS, heard | {"headers": asked["headers"], "caller_ip": "127.0.0.1"}))
        if any(counters.answered[key] >= total for key, total in holds.items()):
            metadata = {name.lower(): value for name, value in asked["headers"].items()}
            target = f"127.0.0.1:{client.inbound[0]}"
            told = program.ask(op="call", target=target, method=asked["path"], metadata=metadata)
            counts["calls of gRPC that were limited"] += 1
            if set(told["errors"]) != {"RESOURCE_EXHAUSTED"}:
                differences.append(f"{client.name} gRPC {json.dumps(asked)}: {told}: {holds}")
    program.end()
    return differences


def refilled(node, seed, addresses, counts):
    """Differences of a limit of some calls in two seconds: as many are answered as the windows hold that began."""
    amount, window_s, windows = 3, 2, 3
    world = World(node, f"f{seed}", addresses[:1])
    trigger = {"resource": "QPS", "amounts": [{"maxAmount": amount, "validDuration": f"{window_s}s"}]}
    world.publish(LIMITS, {"name": "short", "service": SERVICE, "type": "LOCAL", "rules": [trigger]})
    inbound = (free_ports(1)[0], int(addresses[0].split(":")[1]))
    client = Client(node, world.namespace, "envoy-delta", service=SERVICE, inbound=inbound)
    client.become_ready()
    asked = {"headers": {}, "query": {}, "cookies": {}, "path": "/p.S/List", "method": "GET", "service": SERVICE}
    begun, answered = time.monotonic(), 0
    while time.monotonic() - begun < windows * window_s:
        answered += sum(client.call_inbound(asked, 5)["answers"].values())
        time.sleep(0.02)
    client.program.end()
    counts["refills seen"] += windows
    if amount * (windows - 1) <= answered <= amount * (windows + 1):
        return []
    return [f"{client.name}: {answered} answered of {amount} each {window_s} s within {windows * window_s} s"]


# --- breakers ---


def breaker(draw, namespace, number):
    caller = draw.choice(["*", "*", "cart", "other"])
    triggers = []
    for kind in draw.sample(["ERROR_RATE", "CONSECUTIVE_ERROR"], draw.choice([1, 1, 2])):
        rate = {"error_percent": draw.choice([30, 60, 90]), "interval": 1, "minimum_request": 5}
        triggers.append({"trigger_type": kind} | (rate if kind == "ERROR_RATE" else {"error_count": draw.choice([3, 5])}))
    errors = [
        {"input_type": "RET_CODE", "condition": {"type": "RANGE", "value": "500~599"}},
        {"input_type": "RET_CODE", "condition": {"type": "EXACT", "value": "404"}},
        {"input_type": "DELAY", "condition": {"type": "EXACT", "value": "100"}},
    ]
    return {
        "name": f"breaker-{number}", "priority": number, "level": draw.choice(["INSTANCE"] * 5 + ["SERVICE"]),
        "rule_matcher": {
            "source": {"service": caller, "namespace": "*" if caller == "*" else namespace},
            "destination": {"service": SERVICE, "namespace": namespace},
        },
        "error_conditions": [errors[draw.choice([0] * 8 + [1, 2])]], "trigger_condition": triggers,
        "max_ejection_percent": 50, "recover_condition": {"sleep_window": 60, "consecutive_success": 0},
    }


def is_watched(explanation, kind):
    """True if a client of the kind counts the errors of the call, and leaves out an instance that has nothing else."""
    for candidate in explanation["candidates"]:
        for part in candidate["rules"]:
            if part["verdict"] != "applies" or candidate["carried_out_by"][kind] == "no":
                continue
            found = effect_of(part, "trigger_conditions")
            counted = [one["trigger_type"] for one in found["trigger_conditions"]]
            if found["level"] == "INSTANCE" and ("ERROR_RATE" in counted or kind == "envoy"):
                return True
    return False


def run(node, backends, seeds, counts):
    addresses = backends.first["addresses"][:4]
    for seed in seeds:
        draw, namespace = draw_of("breakers", seed), f"b{seed}"
        world = World(node, namespace, addresses)
        for number in range(draw.randint(1, 2)):
            world.publish(BREAKERS, breaker(draw, namespace, number))
        kinds = [("grpc", "cart"), ("envoy-delta", "cart"), ("envoy-sotw", "other")]
        clients = [Client(node, namespace, kind, service=service) for kind, service in kinds]
        differences = []
        for client in clients:
            client.become_ready()
            backends.ask(op="behave", at=addresses[0], http=503, grpc=14)
            differences += left_out(world, client, addresses, draw, counts)
            backends.ask(op="behave", at=addresses[0])
            client.program.end()
        print(f"seed {seed}: {counts['instances left out']} left out, {counts['instances called on']} not", flush=True)
        yield seed, differences


def left_out(world, client, addresses, draw, counts):
    """Differences of one client: whether calls to the failing instance end."""
    asked = sketch(draw) | {"service": SERVICE}
    heard = client.as_heard(asked)
    wanted = is_watched(world.explain(BREAKERS, heard), client.dialect)

    def is_out():
        told = client.call(asked, 40)
        return not told["errors"] and set(told["answers"]) == set(addresses[1:])

    # It is called at all.
    eventually(f"{client.name} calls all", lambda: len(client.call(asked, 40)["answers"]) == len(addresses) - 1)
    begun = time.monotonic()
    ends = begun + (EJECTED_S if wanted else STAYING_S)
    while time.monotonic() < ends and not is_out():
        time.sleep(0.1)
    is_ejected = is_out()
    counts["instances left out" if is_ejected else "instances called on"] += 1
    if is_ejected == wanted:
        return []
    return [f"{client.name}: the failing instance is {'' if is_ejected else 'not '}left out, expected: {wanted}"]

