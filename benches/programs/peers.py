"""Compares thuban with r-nacos, with etcd by gRPC, and with ZooKeeper; prints a Markdown table for each.

Three nodes of each side on the loopback interface, with their data on the same disk; the sides take
turns in every cell.

rnacos     Publishes of 200-byte files and pulls of one of 2 KiB, over HTTP by wrk on both sides.
           Beside the pulls thuban's `/livez` on the same port: what a request costs that reads nothing.
           Then publishes to few files, or as many as --growth-files says, for a minute: does the memory grow?
etcd       Replicated writes of 200 bytes and linearizable reads: thuban over HTTP by wrk, etcd by its own
           protocol by h2load. Both tools are written in C and C++, and their own processor time is told, as
           it is taken from the same cores.
zookeeper  Replicated writes of 200 bytes: thuban over HTTP by wrk, ZooKeeper by a small program on its C
           library, which keeps so many writes under way as wrk has connections.

Needs wrk, and of the peers that are asked for: rnacos (cargo install rnacos --version 0.8.8 --locked),
etcd and h2load (Debian: etcd-server, nghttp2-client), ZooKeeper, its C library and gcc (Debian: zookeeper,
libzookeeper-mt-dev, gcc).
"""

import concurrent.futures
import os
import shutil
import tempfile
import time

from beside import (
    CPU, P50, P99, RATE, TOOL_CPU, Load, disk, memories, memory, need, row, run, running, setting, table,
)
from load import Run, compiled
from nodes import SIZE, Thuban, built
from peers import EtcdByGrpc, Rnacos, ThubanFiles, Zookeeper

ZOOKEEPER_JAR = "/usr/share/java/zookeeper.jar"
ZOOKEEPER_HEADER = "/usr/include/zookeeper/zookeeper.h"
FEW_FILES = 10
GROWTH_CONNECTIONS = 64
SAMPLE_S = 10


def arguments(parser):
    parser.add_argument("--rnacos", default="rnacos", help="r-nacos binary")
    parser.add_argument("--etcd", default="etcd", help="etcd binary")
    parser.add_argument("--seconds", type=int, default=5, help="length of one run")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each side per cell; medians are shown")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64, 256])
    parser.add_argument("--growth-seconds", type=int, default=60, help="publishes to few files; 0 leaves them out")
    parser.add_argument("--growth-files", type=int, default=FEW_FILES, help="how many files those are to")
    parser.add_argument("--growth-alone", action="store_true", help="of rnacos: those publishes only, to thuban only")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))


def places(*workloads):
    return [Load(workload, spread) for workload in workloads for spread in (False, True)]


def measured(clusters, loads, options, directory):
    """A table, and the memory of both sides after it."""
    with running(clusters):
        print(f"\n{setting(directory, clusters, options)}")
        table(clusters, loads, options, (RATE, P50, P99, CPU, TOOL_CPU))
        print(f"\n{memories(clusters)}", flush=True)


def growth(clusters, options):
    """Publishes to the same files, one side after the other; a row of the memory of all its nodes for each."""
    moments = range(0, options.growth_seconds + 1, SAMPLE_S)
    print(f"\nPublishes to {options.growth_files:,} files, resident memory of all nodes in MiB\n")
    row(["side", "publishes"] + [f"{moment} s" for moment in moments])
    row(["---"] * (2 + len(moments)))
    for cluster in clusters:
        connections = -(-GROWTH_CONNECTIONS // SIZE) * SIZE
        targets = cluster.targets("publish", spread=True)
        wanted = Run("publish", targets, connections, options.growth_seconds, "growth", options.growth_files)
        with running([cluster]), concurrent.futures.ThreadPoolExecutor(1) as pool:
            begun = time.monotonic()
            load = pool.submit(run, cluster, wanted)
            sizes = []
            for moment in moments:
                time.sleep(max(0, begun + moment - time.monotonic()))
                sizes.append(f"{sum(memory(cluster)):,.0f}")
            row([cluster.name, f"{load.result()['requests']:,}"] + sizes)


def beside_rnacos(options, binary, directory):
    if options.growth_alone:
        growth([ThubanFiles(binary, directory)], options)
        return
    rnacos = shutil.which(options.rnacos)
    sides = (ThubanFiles, binary), (Rnacos, rnacos)
    clusters = [kind(of, directory) for kind, of in sides]
    measured(clusters, places("publish") + [Load("pull", True), Load("livez", True)], options, directory)
    if options.growth_seconds:
        growth([kind(of, os.path.join(directory, "growth")) for kind, of in sides], options)


def beside_etcd(options, binary, directory):
    clusters = [Thuban(binary, directory), EtcdByGrpc(shutil.which(options.etcd), directory)]
    measured(clusters, places("write", "read"), options, directory)


def beside_zookeeper(options, binary, directory):
    with compiled("zookeeper.c", ["-DTHREADED", "-lzookeeper_mt"]) as driver:
        clusters = [Thuban(binary, directory), Zookeeper(ZOOKEEPER_JAR, driver, directory)]
        measured(clusters, places("write"), options, directory)
        print(f"Runs made again, as ZooKeeper stalled until a session timed out: {clusters[1].stalls}")


def rnacos_tools(options):
    return [] if options.growth_alone else [(options.rnacos, "cargo install rnacos --version 0.8.8 --locked")]


def etcd_tools(options):
    return [(options.etcd, "apt install etcd-server"), ("h2load", "apt install nghttp2-client")]


def zookeeper_tools(_options):
    return [
        ("java", "apt install default-jre-headless"), ("gcc", "apt install gcc libc6-dev"),
        (ZOOKEEPER_JAR, "apt install zookeeper"), (ZOOKEEPER_HEADER, "apt install libzookeeper-mt-dev"),
    ]


# How each peer is measured, and what that needs.
PEERS = {
    "rnacos": (beside_rnacos, rnacos_tools),
    "etcd": (beside_etcd, etcd_tools),
    "zookeeper": (beside_zookeeper, zookeeper_tools),
}


def main(options):
    need(("wrk", "apt install wrk"), *(tool for peer in options.peers for tool in PEERS[peer][1](options)))
    disk(options.directory)
    binary = options.thuban or built()
    for peer in options.peers:
        with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
            PEERS[peer][0](options, binary, directory)
