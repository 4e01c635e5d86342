"""What keeps others waiting: long lists, and a disk that hangs; prints Markdown tables.

A cluster of three on the loopback interface. First, many services are listed all the time on the
leader, by several connections: how long do a health check, an exact look-up and a pull of a config
client wait there meanwhile, and does anybody stand for election? Second, the disk of a follower is
held up while others write: its data lies on a file system of its own, which is frozen for some
seconds. How long do a health check and a pull wait on that node, and does it catch up?

The second part needs root, for mount and fsfreeze, and is left out without.
"""

import contextlib
import http.client
import os
import re
import subprocess
import tempfile
import threading
import time
import urllib.request

from nodes import Thuban, built, call, eventually

PACE_S = 0.005
CHECK_PACE_S = 0.5
SAMPLE_S = 0.1
FROZEN = 2  # the place of the node whose disk is held up
DISK_MIB = 2048
CONFIG = {"namespace": "default", "group": "demo", "file_name": "application.properties", "content": "greeting=hello"}
PULL = "/configs/demo/default/application"


def arguments(parser):
    parser.add_argument("--services", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=15, help="how long is listed")
    parser.add_argument("--pages", type=int, default=4, help="connections that list by a fuzzy name")
    parser.add_argument("--wholes", type=int, default=1, help="connections that list 20,000 services at once")
    parser.add_argument("--frozen", type=float, default=8, help="seconds for which the disk hangs")


@contextlib.contextmanager
def file_system(directory):
    """A directory that can be frozen."""
    image, place = os.path.join(directory, "disk"), os.path.join(directory, "mounted")
    with open(image, "wb") as file:
        file.truncate(DISK_MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    os.mkdir(place)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


class Cluster(Thuban):
    """One node of it may have its data elsewhere."""

    def __init__(self, binary, directory, frozen):
        super().__init__(binary, directory)
        self.frozen = frozen

    def data(self, index):
        return os.path.join(self.frozen, "data") if self.frozen and index == FROZEN else super().data(index)

    def leader_index(self):
        return self.clients.index(self.leader())

    def series(self, index, name):
        """The values of a series of one node."""
        with urllib.request.urlopen(f"http://{self.clients[index]}/metrics", timeout=15) as answer:
            lines = answer.read().decode().splitlines()
        return [float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[ {{]", line)]

    def elections(self):
        return sum(self.series(index, "thuban_raft_leader_changes_total")[0] for index in range(len(self.clients)))

    def load(self, count):
        def service(number):
            metadata = {"zone": f"z{number % 7}"}
            return {"namespace": "large", "name": f"service-{number:06}", "business": "b", "metadata": metadata}

        self.fill("/naming/v1/services", service, count)
        call(self.clients[0], "/config/v1/configfiles/createandpub", CONFIG, self.token)
        for compat in self.compat:
            eventually("the config is published", lambda compat=compat: self.pulls(compat))

    def pulls(self, compat):
        with urllib.request.urlopen(f"http://{compat}{PULL}", timeout=5) as answer:
            return answer.status == 200


class Prober(threading.Thread):
    """Asks the same thing again and again on one connection, and keeps how long each answer took."""

    def __init__(self, name, address, path, token="", pace_s=PACE_S):
        super().__init__(daemon=True)
        self.pace_s = pace_s
        self.what, self.address, self.path, self.headers = name, address, path, {"Authorization": token}
        self.times, self.others, self.ended = [], 0, threading.Event()

    def run(self):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        while not self.ended.wait(self.pace_s):
            begun = time.monotonic()
            connection.request("GET", self.path, headers=self.headers)
            answer = connection.getresponse()
            answer.read()
            self.others += answer.status != 200
            self.times.append((time.monotonic() - begun) * 1000)

    def row(self):
        self.ended.set()
        self.join()
        times = sorted(self.times)
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        return f"| {self.what} | {len(times)} | {self.others} | {p50:.1f} | {p99:.1f} | {times[-1]:.1f} |"


HEAD = "| asked | answers | not 200 | p50 ms | p99 ms | worst ms |\n|---|---|---|---|---|---|"


@contextlib.contextmanager
def probing(probers):
    for prober in probers:
        prober.start()
    try:
        yield
    finally:
        rows = [prober.row() for prober in probers]
    print(HEAD, *rows, sep="\n", flush=True)


def listing(address, token, path, count):
    """Connections that ask for a list again and again; the number in the query says nothing."""
    url = f"http://{address}{path}&n=[1-10000000]"
    command = ["curl", "-s", "-o", "/dev/null", "-H", f"Authorization: {token}", url]
    return [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]


def lists(cluster, options):
    leader = cluster.leader_index()
    address, token = cluster.clients[leader], cluster.token
    elections = cluster.elections()
    served = sum(cluster.series(leader, "thuban_request_duration_seconds_count"))
    work = listing(address, token, "/naming/v1/services?name=*ervice-*9*", options.pages)
    work += listing(address, token, "/naming/v1/services/all?namespace=large&limit=20000", options.wholes)
    probers = [
        Prober("/livez", address, "/livez"),
        Prober("one service by name", address, "/naming/v1/services?namespace=large&name=service-000001", token),
        Prober("a pull", cluster.compat[leader], PULL),
    ]
    print(f"\n{options.services} services listed on the leader, {options.pages} + {options.wholes} connections:\n")
    worst_ping, end = 0.0, time.monotonic() + options.seconds
    with probing(probers):
        while time.monotonic() < end:
            pings = [ping for index in range(3) for ping in cluster.series(index, "thuban_peer_round_trip_seconds")]
            worst_ping = max([worst_ping, *pings])
            time.sleep(SAMPLE_S)
    for one in work:
        one.kill()
        one.wait()
    served = sum(cluster.series(leader, "thuban_request_duration_seconds_count")) - served
    asked = sum(len(prober.times) for prober in probers)
    print(f"\nlists and samples answered: {served - asked:,.0f}; elections: {cluster.elections() - elections:.0f}; "
          f"worst round trip of a ping between nodes that was sampled: {worst_ping * 1000:.1f} ms", flush=True)


class Writer(threading.Thread):
    """Writes one service after the other."""

    def __init__(self, cluster, address):
        super().__init__(daemon=True)
        self.cluster, self.address, self.ended, self.written, self.worst = cluster, address, threading.Event(), 0, 0.0

    def run(self):
        while not self.ended.wait(PACE_S):
            begun = time.monotonic()
            item = {"namespace": "frozen", "name": f"service-{self.written}", "comment": "c" * 200}
            call(self.address, "/naming/v1/services", [item], self.cluster.token)
            self.worst = max(self.worst, time.monotonic() - begun)
            self.written += 1


def disk_that_hangs(cluster, options):
    if cluster.leader_index() == FROZEN:
        call(cluster.clients[0], "/admin/v1/cluster/transfer", {"node_id": 1}, cluster.token)
        eventually("another node leads", lambda: cluster.leader_index() != FROZEN)
    elections, writer = cluster.elections(), Writer(cluster, cluster.leader())
    writer.start()
    probers = [
        Prober("/livez", cluster.clients[FROZEN], "/livez"),
        Prober("a pull", cluster.compat[FROZEN], PULL),
        Prober("a local look-up", cluster.clients[FROZEN], "/naming/v1/services?namespace=large&name=service-000001"
               "&consistency=local", cluster.token),
        # As a balancer and a monitor do; the one writes to the disk, the other asks RocksDB for its sizes.
        Prober("/readyz", cluster.clients[FROZEN], "/readyz", pace_s=CHECK_PACE_S),
        Prober("/metrics", cluster.clients[FROZEN], "/metrics", pace_s=CHECK_PACE_S),
    ]
    print(f"\nthe disk of a follower hangs for {options.frozen:.0f} s, asked on that node:\n")
    with probing(probers):
        time.sleep(1)
        subprocess.run(["fsfreeze", "-f", cluster.frozen], check=True)
        try:
            time.sleep(options.frozen)
        finally:
            subprocess.run(["fsfreeze", "-u", cluster.frozen], check=True)
        time.sleep(1)
    writer.ended.set()
    writer.join()
    leader, begun = cluster.leader_index(), time.monotonic()
    applied = cluster.series(leader, "thuban_raft_applied_index")[0]
    eventually("the node has caught up", lambda: cluster.series(FROZEN, "thuban_raft_applied_index")[0] >= applied)
    print(f"\nwritten on the leader meanwhile: {writer.written}, the slowest in {writer.worst * 1000:.0f} ms; "
          f"elections: {cluster.elections() - elections:.0f}; "
          f"caught up {time.monotonic() - begun:.2f} s later", flush=True)


def main(options):
    binary = options.thuban or built()
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        can_freeze = os.geteuid() == 0
        with file_system(directory) if can_freeze else contextlib.nullcontext() as frozen:
            with Cluster(binary, directory, frozen) as cluster:
                cluster.load(options.services)
                lists(cluster, options)
                if can_freeze:
                    disk_that_hangs(cluster, options)
                else:
                    print("\nnot root: the disk was not held up")
