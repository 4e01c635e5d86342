"""The audit trail when it is full: what a million rows of it take in memory and on disk, and how they are read.

Two clusters of three, one after the other, are asked for the same updates of a thousand services by wrk,
one row of the trail for each: the first keeps all of them, the other a thousand, so that their difference
is what the trail takes. Then the trail of the first is listed: at its front, deep in it, and by filters
that find nothing, beside a list that is short; and the first node is started again on it.

Needs wrk (Debian: apt install wrk).
"""

import os
import signal
import tempfile
import time
import urllib.error
import urllib.request

from load import Run
from nodes import KEYS, Thuban, built, call, eventually, resident_mib

KEPT_MIN = 1_000
SLICE_S = 5


def arguments(parser):
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the trail")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--reads", type=int, default=200, help="requests of each kind of read")


def bytes_below(directory):
    """As much as the files take, of data and of logs."""
    sizes = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                sizes += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                pass  # a file that was merged into others meanwhile
    return sizes


def metric(cluster, index, name):
    with urllib.request.urlopen(f"http://{cluster.clients[index]}/metrics", timeout=15) as answer:
        lines = answer.read().decode().splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith(name + " "))))


def fill(cluster, options):
    """Updates until so many rows were written; returns updates a second in the first and in the last slice."""
    begun, rates, number = cluster.effective_writes(), [], 0
    while cluster.effective_writes() - begun < options.rows:
        number += 1
        run = Run("write", cluster.targets("write", False), options.connections, SLICE_S, f"{number}", KEYS)
        result = cluster.drive(run)
        if result["refused"] or result["broken"]:
            raise SystemExit(f"refused or broken: {result}")
        rates.append(result["requests"] / result["duration_us"] * 1e6)
    return rates[0], rates[-1]


def report(cluster, kept, rates):
    memory = [resident_mib(process.pid) for process in cluster.processes]
    disk = [bytes_below(cluster.data(index)) / 2**20 for index in range(3)]
    trail = metric(cluster, 0, "thuban_audit_bytes") / 2**20
    print(f"{kept:>9,} rows kept: memory {', '.join(f'{one:.0f}' for one in memory)} MiB a node, "
          f"data directories {', '.join(f'{one:.0f}' for one in disk)} MiB, the trail by its own count {trail:.0f} "
          f"MiB; updates/s at first {rates[0]:,.0f}, at last {rates[1]:,.0f}", flush=True)
    return sum(memory) / 3


def timed(cluster, path, count):
    """Median and worst of so many requests, in ms; the code of the last answer."""
    times, code = [], 200000
    for _ in range(count):
        begun = time.monotonic()
        try:
            call(cluster.clients[0], path, token=cluster.token)
        except urllib.error.HTTPError as error:
            code = error.code
        times.append((time.monotonic() - begun) * 1e3)
    times.sort()
    refused = "" if code == 200000 else f" (HTTP {code})"
    return f"{times[len(times) // 2]:8.2f} ms, at worst {times[-1]:8.2f} ms{refused}"


def read(cluster, options):
    few = max(options.reads // 20, 3)
    for what, path, count in (
        ("a list of users, which is short", "/auth/v1/users?limit=1", options.reads),
        ("the newest 20 rows", "/admin/v1/audit?limit=20", options.reads),
        ("20 rows behind half of them", f"/admin/v1/audit?limit=20&offset={options.rows // 2}", few),
        ("rows of one of the services", "/admin/v1/audit?limit=20&name=service-7", few),
        ("rows of a user that is not there", "/admin/v1/audit?limit=20&user=nobody", few),
    ):
        print(f"  {what:36} {timed(cluster, path, count)}", flush=True)


def restart(cluster):
    process = cluster.processes[0]
    process.send_signal(signal.SIGTERM)
    process.wait()
    begun = time.monotonic()
    cluster.launch(0)
    cluster.processes[0] = cluster.processes.pop()
    eventually("the node is ready again", lambda: cluster.ready(cluster.clients[0]))
    print(f"  started again: ready after {time.monotonic() - begun:.2f} s, "
          f"memory {resident_mib(cluster.processes[0].pid):.0f} MiB", flush=True)


def main(options):
    binary = options.thuban or built()
    memory = {}
    for kept in (options.rows, KEPT_MIN):
        with tempfile.TemporaryDirectory(prefix="thuban-trail-", dir=options.directory) as directory:
            with Thuban(binary, directory) as cluster:
                call(cluster.clients[0], "/admin/v1/settings", {"audit_kept_rows": kept}, cluster.token, method="PUT")
                memory[kept] = report(cluster, kept, fill(cluster, options))
                if kept == options.rows:
                    read(cluster, options)
                    restart(cluster)
    rows = options.rows
    print(f"A row takes {(memory[rows] - memory[KEPT_MIN]) * 2**20 / rows:.1f} bytes of memory on each node.")
