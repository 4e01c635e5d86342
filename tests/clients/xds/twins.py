"""The same rules written otherwise: whatever explain says, calls have to go where they went before.

A twin of a service has the same instances, and rules with headers renamed, conditions in another order, or the conditions of
an OR as a sub-rule each.
"""

import copy

from worlds import comparison_of

SUFFIX = "t"
RENAMED = "x-"


def renamed(name):
    return RENAMED + name.lower()


def rename_headers(_draw, rules):
    for part in rules:
        names = {one["key"]: renamed(one["key"]) for one in part["arguments"]["arguments"] if one["type"] == "HEADER"}
        others = {one["key"] for one in part["arguments"]["arguments"] if one["type"] != "HEADER"}
        assert not others & names.keys(), "a key of two kinds"
        for one in part["arguments"]["arguments"]:
            if one["type"] == "HEADER":
                one["key"] = names[one["key"]]
        for destination in part["destinations"]:
            for label in destination["labels"].values():
                if label.get("value_type") == "PARAMETER":
                    name = label["value"].removeprefix("$header.")
                    label["value"] = label["value"].removesuffix(name) + names.get(name, name)
    return rules


def reorder_conditions(draw, rules):
    for part in rules:
        conditions = part["arguments"]["arguments"]
        if sum(comparison_of(one) == "PARAMETER" for one in conditions) < 2:
            draw.shuffle(conditions)
    return rules


def split_or(_draw, rules):
    made = []
    for part in rules:
        arguments = part["arguments"]
        takes_values = any(comparison_of(one) == "PARAMETER" for one in arguments["arguments"])
        is_split = arguments["matchMode"] == "OR" and arguments["random_percent"] == 100 and not takes_values
        ways = [[one] for one in arguments["arguments"]] if is_split else []
        for way in ways or [arguments["arguments"]]:
            made.append(copy.deepcopy(part) | {"name": f"p{len(made)}"})
            made[-1]["arguments"]["arguments"] = way
    return made


WAYS = [rename_headers, reorder_conditions, split_or]


class Twins:
    """Twins of the services of a world, each written otherwise in one way."""

    def __init__(self, world):
        self.world, self.ways = world, {}
        shared = {made["routing_config"]["callee"]["service"] for made, more in world.published if "client_percent" in more}
        for service in sorted(world.instances):
            # The share of a rule is drawn by its own name.
            if service not in shared:
                self.ways[service] = world.draw.choice(WAYS)
        for service in sorted(world.instances):
            self.register(service)
        for made, more in world.published:
            self.publish(made, more)

    def register(self, service):
        rows = [one | {"service": service + SUFFIX} for one in self.world.instances[service]]
        self.world.node.call("/naming/v1/instances", rows)

    def publish(self, made, more):
        made = copy.deepcopy(made)
        config = made["routing_config"]
        end = config["callee"] if "callee" in config else config
        service, end["service"] = end["service"], end["service"] + SUFFIX
        made["name"] += "-" + SUFFIX
        if service not in self.ways:
            return
        if "rules" in config:
            config["rules"] = self.ways[service](self.world.draw, config["rules"])
            for destination in [one for part in config["rules"] for one in part["destinations"]]:
                for field in ("service", "transfer"):
                    if field in destination:
                        destination[field] += SUFFIX
        self.world.save_and_publish(made, **more)

    def of(self, sketch):
        """The request to the twin; none if there is no twin of the service."""
        service = sketch["service"]
        if service not in self.ways:
            return None
        headers = sketch["headers"]
        if self.ways[service] is rename_headers:
            headers = {renamed(name): value for name, value in headers.items()}
        return sketch | {"service": service + SUFFIX, "headers": headers}
