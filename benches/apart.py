"""Clusters of three whose nodes are apart: what goes between them passes the relays of links.py."""

import base64
import concurrent.futures
import os
import subprocess

from links import Links, Quality
from nodes import KEYS, SIZE, VALUE_BYTES, Etcd, Thuban, call, cpu_seconds, eventually

FILLERS = 64


def distant(round_trip_ms):
    """Links without a limit that take so long there and back."""
    return Quality(delay_s=round_trip_ms / 2000)


class Apart(Thuban):
    """Three nodes of thuban; further ones may be added."""

    def __init__(self, binary, directory, quality, options=()):
        super().__init__(binary, directory, options)
        self.links = Links(self.peers, quality)

    def __exit__(self, *_):
        super().__exit__()
        self.links.__exit__()

    def command(self, index):
        command = super().command(index)
        members = ",".join(f"{n + 1}={front}" for n, front in enumerate(self.links.fronts[:SIZE]))
        command[command.index("--initial-cluster") + 1] = members
        return command

    def restart(self, index):
        with open(self.log(index), "ab") as log:
            self.processes[index] = subprocess.Popen(self.command(index), stdout=log, stderr=log)

    def leader_index(self):
        return self.clients.index(self.leader())

    def relays_cpu_seconds(self):
        return cpu_seconds(self.links.process.pid)


class ApartEtcd(Etcd):
    """Tuned as its documentation says: the heartbeat is about the round trip, and the election time-out ten times it;
    never less than its defaults of 100 ms and 1 s."""

    def __init__(self, binary, directory, round_trip_ms):
        super().__init__(binary, directory)
        self.heartbeat_ms = max(100, round_trip_ms)
        self.links = Links(self.peers, distant(round_trip_ms))

    def __exit__(self, *_):
        super().__exit__()
        self.links.__exit__()

    def command(self, index):
        command = super().command(index)
        fronts = [f"http://{front}" for front in self.links.fronts]
        members = ",".join(f"n{n + 1}={front}" for n, front in enumerate(fronts))
        command[command.index("--initial-cluster") + 1] = members
        command[command.index("--initial-advertise-peer-urls") + 1] = fronts[index]
        command += ["--heartbeat-interval", str(self.heartbeat_ms)]
        return command + ["--election-timeout", str(10 * self.heartbeat_ms)]

    def prepare(self):
        """As the other one, but many at a time: each takes a round trip."""
        eventually("etcd has a leader", lambda: int(self.status(0).get("leader", 0)))

        def put(number):
            key, value = (base64.b64encode(t.encode()).decode() for t in (f"service-{number}", "v" * VALUE_BYTES))
            call(self.clients[number % SIZE], "/v3/kv/put", {"key": key, "value": value})

        with concurrent.futures.ThreadPoolExecutor(FILLERS) as pool:
            list(pool.map(put, range(KEYS)))

    def relays_cpu_seconds(self):
        return cpu_seconds(self.links.process.pid)


def free_directory(directory, name):
    """A directory of its own for one cluster of several with the same name."""
    path = os.path.join(directory, name)
    os.makedirs(path)
    return path
