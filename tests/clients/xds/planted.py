"""Faults planted into rules, requests and what is expected: the comparison has to find each of them.

A fault of rules is published, and explain is asked of the rule that it was made from, which is saved behind it. Each fault is
tried with worlds in which it makes a difference to explain or to a rule, and has to be found within three.
"""

import collections
import copy

import limiting
import transitions
from callers import start_clients
from comparison import Comparison
from judging import Expectation, Policies, expected, extent_of
from worlds import World, draw_of

KINDS = [("grpc", "yes", ("eu", "a", "1"), "cart"), ("envoy-delta", "no", ("eu", "b", "2"), "cart")]
SKETCHES, CALLS, WORLDS = 24, 16, 3
NEXT = {"s0": "s1", "s1": "s2", "s2": "s0"}
OPPOSITES = {"EXACT": "NOT_EQUALS", "NOT_EQUALS": "EXACT", "IN": "NOT_IN", "NOT_IN": "IN", "OR": "AND", "AND": "OR"}


class Plant:
    """Nothing is planted."""

    has_draft = False

    def mutated(self, made):
        return made

    def sent(self, sketch):
        return sketch

    def expected(self, world, client, sketch, asked):
        explanation = world.explain(asked | {"draft": self.has_draft})
        return self.falsified(expected(explanation, world.instances, sketch["service"], client), world)

    def falsified(self, wanted, _world):
        return wanted


class OfRules(Plant):
    """A fault in every rule."""

    has_draft = True

    def __init__(self, mutate):
        self.mutate = mutate

    def mutated(self, made):
        made = copy.deepcopy(made)
        self.mutate(made["routing_config"])
        return made


class OfParts(OfRules):
    """A fault in every sub-rule."""

    def mutated(self, made):
        made = copy.deepcopy(made)
        for part in made["routing_config"].get("rules", []):
            self.mutate(part)
        return made


class OfRequests(Plant):
    def __init__(self, send):
        self.send = send

    def sent(self, sketch):
        return self.send(sketch)


class OfShares(Plant):
    def __init__(self, falsify):
        self.falsify = falsify

    def falsified(self, wanted, _world):
        shares = self.falsify(dict(wanted.shares))
        total = sum(shares.values())
        return Expectation({one: share / total for one, share in shares.items()}, wanted.extent)


class OfClient(Plant):
    """Explain is asked as of another client."""

    def __init__(self, **others):
        self.others = others

    def expected(self, world, client, sketch, asked):
        explanation = world.explain(asked | self.others)
        return expected(explanation, world.instances, sketch["service"], client)


class OfPlace(Plant):
    def expected(self, world, client, sketch, asked):
        other = copy.copy(client)
        other.place = ("us", "a", "1") if client.place[0] == "eu" else ("eu", "a", "1")
        return expected(world.explain(asked), world.instances, sketch["service"], other)


class OfInstances(Plant):
    """Something of the instances is taken for otherwise."""

    def __init__(self, **fields):
        self.fields = fields

    def expected(self, world, client, sketch, asked):
        instances = {service: [one | self.fields for one in rows] for service, rows in world.instances.items()}
        return expected(world.explain(asked), instances, sketch["service"], client)


class OfOrder(Plant):
    """Standby groups are taken for what shares the traffic."""

    def expected(self, world, client, sketch, asked):
        explanation = world.explain(asked)
        shares, policies = collections.Counter(), Policies(explanation, client.place)
        for one in world.instances[sketch["service"]]:
            for address, weight in policies.best([one]).items():
                shares[address] += weight
        total = sum(shares.values())
        shares = {address: share / total for address, share in shares.items()} or {None: 1.0}
        return Expectation(shares, extent_of(explanation, client))


# --- faults of rules ---


def conditions(part):
    return part["arguments"]["arguments"]


def drop_condition(part):
    del conditions(part)[:1]


def invert_comparison(part):
    for one in conditions(part):
        value = one.get("value", {})
        value["type"] = OPPOSITES.get(value.get("type"), value.get("type"))


def confuse_and_with_or(part):
    part["arguments"]["matchMode"] = OPPOSITES[part["arguments"]["matchMode"]]


def anchor_expressions(part):
    for one in conditions(part):
        if one.get("value", {}).get("type") == "REGEX":
            one["value"]["value"] = f"^(?:{one['value']['value']})x$"


def move_ranges(part):
    for one in conditions(part):
        if one.get("value", {}).get("type") == "RANGE":
            one["value"]["value"] = "1000~2000"


def rename_keys(part):
    for one in conditions(part):
        one["key"] += "x" if one["key"] else ""


def cut_lists(part):
    for one in conditions(part):
        if one.get("value", {}).get("type") in ("IN", "NOT_IN"):
            one["value"]["value"] = "nothing"


def halve_percentage(part):
    part["arguments"]["random_percent"] = {100: 50, 50: 100, 30: 70, 1: 60}[part["arguments"]["random_percent"]]


def reverse_rules(config):
    config.get("rules", []).reverse()


def rotate_destinations(config):
    rules = config.get("rules", [])
    given = [part["destinations"] for part in rules]
    for part, destinations in zip(rules, given[1:] + given[:1]):
        part["destinations"] = destinations


def turn_isolation(part):
    for one in part["destinations"]:
        one["isolate"] = not one["isolate"]


def turn_priorities(part):
    for one in part["destinations"]:
        one["priority"] = 5 - one.get("priority", 5)


def forget_weights(part):
    for number, one in enumerate(part["destinations"]):
        one["weight"] = 1 + 9 * number


def forget_labels(part):
    for one in part["destinations"]:
        one["labels"] = {}


def other_labels(part):
    for one in part["destinations"]:
        for value in one["labels"].values():
            value["type"] = OPPOSITES.get(value["type"], value["type"])


def other_caller(config):
    if "caller" in config:
        is_every = config["caller"]["service"] == "*"
        own = {"service": "other", "namespace": config["callee"]["namespace"]}
        config["caller"] = own if is_every else {"service": "*", "namespace": "*"}


def other_level(config):
    if "match_level" in config:
        config["match_level"] = "ALL" if config["match_level"] != "ALL" else "CAMPUS"


def other_metadata(config):
    if "labels" in config:
        config["labels"] = {"version": "v9"}


# --- faults of what is expected ---


def forget_largest(shares):
    if len(shares) > 1:
        shares.pop(max(shares, key=shares.get))
    return shares


def all_equal(shares):
    return dict.fromkeys(shares, 1.0)


def failing(_shares):
    return {None: 1.0}


def turned(shares):
    values = sorted(shares.values())
    return dict(zip(sorted(shares, key=shares.get, reverse=True), values))


def without(field):
    return lambda sketch: sketch | {field: {}}


PLANTS = {
    "a condition is dropped": OfParts(drop_condition),
    "a comparison is inverted": OfParts(invert_comparison),
    "AND and OR are confused": OfParts(confuse_and_with_or),
    "expressions have to match the whole": OfParts(anchor_expressions),
    "ranges are others": OfParts(move_ranges),
    "keys are others": OfParts(rename_keys),
    "lists lose their words": OfParts(cut_lists),
    "percentages are others": OfParts(halve_percentage),
    "sub-rules are in another order": OfRules(reverse_rules),
    "destinations of sub-rules are swapped": OfRules(rotate_destinations),
    "isolation of groups is inverted": OfParts(turn_isolation),
    "priorities of groups are reversed": OfParts(turn_priorities),
    "weights of groups are others": OfParts(forget_weights),
    "labels of groups are lost": OfParts(forget_labels),
    "labels of groups are inverted": OfParts(other_labels),
    "callers of rules are others": OfRules(other_caller),
    "levels of nearness are others": OfRules(other_level),
    "metadata that is asked for is other": OfRules(other_metadata),
    "headers are not sent": OfRequests(without("headers")),
    "query is not sent": OfRequests(without("query")),
    "cookies are not sent": OfRequests(without("cookies")),
    "another path is called": OfRequests(lambda sketch: sketch | {"path": "/p.U/Other"}),
    "another service is called": OfRequests(lambda sketch: sketch | {"service": NEXT[sketch["service"]]}),
    "the largest share is forgotten": OfShares(forget_largest),
    "shares are taken for equal": OfShares(all_equal),
    "shares are swapped": OfShares(turned),
    "all is taken for failing": OfShares(failing),
    "grays are for others": OfClient(client_labels={"canary": "maybe"}),
    "the caller is another": OfClient(caller_service="nobody"),
    "the caller has no labels": OfClient(caller_metadata={}),
    "the place is another": OfPlace(),
    "health is ignored": OfInstances(healthy=True),
    "isolation is ignored": OfInstances(isolate=False),
    "weights are ignored": OfInstances(weight=1),
    "rules are ignored": OfOrder(),
}


class PlantedWorld(World):
    """A world whose rules are published otherwise than they are saved."""

    plant = Plant()

    def save_and_publish(self, made, **more):
        mutated = self.plant.mutated(made)
        self.save(mutated)
        self.publish(made["name"], **more)
        if self.plant.has_draft:
            self.save(made)


def of_plant(node, number, plant, addresses, seed):
    """Differences that a planted fault makes in one world."""
    world = PlantedWorld(node, f"x{number}-{seed}", draw_of("plants", seed), addresses)
    world.plant = plant
    # Rules that are saved behind their releases have none for some clients.
    world.fill(has_grays=not plant.has_draft)
    clients = start_clients(node, world.namespace, KINDS)
    comparison = Comparison(world, plant=plant)
    comparison.run(clients, world.sketches(SKETCHES), CALLS)
    for client in clients:
        client.program.end()
    return comparison.differences


def more_than(holds):
    return {key: total + 3 for key, total in holds.items()}


def counted_together(holds):
    return {(rule, index, (), length): total for (rule, index, _, length), total in holds.items()}


def without_limits(_holds):
    return {}


OF_LIMITS = {
    "limits are taken for larger": more_than, "counters are taken for one": counted_together,
    "limits are ignored": without_limits,
}


def run(node, backends, seeds, counts):
    addresses, seeds = backends.first["addresses"], list(seeds)[:1]
    trials = {}
    for number, (name, plant) in enumerate(PLANTS.items()):
        trials[name] = lambda seed, number=number, plant=plant: of_plant(node, number, plant, addresses, seed)
    for number, (name, falsified) in enumerate(OF_LIMITS.items()):
        ignored = collections.Counter()
        trials[name] = lambda seed, number=number, falsified=falsified, ignored=ignored: limiting.of_seed(
            node, f"x{number}-{seed}", addresses, ignored, falsified)
    trials["changes are taken for late"] = lambda seed: transitions.of_seed(
        node, f"x-t{seed}", seed, addresses[:6], collections.Counter(), is_stale=True)
    # A harness that finds a fault in everything finds these too.
    assert not of_plant(node, len(PLANTS), Plant(), addresses, seeds[0]), "a difference without a fault"
    for name, trial in trials.items():
        found = next((tried for tried in range(WORLDS) if trial(seeds[0] + tried)), None)
        counts["faults planted"] += 1
        counts["faults found"] += int(found is not None)
        counts["faults found in the first world"] += int(found == 0)
        print(f"{name}: {'not found' if found is None else f'found in world {found + 1}'}", flush=True)
        yield seeds[0], [f"{name}: not found"] if found is None else []
