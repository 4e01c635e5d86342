"""Calls of the clients of a world, compared with what explain says of them."""

import collections
import json

from callers import on_each
from judging import are_of_two, cells_of, counts_of, differs, expected

# Requests to each service, and those of them that its twin is asked as well.
SKETCHES, SKETCHES_OF_TWINS = 36, 12


class Comparison:
    """Calls of one world, judged."""

    def __init__(self, world, twins=None, plant=None):
        self.world, self.twins, self.plant = world, twins, plant
        self.counts = collections.Counter()
        # The same of each kind of client, with its differences.
        self.by_kind = collections.defaultdict(collections.Counter)
        self.differences = []

    def expected(self, client, sketch):
        asked = client.as_heard(sketch)
        if self.plant:
            return self.plant.expected(self.world, client, sketch, asked)
        return expected(self.world.explain(asked), self.world.instances, sketch["service"], client)

    def run(self, clients, sketches, times):
        for client, (found, counts) in zip(clients, on_each(clients, lambda one: self.of_client(one, sketches, times))):
            self.differences += found
            self.counts += counts
            self.by_kind[client.kind] += counts + collections.Counter({"differences": len(found)})

    def of_client(self, client, sketches, times):
        """Differences that the calls of one client show, and what was counted."""
        cells, differences, own = collections.defaultdict(collections.Counter), [], collections.Counter()
        made_by = collections.defaultdict(set)
        for position, sketch in enumerate(sketches):
            wanted = self.expected(client, sketch)
            if wanted.extent == "nothing":
                own["not carried out"] += times
                continue
            told = self.called(client, sketch, times)
            counts = counts_of(told)
            own["requests"] += 1
            own["calls"] += times
            own["failures expected"] += int(set(wanted.shares) == {None})
            never = {address for address in counts if address not in wanted.shares}
            if never:
                what = f"{client.name} {json.dumps(sketch)}: expected {wanted.shares}, got {dict(counts)}"
                differences.append(f"{what} {told['texts']}")
            elif wanted.extent == "all":
                cells[(sketch["service"], wanted.key())].update(counts)
                made_by[(sketch["service"], wanted.key())] |= wanted.made_by
                differences += self.of_twin(client, sketch, times, wanted, (counts, own), position)
        for (service, key), counts in cells.items():
            if len(key) > 1:
                own["distributions"] += 1
                # Other shares are those of the weights of instances.
                makers, cells_there = made_by[(service, key)], len(cells_of(dict(key), counts))
                own["cells of shares"] += cells_there
                own["cells of shares by rules"] += cells_there if makers else 0
                own.update(f"distributions by {maker}" for maker in makers)
            why = differs(dict(key), counts)
            if why:
                differences.append(f"{client.name} {service}: {why}: expected {dict(key)}, got {dict(counts)}")
        return differences, own

    def called(self, client, sketch, times):
        return client.call(self.plant.sent(sketch) if self.plant else sketch, times)

    def of_twin(self, client, sketch, times, wanted, counted, position):
        counts, own = counted
        twin = self.twins and position % SKETCHES < SKETCHES_OF_TWINS and self.twins.of(sketch)
        if not twin:
            return []
        asked = client.as_heard(twin)
        if expected(self.world.explain(asked), self.world.instances, sketch["service"], client).extent != "all":
            return []
        counts_of_twin = counts_of(client.call(twin, times))
        own["calls of twins"] += times
        never = {address for address in counts_of_twin if address not in wanted.shares}
        why = f"calls that must not be: {never}" if never else are_of_two(counts, counts_of_twin)
        told = f"{client.name} twin {json.dumps(twin)}: {why}: {dict(counts)}, its twin {dict(counts_of_twin)}"
        return [told] if why else []
