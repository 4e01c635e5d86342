"""Writes between voters that are far apart, beside etcd in the same run; prints one Markdown table.

Three nodes of each on the loopback interface, each direction between two nodes over a relay that lets a byte arrive
after half the round trip (benches/links.py; no loss, no limit of rate). For each round trip both clusters are
started anew: thuban as it is, etcd with the heartbeat and election time-out that its documentation asks for.
Replicated writes of 200-byte values on the leader, over HTTP by wrk; the sides take turns.

A cluster that takes no write at a distance has no figures in that row, and what it said is printed below.

Needs wrk and etcd (Debian: apt install wrk etcd-server).
"""

import contextlib
import shutil
import statistics
import tempfile
import time

from apart import Apart, ApartEtcd, distant, free_directory
from beside import disk, need, row, run, setting
from load import Run
from nodes import KEYS, built

COLUMNS = ["/s", "p50 ms", "p99 ms"]


def arguments(parser):
    parser.add_argument("--etcd", default="etcd", help="etcd binary")
    parser.add_argument("--round-trips", type=int, nargs="+", default=[1, 50, 150, 300], help="in ms")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--seconds", type=int, default=10, help="length of one run")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each side per cell; medians are shown")
    parser.add_argument("--only", choices=["thuban", "etcd"], help="measure one side")


class Side:
    """One cluster at one distance, and what it could not do."""

    def __init__(self, name, stack, make):
        self.name, self.failure, self.cluster = name, None, None
        with self.kept():
            self.cluster = stack.enter_context(make())

    @contextlib.contextmanager
    def kept(self):
        """A cluster that does not come about, or does not answer, is one of the results."""
        try:
            yield
        except (SystemExit, OSError) as error:
            self.failure = self.failure or str(error)

    def measure(self, connections, seconds, salt):
        result = None
        if self.cluster and not self.failure:
            with self.kept():
                cpu, began = self.cluster.relays_cpu_seconds(), time.monotonic()
                targets = self.cluster.targets("write", False)
                result = run(self.cluster, Run("write", targets, connections, seconds, salt, KEYS))
                result["relays"] = 100 * (self.cluster.relays_cpu_seconds() - cpu) / (time.monotonic() - began)
        return result


def cells(results):
    """The medians of the runs of one side."""
    if not results:
        return ["none", "", "", ""]
    measures = ("rate", "p50_ms", "p99_ms", "relays")
    rate, p50, p99, relays = (statistics.median(result[measure] for result in results) for measure in measures)
    return [f"{rate:,.0f}", f"{p50:.1f}", f"{p99:.1f}", f"{relays:.0f} %"]


def at_distance(round_trip, makers, options, directory, told):
    with contextlib.ExitStack() as stack:
        place = free_directory(directory, f"at-{round_trip}")
        sides = [Side(name, stack, lambda make=make: make(place, round_trip)) for name, make in makers.items()]
        if not told:
            clusters = [side.cluster for side in sides if side.cluster]
            print(setting(directory, clusters, options))
            heads = ["round trip ms", "connections"]
            heads += [f"{name} {column}" for name in makers for column in COLUMNS + ["relays' CPU"]]
            row(heads)
            row(["---"] * len(heads))
        for connections in options.connections:
            results = {side.name: [] for side in sides}
            for pair in range(options.pairs):
                for side in sides if pair % 2 == 0 else reversed(sides):
                    result = side.measure(connections, options.seconds, f"{round_trip}-{connections}-{pair}")
                    results[side.name] += [result] if result else []
            row([str(round_trip), str(connections)] + [cell for side in sides for cell in cells(results[side.name])])
        return [f"{side.name} at {round_trip} ms: {side.failure}" for side in sides if side.failure]


def main(options):
    need(("wrk", "apt install wrk"), *([(options.etcd, "apt install etcd-server")] if options.only != "thuban" else []))
    disk(options.directory)
    makers = {}
    if options.only != "etcd":
        binary = options.thuban or built()
        makers["thuban"] = lambda place, round_trip: Apart(binary, place, distant(round_trip))
    if options.only != "thuban":
        makers["etcd"] = lambda place, round_trip: ApartEtcd(shutil.which(options.etcd), place, round_trip)
    failures = []
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        for number, round_trip in enumerate(options.round_trips):
            failures += at_distance(round_trip, makers, options, directory, number > 0)
    print(*(["", *failures] if failures else []), sep="\n")
