"""Shares of calls that explain speaks of, and whether counts of calls are of these shares."""

import collections
import math

from worlds import is_met

# One-sided normal quantile of one in ten million.
QUANTILE = 5.2
EXPECTED_MIN = 5
# Warnings after which a rule is carried out as explain says of a request without the parts that the client lacks.
NEVER_HOLDS = "this never holds there"
OF_OTHERS = {"grpc": ("W5", "W6", "W10"), "envoy": ("W6", "W8")}
APPROXIMATE = {"grpc": ("W8",), "envoy": ("W10",)}
LEVELS = ["CAMPUS", "ZONE", "REGION", "ALL"]


# What shares are made by: more than one group, groups of other weights, groups that stand by, a share of the requests,
# labels that take over a value of the request.
MADE_BY = ("groups", "weights", "standby", "percentages", "parameters")


class Expectation:
    """Shares by address, None for calls that fail; `extent` is how far they are judged, `made_by` are some of `MADE_BY`."""

    def __init__(self, shares, extent, made_by=frozenset()):
        self.shares, self.extent, self.made_by = shares, extent, made_by

    def key(self):
        return tuple(sorted(self.shares.items(), key=str))


def extent_of(explanation, client):
    """`all`; `allowed`, if shares are approximate; `nothing`, if a rule is not carried out."""
    found, kind = "all", client.dialect
    for candidate in explanation["candidates"]:
        for warning in warnings_of(candidate["carried_out_by"], client):
            number = warning.split(":")[0]
            if number == "W6" and client.is_gateway:
                return "nothing"
            if number in APPROXIMATE[kind]:
                found = "allowed"
            elif number not in OF_OTHERS[kind] and not warning.endswith(NEVER_HOLDS):
                return "nothing"
    return found


def warnings_of(carried, client):
    """Warnings about the library of the client, or about Envoy."""
    if client.library:
        reason = carried["grpc_libraries"][client.library]["reason"]
        return [warning for warning in carried["warnings"] if warning in reason]
    of_xds = [warning for warning in carried["warnings"] if warning.startswith("W")]
    return of_xds if carried["envoy"] != "yes" or client.is_gateway else []


# --- which instances ---


def is_well(one):
    return one["healthy"] and not one["isolate"] and one["weight"] > 0


def has_labels(one, labels):
    def has(comparison, value):
        if comparison.get("value_type") == "PARAMETER":
            return value is not None and value == comparison.get("resolved")
        return is_open(comparison) or is_met(comparison, value)

    return all(has(comparison, one["metadata"].get(key)) for key, comparison in labels.items())


def is_open(comparison):
    return comparison["type"] == "EXACT" and comparison["value"] in ("", "*")


class Policies:
    """Rules by metadata and to the nearest, as explain tells of them to a caller at a place."""

    def __init__(self, explanation, place):
        self.metadata = self.nearness = None
        self.place = place
        for candidate in explanation["candidates"]:
            for part in candidate["rules"]:
                if part["verdict"] == "applies" and candidate["route_policy"] == "MetadataPolicy":
                    self.metadata = effect_of(part, "labels")
                elif part["verdict"] == "applies" and candidate["route_policy"] == "NearbyPolicy":
                    self.nearness = effect_of(part, "match_level")

    def best(self, instances):
        """Weights by address of the best that are well."""
        ranked = collections.defaultdict(dict)
        for one in instances:
            by_metadata, by_place = self.rank_of_metadata(one), self.rank_of_place(one)
            if is_well(one) and by_metadata is not None and by_place is not None:
                ranked[(by_metadata, by_place)][f"{one['host']}:{one['port']}"] = one["weight"]
        return ranked[min(ranked)] if ranked else {}

    def rank_of_metadata(self, one):
        if self.metadata is None:
            return 0
        wanted, own = self.metadata.get("labels") or {}, one["metadata"]
        if wanted.items() <= own.items():
            return 0
        failover = self.metadata.get("failover")
        if failover is None or not failover["labels"].items() <= own.items():
            return None
        return None if failover["failover_range"] == "OTHER_KEYS" and wanted.keys() & own.keys() else 1

    def rank_of_place(self, one):
        if self.nearness is None:
            return 0
        level = {"UNKNOWN": "ZONE"}.get(self.nearness["match_level"], self.nearness["match_level"])
        first = LEVELS.index(level)
        # What is wider than the first level is all that counts of a place.
        counting = [part if number <= 2 - first else "" for number, part in enumerate(self.place)]
        if not any(counting):
            return 0
        level = {"UNKNOWN": "ALL"}.get(self.nearness["max_match_level"], self.nearness["max_match_level"])
        last = max(first, LEVELS.index(level))
        shared = max(first, self.shared(one))
        if shared <= last:
            return shared
        return None if self.nearness["strict_nearby"] else len(LEVELS)

    def shared(self, one):
        (region, zone, campus), at = self.place, one["location"]
        if not region or at["region"] != region:
            return LEVELS.index("ALL")
        if not zone or at["zone"] != zone:
            return LEVELS.index("REGION")
        return LEVELS.index("CAMPUS" if campus and at["campus"] == campus else "ZONE")


def effect_of(part, field):
    """The object among the parts of a sub-rule that has the field."""
    return next(value for value in part.values() if isinstance(value, dict) and field in value)


def rank(destination):
    return ("priority" not in destination, destination.get("priority", 0))


class Spread:
    """Instances that get the share of a group: its own, else the others of its priority, else the next ones."""

    def __init__(self, instances, called, chosen):
        self.instances, self.called, self.policies = instances, called, chosen

    def of_service(self):
        return self.policies.best(self.instances[self.called])

    def of_groups(self, groups):
        found = []
        for destination in groups:
            service = destination.get("transfer") or destination["service"]
            found += [one for one in self.instances[service] if has_labels(one, destination["labels"])]
        return self.policies.best(found)

    def of_group(self, destination, destinations):
        own = self.of_groups([destination])
        if own:
            return own
        others = [one for one in destinations if one["state"] in ("in_use", "standby") and one is not destination]
        for number in sorted({rank(one) for one in others}):
            found = self.of_groups([one for one in others if rank(one) == number]) if number >= rank(destination) else {}
            if found:
                return found
        return {}


def expected(explanation, instances, service, client):
    """Shares as explain says them, each group's spread over its instances by weight."""
    shares, left, made_by = collections.Counter(), 100.0, set()
    spread = Spread(instances, service, Policies(explanation, client.place))

    def give(share, weights):
        total = sum(weights.values())
        for address, weight in weights.items():
            shares[address] += share * weight / total
        if not weights:
            shares[None] += share

    for candidate in explanation["candidates"]:
        for part in candidate["rules"] if candidate["route_policy"] == "RulePolicy" else []:
            if part["verdict"] == "applies":
                destinations = effect_of(part, "destinations")["destinations"]
                made_by |= makers_of(part, destinations)
                for one in destinations:
                    if one["share"] > 0:
                        give(one["share"], spread.of_group(one, destinations))
                left -= part["share"]
    if left > 1e-2:
        give(left, spread.of_service())
    total = sum(shares.values())
    shares = {address: share / total for address, share in shares.items() if share > 1e-9}
    return Expectation(shares, extent_of(explanation, client), made_by)


def makers_of(part, destinations):
    """Those of `MADE_BY` that a sub-rule has which applies."""
    shares = [one["share"] for one in destinations if one["share"] > 0]
    comparisons = [comparison for one in destinations for comparison in one["labels"].values()]
    has = (
        len(shares) > 1, len(set(shares)) > 1, any(one["state"] == "standby" for one in destinations), part["share"] < 100,
        any(comparison.get("value_type") == "PARAMETER" for comparison in comparisons),
    )
    return {name for name, is_there in zip(MADE_BY, has) if is_there}


# --- statistics ---


def limit(degrees):
    """Quantile of chi-square by Wilson and Hilferty."""
    part = 2 / (9 * degrees)
    return degrees * (1 - part + QUANTILE * math.sqrt(part)) ** 3


def counts_of(told):
    """Answers by address, failed calls as None."""
    counts = collections.Counter(told["answers"])
    failed = sum(told["errors"].values())
    return counts + collections.Counter({None: failed} if failed else {})


def cells_of(shares, counts):
    """Pairs of the calls that each share stands for and those that were counted; the rare ones together."""
    total = sum(counts.values())
    rare = [address for address, share in shares.items() if share * total < EXPECTED_MIN]
    cells = [(shares[one] * total, counts[one]) for one in shares if one not in rare]
    if rare:
        cells.append((sum(shares[one] for one in rare) * total, sum(counts[one] for one in rare)))
    return [(wanted, seen) for wanted, seen in cells if wanted > 1]


def differs(shares, counts):
    """Reason why the counts are not of this distribution; None where they may be."""
    never = {address: count for address, count in counts.items() if address not in shares}
    if never:
        return f"calls that must not be: {never}"
    cells = cells_of(shares, counts)
    if len(cells) < 2:
        return None
    statistic = sum((seen - wanted) ** 2 / wanted for wanted, seen in cells)
    return None if statistic <= limit(len(cells) - 1) else f"chi-square {statistic:.1f} of {len(cells)} cells"


def are_of_two(some, others):
    """Reason why two counts are not of one distribution, whatever it is; None where they may be."""
    totals = [sum(some.values()), sum(others.values())]
    cells = [[some[one], others[one]] for one in some.keys() | others.keys()]
    wanted = [[sum(cell) * total / sum(totals) for total in totals] for cell in cells]
    large = [(cell, of) for cell, of in zip(cells, wanted) if min(of) >= EXPECTED_MIN]
    if len(large) < 2:
        return None
    statistic = sum((seen - of) ** 2 / of for cell, ofs in large for seen, of in zip(cell, ofs))
    return None if statistic <= limit(len(large) - 1) else f"chi-square {statistic:.1f} of {len(large)} cells"
