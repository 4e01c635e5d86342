"""The load by which scripts/pgo has a binary count what it runs: writes, reads, publishes and pulls, from one connection
to very many, to the leader and to all nodes, some of it by TLS. What is not asked here is optimized for size.

Every answer must be a success.
"""

import argparse
import os
import tempfile

from beside import Load, need, run, running
from load import Run
from nodes import KEYS, Secure, Thuban
from peers import ThubanFiles

SECONDS = 3


class Files(ThubanFiles):
    name = "files"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thuban", required=True, help="binary that counts")
    parser.add_argument("--directory", default="/var/tmp", help="where nodes keep their data")
    options = parser.parse_args()
    need(("wrk", "apt install wrk"))
    sides = [
        (Thuban, ("write", "read"), (1, 16, 64, 256)),
        (Files, ("publish", "pull"), (1, 64)),
        (Secure, ("write", "read"), (16,)),
    ]
    for side, workloads, connections in sides:
        with tempfile.TemporaryDirectory(prefix="thuban-training-", dir=options.directory) as directory:
            with running([side(os.path.abspath(options.thuban), directory)]) as (cluster,):
                loads = [Load(workload, spread) for workload in workloads for spread in (False, True)]
                for number, (load, count) in enumerate((load, count) for load in loads for count in connections):
                    targets = cluster.targets(load.workload, load.spread)
                    each = -(-count // len(targets)) * len(targets)
                    figures = run(cluster, Run(load.workload, targets, each, SECONDS, f"t{number}", KEYS))
                    print(f"{cluster.name}: {load.named()}, {each} connections: {figures['requests']:,} answered", flush=True)


if __name__ == "__main__":
    main()
