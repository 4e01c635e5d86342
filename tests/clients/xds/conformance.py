"""Compares what clients of xDS do with what explain says: conformance.py --binary BINARY [--seeds N] [--first SEED]

Each seed is a namespace with services, instances with random labels, places, weights and health, and random rules of
routing, by metadata and to the nearest, some of them released for some clients only. gRPC clients, Envoys and a gateway
call it; where their calls went is compared with what explain says of the same request, the share of each group spread over
its instances by weight. A call has to be answered by an instance that may get it, and the counts of each distribution pass
a chi-square test, so that 1,000 seeds have no false alarm. Twins of the services, whose rules say the same otherwise, have to
be called alike. Rules that explain says are not carried out by a kind of client are not judged for it, and counted.

With --languages worlds are called by gRPC clients of these languages instead (tests/clients/LANGUAGE/grpc).

Every seed also limits what comes in to a service; see limiting.py. Further runs: `--only pairs`, every pair of types of
conditions (pairs.py); `--only breakers` (limiting.py); `--only transitions`, rules that change while calls go on
(transitions.py); `--only plants`, faults planted here that have to be found (planted.py);
`--only refused`, rules in bulk of which nobody may refuse one (refused.py).

Status 1, with its seed, for the first that differs. --note FILE adds a line `WHAT SEED CALLS` for it; --noted FILE runs the
seeds of such a file instead.
"""

import argparse
import collections
import sys
import tempfile
import time

import limiting
import pairs
import planted
import refused
import transitions
from callers import LANGUAGES, Node, Program, start_clients
from comparison import SKETCHES, Comparison
from twins import Twins
from worlds import World, draw_of, kind_of

BACKENDS = 12
KINDS = [
    ("grpc", "yes", ("eu", "a", "1"), "cart"), ("grpc", "no", ("", "", ""), "other"),
    ("envoy-delta", "yes", ("eu", "b", "2"), "cart"), ("envoy-sotw", "no", ("us", "a", ""), "cart"),
    ("gateway", "no", ("eu", "a", "2"), "edge"),
]


def kinds_of(languages):
    """The clients of a seed: those of `KINDS`, or two of each of these languages."""
    of_each = (("yes", ("eu", "a", "1"), "cart"), ("no", ("", "", ""), "other"))
    return [(language, *one) for language in languages for one in of_each] or KINDS


def pairs_of(world):
    """Pairs of types of conditions that stand together in a sub-rule."""
    found = set()
    for made in world.rules:
        for part in made["routing_config"].get("rules", []):
            kinds = [kind_of(one) for one in part["arguments"]["arguments"]]
            found |= {tuple(sorted((one, two))) for at, one in enumerate(kinds) for two in kinds[at + 1:]}
    return found


class Run:
    """Seeds one after another, and the sums."""

    def __init__(self, node, backends, options):
        self.node, self.backends, self.options = node, backends, options
        self.addresses = backends.first["addresses"]
        self.counts, self.pairs = collections.Counter(), set()
        self.by_kind = collections.defaultdict(collections.Counter)

    def seeds(self):
        for seed in range(self.options.first, self.options.first + self.options.seeds):
            yield seed

    def worlds(self):
        """Random rules of routing, and limits."""
        for seed in self.seeds():
            begun, world = time.monotonic(), World(self.node, f"w{seed}", draw_of("world", seed), self.addresses)
            world.fill()
            twins = Twins(world)
            clients = start_clients(self.node, world.namespace, kinds_of(self.options.languages))
            sketches = world.sketches(SKETCHES)
            comparison = Comparison(world, twins)
            comparison.run(clients, sketches, max(1, self.options.calls // (len(sketches) * len(clients))))
            # Limits are of proxies.
            limits = [] if self.options.languages else limiting.of_seed(self.node, seed, self.addresses, comparison.counts)
            for client in clients:
                client.program.end()
            self.pairs |= pairs_of(world)
            self.counts += comparison.counts
            for kind, counts in comparison.by_kind.items():
                self.by_kind[kind] += counts
            shown = shown_of(comparison.counts)
            print(f"seed {seed}: {shown}; {time.monotonic() - begun:.0f} s", flush=True)
            yield seed, comparison.differences + limits

    def others(self, module):
        for seed, differences in module.run(self.node, self.backends, self.seeds(), self.counts):
            yield seed, differences


def shown_of(counts):
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()) if what != "differences")


def noted(options):
    """The options of each run: those of the file of seeds, if there is one."""
    if not options.noted:
        return [options]
    lines = [line.split() for line in open(options.noted, encoding="utf-8") if line.strip()]
    given = vars(options)
    return [argparse.Namespace(**{**given, "only": what, "first": int(seed), "seeds": 1, "calls": int(calls)})
            for what, seed, calls in lines]


def main(options):
    return max([run_of(one) for one in noted(options)], default=0)


def run_of(options):
    modules = {"pairs": pairs, "breakers": limiting, "transitions": transitions, "plants": planted, "refused": refused}
    with tempfile.TemporaryDirectory(prefix="thuban-conformance-") as directory:
        node, backends = Node(options.binary, directory), Program("backends.py", str(BACKENDS))
        run = Run(node, backends, options)
        try:
            found = run.worlds() if options.only == "worlds" else run.others(modules[options.only])
            for seed, differences in found:
                if differences:
                    print("\n".join(differences[:20]))
                    again = f"scripts/xds-conformance --only {options.only} --first {seed} --seeds 1"
                    print(f"{len(differences)} differences: {again}")
                    if options.note:
                        with open(options.note, "a", encoding="utf-8") as file:
                            print(options.only, seed, options.calls, file=file)
                    if not options.go_on:
                        return 1
                    run.counts["seeds with differences"] += 1
        finally:
            backends.end()
            node.end()
    for kind, counts in sorted(run.by_kind.items()):
        print(f"{kind}: {counts['differences']} differences, {shown_of(counts)}")
    shown = shown_of(run.counts)
    print(f"in all: {shown}" + (f", {len(run.pairs)} pairs of types of conditions" if run.pairs else ""))
    return 1 if run.counts["seeds with differences"] else 0


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    PARSER.add_argument("--binary", required=True)
    PARSER.add_argument("--seeds", type=int, default=20)
    PARSER.add_argument("--first", type=int, default=1)
    PARSER.add_argument("--calls", type=int, default=10_000)
    PARSER.add_argument("--only", choices=["worlds", "pairs", "breakers", "transitions", "plants", "refused"], default="worlds")
    PARSER.add_argument("--languages", nargs="+", choices=LANGUAGES, default=[], help="in place of C-core and Envoy")
    PARSER.add_argument("--go-on", action="store_true", help="past seeds that differ")
    PARSER.add_argument("--note", help="file to which a line is added for each seed that differs")
    PARSER.add_argument("--noted", help="file of such lines: their seeds are run")
    sys.exit(main(PARSER.parse_args()))
