"""Random services, rules and requests that clients of xDS are compared by."""

import collections
import random
import re
import socket

KINDS = [
    "HEADER", "METHOD", "PATH", "QUERY", "COOKIE", "CALLER_IP", "CALLER_METADATA", "CALLER_SERVICE", "CUSTOM",
]
COMPARISONS = ["EXACT", "NOT_EQUALS", "IN", "NOT_IN", "REGEX", "RANGE", "PARAMETER", "PRESENT"]
HEADERS, VALUES = ["Env", "user", "level"], ["a", "b", "ab", "5", "7", "12", "05", "-1", "v1", "v2", ""]
QUERIES, COOKIES = ["q", "page"], ["c", "session"]
VERBS, NAMES = ["GET", "POST", "PUT"], ["Charge", "Refund", "List"]
PATHS = [f"/{service}/{name}" for service in ("p.S", "p.T") for name in NAMES]
CALLERS, METADATA = ["cart", "other", "x"], ["yes", "no"]
LABELS = {"version": ["v1", "v2", "v3"], "tier": ["x", "y"], "level": ["1", "5", "12"]}
PLACES = [("eu", "a", "1"), ("eu", "a", "2"), ("eu", "b", "1"), ("us", "a", "1"), ("", "", "")]
ROUTES = "/naming/v1/routings"
INSTANCES = "/naming/v1/instances"
SERVICES = ["s0", "s1", "s2"]


def own_address():
    """Address of this machine, which an Envoy names in its calls."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        # Nothing is sent.
        one.connect(("192.0.2.1", 9))
        return one.getsockname()[0]


ADDRESSES = ["127.0.0.1", own_address(), "10.0.0.9"]
# Makes a list longer than an expression that proxies take by default.
MANY = [f"word-{number}" for number in range(30)]


# --- conditions ---


def words_of(kind, is_by_name):
    """Values that requests have in a part; a method is a verb, or the name that gRPC calls it by."""
    methods = NAMES if is_by_name else VERBS
    own = {"PATH": PATHS, "METHOD": methods, "CALLER_METADATA": METADATA, "CALLER_SERVICE": CALLERS, "CALLER_IP": ADDRESSES}
    return own.get(kind, VALUES)


def key_of(draw, kind, namespace):
    keys = {
        "HEADER": [*HEADERS, "eNV"], "QUERY": QUERIES, "COOKIE": COOKIES, "CALLER_METADATA": ["canary", "absent"],
        "CALLER_SERVICE": ["", "*", namespace, "elsewhere"], "CUSTOM": ["c"],
    }
    return draw.choice(keys.get(kind, [""]))


def expression(draw, word):
    """One that the word meets, or most often does."""
    if not word:
        return draw.choice(["^$", "^", "x?"])
    text = re.escape(word).replace(r"\-", "-")
    forms = [f"^{text}", f"{text}$", f"^{text}$", f"[{word[-1]}z]", f"^{text}$|b", f"(?i){text.swapcase()}$", f"^.?{text}"]
    return draw.choice(forms)


def condition(draw, namespace, is_by_name, kind=None, comparison=None):
    kind = kind or draw.choice([*KINDS, "HEADER", "HEADER", "PATH"])
    comparison = comparison or draw.choice([*COMPARISONS, "EXACT", "REGEX"])
    key, words = key_of(draw, kind, namespace), words_of(kind, is_by_name)
    value = draw.choice(words)
    made = {"type": kind, "key": key}
    if comparison == "PRESENT":
        open_value = draw.choice([None, {"type": "EXACT", "value": "*"}, {"type": "EXACT", "value": ""}])
        return made | ({"value": open_value} if open_value else {})
    if comparison == "PARAMETER":
        return made | {"value": {"type": "EXACT", "value_type": "PARAMETER", "value": draw.choice(["", "given"])}}
    if comparison in ("IN", "NOT_IN"):
        listed = draw.sample(words, draw.randint(1, min(3, len(words))))
        value = ",".join(listed + (MANY if draw.random() < 0.05 else []))
    elif comparison == "REGEX":
        value = expression(draw, value)
    elif comparison == "RANGE":
        value = draw.choice(["5~7", "0~6", "7~100", "12~12"])
    return made | {"value": {"type": comparison, "value": value}}


def comparison_of(made):
    """The word of `COMPARISONS` that a condition was made with."""
    value = made.get("value")
    if value is None or (value["type"] == "EXACT" and value["value"] in ("", "*") and "value_type" not in value):
        return "PRESENT"
    return "PARAMETER" if value.get("value_type") == "PARAMETER" else value["type"]


def kind_of(made):
    return f"{made['type']} {comparison_of(made)}"


def is_met(comparison, value):
    """The condition on a value as the specification says it; None is an absent value."""
    if value is None:
        return False
    if comparison is None or comparison.get("value_type") == "PARAMETER":
        return True
    kind, wanted = comparison["type"], comparison["value"]
    if kind == "EXACT":
        return wanted in ("", "*", value)
    if kind == "REGEX":
        return re.search(wanted, value) is not None
    if kind == "RANGE":
        low, high = (int(text) for text in wanted.split("~"))
        return re.fullmatch(r"\+?[0-9]+", value) is not None and low <= int(value) <= high
    is_among = value in (wanted.split(",") if kind in ("IN", "NOT_IN") else [wanted])
    return is_among if kind == "IN" else not is_among


# --- rules ---


def label_condition(draw, key):
    comparison = draw.choice(["EXACT", "EXACT", "IN", "NOT_IN", "NOT_EQUALS", "REGEX", "RANGE", "OPEN"])
    value = draw.choice(LABELS[key])
    if comparison in ("IN", "NOT_IN"):
        value = ",".join(draw.sample(LABELS[key], 2))
    elif comparison == "RANGE":
        value = "1~5"
    elif comparison == "OPEN":
        comparison, value = "EXACT", "*"
    return {"type": comparison, "value": value}


def group(draw, namespace, service, number, conditions):
    labels = {key: label_condition(draw, key) for key in draw.sample(sorted(LABELS), draw.choice([0, 1, 1, 2]))}
    named = [one for one in conditions if comparison_of(one) == "PARAMETER"]
    if named and draw.random() < 0.6:
        taken = draw.choice(named)
        part = {"HEADER": "$header.", "QUERY": "$query.", "COOKIE": "$cookie."}.get(taken["type"])
        names = [name for name in (taken["value"]["value"], taken["key"], part and part + taken["key"]) if name]
        if names:
            labels["version"] = {"type": "EXACT", "value_type": "PARAMETER", "value": draw.choice(names)}
    made = {"namespace": namespace, "service": service, "name": f"g{number}", "labels": labels}
    made["isolate"] = draw.random() < 0.1
    if draw.random() < 0.06:
        made["transfer"] = draw.choice([other for other in SERVICES if other != service])
    if draw.random() < 0.7:
        made["priority"] = draw.choice([0, 0, 1, 2])
    if draw.random() < 0.6:
        made["weight"] = draw.choice([0, 1, 30, 70, 100])
    return made


def sub_rules(draw, namespace, service, is_by_name):
    made = []
    for index in range(draw.randint(1, 4)):
        conditions = [condition(draw, namespace, is_by_name) for _ in range(draw.choice([0, 1, 1, 2, 2, 3]))]
        mode = draw.choice(["AND", "AND", "OR"])
        percent = draw.choice([100, 100, 100, 50, 30, 1])
        arguments = {"arguments": conditions, "random_percent": percent, "matchMode": mode}
        groups = [group(draw, namespace, service, number, conditions) for number in range(draw.randint(1, 3))]
        made.append({"name": f"p{index}", "arguments": arguments, "destinations": groups})
    return made


def custom(name, namespace, service, priority, rules, caller="*"):
    config = {
        "caller": {"service": caller, "namespace": "*" if caller == "*" else namespace},
        "callee": {"service": service, "namespace": namespace},
        "rules": rules,
    }
    head = {"name": name, "namespace": namespace, "priority": priority, "route_policy": "RulePolicy"}
    return head | {"routing_config": config}


def policies(draw, namespace, service):
    """Rules by metadata and to the nearest, one of each at most."""
    end = {"namespace": namespace, "service": service}
    if draw.random() < 0.3:
        key = draw.choice(sorted(LABELS))
        config = end | {"labels": {key: draw.choice(LABELS[key])}}
        if draw.random() < 0.7:
            other = {"tier": draw.choice(LABELS["tier"])} if draw.random() < 0.4 else {}
            config["failover"] = {"failover_range": draw.choice(["ALL", "OTHERS", "OTHER_KEYS"]), "labels": other}
        yield {"name": f"{service}-by-metadata", "namespace": namespace, "route_policy": "MetadataPolicy",
               "routing_config": config}
    if draw.random() < 0.4:
        levels = ["UNKNOWN", "CAMPUS", "ZONE", "REGION", "ALL"]
        near = {"match_level": draw.choice(levels), "max_match_level": draw.choice(levels)}
        config = end | near | {"strict_nearby": draw.random() < 0.4}
        yield {"name": f"{service}-nearest", "namespace": namespace, "route_policy": "NearbyPolicy",
               "routing_config": config}


# --- requests ---


def sketch(draw):
    def some(names, chance):
        return {name: draw.choice(VALUES) for name in names if draw.random() < chance}

    return {
        "headers": some(HEADERS, 0.65), "query": some(QUERIES, 0.5), "cookies": some(COOKIES, 0.5),
        "path": draw.choice(PATHS), "method": draw.choice(VERBS),
    }


# --- the whole ---


class World:
    """A namespace with three services, their instances, and rules in force; some for some clients only."""

    def __init__(self, node, namespace, draw, addresses):
        self.node, self.namespace, self.draw = node, namespace, draw
        self.instances = collections.defaultdict(list)
        self.rules, self.published = [], []
        self.is_by_name = {service: draw.random() < 0.3 for service in SERVICES}
        for number, address in enumerate(addresses):
            self.register(SERVICES[number % len(SERVICES)], address)
        node.call(INSTANCES, [one for rows in self.instances.values() for one in rows])

    def register(self, service, address):
        draw, (host, port) = self.draw, address.split(":")
        labels = {key: draw.choice(values) for key, values in LABELS.items() if draw.random() < 0.9}
        region, zone, campus = draw.choice(PLACES)
        made = {
            "namespace": self.namespace, "service": service, "host": host, "port": int(port), "metadata": labels,
            "weight": draw.choice([0, 100, 100, 200, 300]), "healthy": draw.random() < 0.85,
            "isolate": draw.random() < 0.1, "location": {"region": region, "zone": zone, "campus": campus},
        }
        self.instances[service].append(made)

    def fill(self, has_grays=True):
        """Random rules for all services."""
        for service in SERVICES:
            for number in range(self.draw.randint(0, 3)):
                self.custom_rule(service, number, has_grays)
            for made in policies(self.draw, self.namespace, service):
                self.save_and_publish(made)

    def explain(self, asked):
        return self.node.call(f"{ROUTES}/explain", asked)["explanation"]

    def custom_rule(self, service, number, has_grays):
        draw, by_name = self.draw, self.is_by_name[service]
        caller = draw.choice(["*", "*", "cart", "other"])

        def made():
            rules = sub_rules(draw, self.namespace, service, by_name)
            return custom(f"{service}-{number}", self.namespace, service, number, rules, caller)

        first = made()
        chance = draw.random() if has_grays else 1
        if chance > 0.3:
            self.save_and_publish(first)
        if chance > 0.5:
            return
        # A release for some, with another one for all the others or without.
        second = made()
        share = {"client_percent": {"by": draw.choice(["NODE_ID", "CLIENT_IP"]), "percent": draw.choice([30, 50, 70])}}
        label = {"client_labels": [{"key": "canary", "value": {"value": "yes"}}]}
        gray = draw.choice([share, label, label])
        self.save_and_publish(second, release_type="gray", **gray)

    def save_and_publish(self, made, **more):
        self.save(made)
        self.publish(made["name"], **more)
        self.published.append((made, more))

    def save(self, made):
        is_known = any(one["name"] == made["name"] for one in self.rules)
        self.rules.append(made)
        self.node.call(ROUTES, [made], method="PUT" if is_known else "POST")

    def publish(self, name, **more):
        self.node.call(f"{ROUTES}/releases", [{"rule_name": name, "namespace": self.namespace, **more}])

    def sketches(self, count):
        return [sketch(self.draw) | {"service": service} for service in sorted(self.instances) for _ in range(count)]


def draw_of(*seed):
    return random.Random(" ".join(str(part) for part in seed))
