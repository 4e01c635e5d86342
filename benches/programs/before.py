"""Compares this checkout with an earlier revision by eight figures: writes, linearizable reads, publishes, pulls and
polls a second, the time for which apply holds the catalog at a stretch, memory, and the time of a start.

Three nodes of each on the loopback interface, on the same disk; wrk asks both sides in turns, over connections to all
nodes. A row has the median of each side, the median of the ratios of the pairs and their spread, written so that above 1
is better, and a verdict: `worse` or `better` where the median is off by more than --within percent and every pair points
the same way, else `same`. Exit code 1 if a figure is worse.

Needs wrk (Debian: apt install wrk).
"""

import dataclasses
import os
import statistics
import subprocess
import tempfile
import urllib.request

from beside import disk, memory, need, row, run, running, setting
from load import Run, wrk
from nodes import KEYS, ROOT, Before, Thuban, built, call, eventually
from programs.start import start, stop

# Loads with the port that they ask.
LOADS = [("writes", "write", "clients"), ("reads", "read", "clients"), ("publishes", "publish", "clients"),
         ("pulls", "pull", "compat"), ("polls", "poll", "compat")]
HELD = "thuban_catalog_held_seconds"
PULLED = "pulled.txt"
UNITS = {"apply": "µs at a stretch", "memory": "MiB, three nodes", "start": "ms"}


@dataclasses.dataclass
class Figure:
    """Values of both sides, pair by pair."""

    name: str
    is_rate: bool
    now: list
    before: list

    def ratios(self):
        pairs = zip(self.now, self.before)
        return [now / before if self.is_rate else before / now for now, before in pairs]

    def verdict(self, within_percent):
        ratios = self.ratios()
        median, margin = statistics.median(ratios), within_percent / 100
        if median < 1 - margin and max(ratios) < 1:
            return "worse"
        return "better" if median > 1 + margin and min(ratios) > 1 else "same"


def arguments(parser):
    parser.add_argument("revision", nargs="?", default="HEAD~1", help="revision to compare with (default: HEAD~1)")
    parser.add_argument("--before", help="binary of that revision, in place of building it")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each side per figure")
    parser.add_argument("--seconds", type=int, default=4, help="length of one run")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--within", type=float, default=3, help="percent that count as the same")


def built_before(revision):
    """The binary of the revision, built once and kept."""
    script = """. scripts/lib.sh && prepare_build
        commit=$(git rev-parse --verify --quiet "$1^{commit}") || die "there is no revision $1"
        binary_of_revision "$commit" release --profile release"""
    return subprocess.check_output(["bash", "-euc", script, "before", revision], cwd=ROOT, text=True).strip()


def fill(cluster):
    """Publishes the file that pulls and polls are about, and waits until every node has it."""
    file = {"namespace": "bench", "group": "bench", "file_name": PULLED, "content": "v" * 2048}
    call(cluster.clients[0], "/config/v1/configfiles/createandpub", file, cluster.token)
    for compat in cluster.compat:
        url = f"http://{compat}/configs/bench/bench/{PULLED}"
        eventually("the file can be pulled", lambda url=url: urllib.request.urlopen(url, timeout=5).status == 200)


def held(cluster):
    """Seconds for which apply held the catalog of all nodes, and how often."""
    total, count = 0.0, 0.0
    for client in cluster.clients:
        with urllib.request.urlopen(f"http://{client}/metrics", timeout=15) as answer:
            for line in answer.read().decode().splitlines():
                total += float(line.rsplit(" ", 1)[1]) if line.startswith(f"{HELD}_sum ") else 0
                count += float(line.rsplit(" ", 1)[1]) if line.startswith(f"{HELD}_count ") else 0
    return total, count


def rate(cluster, workload, port, number, options):
    """Answers a second; each of them a success."""
    targets = tuple(getattr(cluster, port))
    connections = -(-options.connections // len(targets)) * len(targets)
    wanted = Run(workload, targets, connections, options.seconds, f"{cluster.name}-{workload}-{number}", KEYS)
    if workload == "write":
        return run(cluster, wanted)["rate"]
    result = wrk(wanted, cluster.speaks, cluster.token, cluster.tls)
    if not result["requests"] or result["refused"] or result["broken"]:
        raise SystemExit(f"{cluster.name}, {workload}: not every answer was a success: {result}")
    return result["requests"] * 1e6 / result["duration_us"]


def loads(sides, options):
    """The figures of all loads, with apply's, which is read around the writes."""
    apply = Figure("apply", False, [], [])
    for name, workload, port in LOADS:
        values = {side.name: [] for side in sides}
        held_us = {side.name: [] for side in sides}
        for pair in range(options.pairs):
            for side in sides if pair % 2 == 0 else reversed(sides):
                since = held(side)
                values[side.name].append(rate(side, workload, port, pair, options))
                seconds, count = (later - earlier for later, earlier in zip(held(side), since))
                held_us[side.name].append(seconds * 1e6 / count if count else 0)
        if workload == "write":
            apply.now, apply.before = (held_us[side.name] for side in sides)
        yield Figure(name, True, *(values[side.name] for side in sides))
    yield apply


def starts(binaries, directory, pairs):
    """Milliseconds from exec to ready on existing data."""
    times = [[], []]
    for pair in range(-1, pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            process, seconds = start(binaries[side], os.path.join(directory, f"start-{side}"))
            stop(process)
            if pair >= 0:
                times[side].append(seconds * 1000)
    return Figure("start", False, *times)


def show(figure, options):
    """Prints the row of a figure; true if it is worse."""
    ratios, verdict = figure.ratios(), figure.verdict(options.within)
    sides = [f"{statistics.median(side):,.1f}" for side in (figure.now, figure.before)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    row([f"{figure.name}, {UNITS.get(figure.name, 'a second')}", *sides, f"{statistics.median(ratios):.2f}", spread,
         verdict])
    return verdict == "worse"


def main(options):
    need(("wrk", "apt install wrk"))
    disk(options.directory)
    binaries = [options.thuban or built(), options.before or built_before(options.revision)]
    worse = []
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        sides = [Thuban(binaries[0], directory), Before(binaries[1], directory)]
        with running(sides):
            print(setting(directory, sides, options))
            row(["figure", "now", "before", "ratio", "of the pairs", "verdict"])
            row(["---"] * 6)
            for side in sides:
                fill(side)
            for figure in loads(sides, options):
                worse += [figure.name] if show(figure, options) else []
            used = Figure("memory", False, *([sum(memory(side))] for side in sides))
            worse += [used.name] if show(used, options) else []
        begun = starts(binaries, directory, options.pairs)
        worse += [begun.name] if show(begun, options) else []
    if worse:
        raise SystemExit(f"worse than before: {', '.join(worse)}")
