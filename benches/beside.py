"""Measures clusters beside each other: the same machine, disk and minute, in turns; prints Markdown tables."""

import contextlib
import dataclasses
import os
import resource
import shutil
import statistics
import subprocess
import time

from load import Run
from nodes import KEYS, SIZE, eventually, resident_mib

RAM_DISKS = {"tmpfs", "ramfs"}
FSYNCS = 200
BLOCK = b"\0" * 4096

# What a table tells of a side: heading, measure, how it is shown.
RATE = ("/s", "rate", "{:,.0f}")
P50 = ("p50 ms", "p50_ms", "{:.2f}")
P99 = ("p99 ms", "p99_ms", "{:.2f}")
CPU = ("CPU µs/request", "cpu_us", "{:.0f}")
TOOL_CPU = ("load tool's", "tool_cpu_us", "{:.0f}")


@dataclasses.dataclass(frozen=True)
class Load:
    """Some rows of a table: who is asked what. A side that does not know the workload leaves its cells empty."""

    workload: str
    spread: bool

    def named(self):
        return f"{self.workload}, {'all nodes' if self.spread else 'leader'}"


def need(*tools):
    """Ends the program where one of these is missing: a program or a file, and how to get it."""
    missing = [f"{tool} is missing: {how}" for tool, how in tools if not (shutil.which(tool) or os.path.exists(tool))]
    if missing:
        raise SystemExit("\n".join(missing))


def disk(directory):
    """The kind of file system; one in memory is refused."""
    kind = subprocess.check_output(["stat", "-f", "-c", "%T", directory], text=True).strip()
    if kind in RAM_DISKS:
        raise SystemExit(f"{directory} is {kind}: an fsync there costs nothing; name a real disk by --directory")
    return kind


def fsync_ms(directory):
    """Median and 99th percentile of writing a block over and through to the disk."""
    times = []
    path = os.path.join(directory, "fsync")
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        for number in range(FSYNCS):
            begun = time.monotonic()
            os.pwrite(file, BLOCK, number * len(BLOCK))
            os.fdatasync(file)
            times.append((time.monotonic() - begun) * 1000)
    finally:
        os.close(file)
        os.remove(path)
    times.sort()
    return statistics.median(times), times[FSYNCS * 99 // 100]


def setting(directory, clusters, options):
    """The lines above a table: versions, machine, disk, length, and what an answer stands for."""
    versions = ", ".join(cluster.version() for cluster in clusters)
    fsync = "{:.2f} ms (p99 {:.1f})".format(*fsync_ms(directory))
    promises = "; ".join(f"{cluster.name}: {cluster.acknowledges}" for cluster in clusters)
    return (
        f"{versions}; {os.cpu_count()} cores; data on {disk(directory)}, fsync of a block {fsync}; "
        f"{options.pairs} runs of {options.seconds} s\nAcknowledged is: {promises}\n"
    )


@contextlib.contextmanager
def running(clusters):
    """All of them, started."""
    with contextlib.ExitStack() as stack:
        for cluster in clusters:
            stack.enter_context(cluster)
        yield clusters


def children_cpu_seconds():
    """Processor time of the programs that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(cluster, wanted):
    """One run of the load tool; a single answer that is not a success ends the bench."""
    confirmed = cluster.confirmed(wanted.workload)
    nodes, tool = cluster.cpu_seconds(), children_cpu_seconds()
    result = cluster.drive(wanted)
    nodes, tool = cluster.cpu_seconds() - nodes, children_cpu_seconds() - tool
    count = result["requests"]
    if cluster.stalled(result):
        return run(cluster, wanted)
    if not count or result["refused"] or result["broken"]:
        raise SystemExit(f"{cluster.name}, {wanted}: not every answer was a success: {result}")
    if confirmed is not None:
        # The node that is asked may apply the last of them a moment after the one that answered.
        what = f"{cluster.name} confirms {count} times {wanted.workload}"
        eventually(what, lambda: cluster.confirmed(wanted.workload) - confirmed >= count)
    return {
        "requests": count,
        "rate": count * 1e6 / result["duration_us"],
        "p50_ms": result["p50_us"] / 1000,
        "p99_ms": result["p99_us"] / 1000,
        "cpu_us": nodes * 1e6 / count,
        "tool_cpu_us": tool * 1e6 / count,
    }


def cell(clusters, load, connections, options, number):
    """The medians of one cell for each side, runs alternating."""
    runs = {cluster.name: [] for cluster in clusters if load.workload in cluster.workloads}
    for pair in range(options.pairs):
        for cluster in clusters if pair % 2 == 0 else reversed(clusters):
            if cluster.name in runs:
                targets = cluster.targets(load.workload, load.spread)
                wanted = Run(load.workload, targets, connections, options.seconds, f"{number}-{pair}", KEYS)
                runs[cluster.name].append(run(cluster, wanted))
    return {name: {m: statistics.median(r[m] for r in results) for m in results[0]} for name, results in runs.items()}


def row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def table(clusters, loads, options, columns=(RATE, P50, P99, CPU)):
    """Measures cell by cell and prints each row as it is known."""
    ratio = len(clusters) == 2
    heads = ["load", "connections"] + [f"{c.name} {columns[0][0]}" if column is columns[0] else column[0]
                                       for c in clusters for column in columns]
    heads += [f"times {clusters[1].name}"] if ratio else []
    row(heads)
    row(["---"] * len(heads))
    number = 0
    for load in loads:
        for connections in options.connections:
            number += 1
            # Every node gets the same number of connections.
            count = -(-connections // SIZE) * SIZE if load.spread else connections
            sides = cell(clusters, load, count, options, number)
            cells = [load.named(), str(count)]
            for cluster in clusters:
                side = sides.get(cluster.name)
                cells += [how.format(side[measure]) if side else "" for _, measure, how in columns]
            if ratio:
                both = len(sides) == 2
                cells.append(f"{sides[clusters[0].name]['rate'] / sides[clusters[1].name]['rate']:.2f}" if both else "")
            row(cells)


def memory(cluster):
    """Resident memory of each node."""
    return [resident_mib(process.pid) for process in cluster.processes]


def memories(clusters):
    """A line about the memory of all sides."""
    sides = []
    for cluster in clusters:
        nodes = memory(cluster)
        sides.append(f"{cluster.name} {sum(nodes):,.0f} MiB ({' + '.join(f'{mib:,.0f}' for mib in nodes)})")
    return "Resident memory after these runs, all nodes: " + "; ".join(sides)
