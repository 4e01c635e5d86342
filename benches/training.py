"""The load by which scripts/pgo has a binary count what it runs: writes and reads of tools, publishes, what clients ask
all the time (pulls, polls, discovery, heartbeats), from one connection to very many, to the leader and to all nodes,
some of it by TLS; then rules, lists, the pages of the console and a start on what is there, by scripts/bench registry.
What is asked nowhere here counts as cold.

Every answer must be a success. The figures that it prints are those of a binary that counts.
"""

import argparse
import os
import subprocess
import tempfile

from beside import Load, need, running, table
from nodes import ROOT, Secure, Thuban
from peers import ThubanFiles


class Clients(ThubanFiles):
    """Each service has an instance."""

    workloads = ("poll", "discover", "heartbeat")
    of_clients = ("poll",)

    def prepare(self):
        super().prepare()
        instance = {"namespace": "bench", "host": "host", "port": 80, "enableHealthCheck": True}
        self.fill("/naming/v1/instances", lambda n: dict(instance, service=f"service-{n}"))


# Who is asked, for what, and over how many connections.
PARTS = [
    (Thuban, ("write", "read"), [1, 16, 64, 256]),
    (ThubanFiles, ("publish", "pull"), [1, 64]),
    (Clients, Clients.workloads, [1, 64]),
    (Secure, ("write", "read"), [16]),
]

# A fifth of what that bench takes by itself, so that writes and reads of single things remain most of what is counted.
REGISTRY = ["--services", "20000", "--rules", "20000", "--singles", "200", "--reads", "200"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thuban", required=True, help="binary that counts")
    parser.add_argument("--directory", default="/var/tmp", help="where nodes keep their data")
    parser.add_argument("--seconds", type=int, default=3, help="length of one run")
    options = parser.parse_args(namespace=argparse.Namespace(pairs=1))
    need(("wrk", "apt install wrk"))
    binary = os.path.abspath(options.thuban)
    for side, workloads, options.connections in PARTS:
        with tempfile.TemporaryDirectory(prefix="thuban-training-", dir=options.directory) as directory:
            with running([side(binary, directory)]) as clusters:
                table(clusters, [Load(workload, spread) for workload in workloads for spread in (False, True)], options)
    bench = [os.path.join(ROOT, "scripts", "bench"), "registry", "--thuban", binary, "--directory", options.directory]
    subprocess.run(bench + REGISTRY, check=True)


if __name__ == "__main__":
    main()
