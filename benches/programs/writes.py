"""Compares thuban with etcd, or with another binary of itself: the same load tool, machine, disk and minute;
prints one Markdown table.

Three nodes of each on the loopback interface, both writing through to the disk. Replicated writes
of 200-byte values and linearizable reads of one key, over HTTP, by wrk; connections once to the
leader only and once spread equally over the three nodes. The two sides take turns in every cell.

Needs wrk and etcd (Debian: apt install wrk etcd-server). etcd's own protocol is gRPC; what is
measured is its HTTP door, as thuban has only that one; scripts/bench-peers asks it by gRPC.
"""

import shutil
import tempfile

from beside import Load, disk, need, running, setting, table
from nodes import Before, Etcd, Secure, Thuban, built


def arguments(parser):
    parser.add_argument("--etcd", default="etcd", help="etcd binary")
    parser.add_argument("--seconds", type=int, default=5, help="length of one run")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each side per cell; medians are shown")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--workloads", nargs="+", default=["write", "read"], choices=["write", "read"])
    parser.add_argument("--before", help="binary of another revision to measure beside it, in place of etcd")
    parser.add_argument("--tls", action="store_true", help="measure it with TLS beside it, in place of etcd")
    parser.add_argument("--only", choices=["thuban", "etcd"], help="measure one side")


def main(options):
    wants_etcd = options.only != "thuban" and not options.before and not options.tls
    need(("wrk", "apt install wrk"), *([(options.etcd, "apt install etcd-server")] if wants_etcd else []))
    disk(options.directory)
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        clusters = []
        if options.only != "etcd":
            clusters.append(Thuban(options.thuban or built(), directory))
        if options.before:
            clusters.append(Before(options.before, directory))
        elif options.tls:
            clusters.append(Secure(options.thuban or built(), directory))
        elif options.only != "thuban":
            clusters.append(Etcd(shutil.which(options.etcd), directory))
        with running(clusters):
            print(setting(directory, clusters, options))
            table(clusters, [Load(w, spread) for w in options.workloads for spread in (False, True)], options)
