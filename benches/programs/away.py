"""What a node that is away costs the other two: processor, log and write rate.

Three nodes on the loopback interface, each behind a TCP proxy that its peers dial. First the whole
cluster is measured, then one follower at a time is away: killed (its port refuses), paused (its kernel
takes connections and nobody answers), cut off (what its peers send stays in the proxy: connections are
taken and stay open, and nothing arrives). In each state the two others are idle for SECONDS, then written
to for as long. Last, the time from its return until the follower has what was written meanwhile. Prints
one Markdown table.

Processor and log are those of the leader; processor is told as a share of one core.
"""

import os
import selectors
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error

from beside import row
from nodes import SIZE, Thuban, built, call, cpu_seconds, eventually, free_ports, resident_mib

NAMESPACE = "bench"
WRITERS = 4
SETTLE_S = 8  # until the leader has noticed, by its pongs, that a peer is silent
POLL_S = 0.02


def arguments(parser):
    about = "how long each state lasts, idle and under load"
    parser.add_argument("seconds", type=int, nargs="?", default=600, help=about)
    parser.add_argument("--states", nargs="+", default=list(AWAY), choices=list(AWAY))


class Proxy:
    """Passes on what comes to `port`, or nothing: connections stay open, and bytes stay where they are."""

    def __init__(self, port, target):
        self.target = target
        self.is_cut = False
        self.listener = socket.create_server(("127.0.0.1", port))
        self.selector = selectors.DefaultSelector()
        self.other = {}
        self.selector.register(self.listener, selectors.EVENT_READ)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            if self.is_cut:
                time.sleep(POLL_S)
                continue
            for key, _ in self.selector.select(timeout=POLL_S):
                if key.fileobj is self.listener:
                    self.open()
                elif key.fileobj in self.other:
                    self.pass_on(key.fileobj)

    def open(self):
        front, _ = self.listener.accept()
        try:
            back = socket.create_connection(self.target, timeout=1)
        except OSError:
            front.close()
            return
        for one, other in ((front, back), (back, front)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(None)  # a reader that stands still holds up the writer, as a wire does
            self.other[one] = other
            self.selector.register(one, selectors.EVENT_READ)

    def pass_on(self, one):
        other = self.other[one]
        try:
            data = one.recv(1 << 18)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        for end in (one, other):
            self.selector.unregister(end)
            del self.other[end]
            end.close()


class Wired(Thuban):
    """Three nodes, each with a proxy for what the others dial to it."""

    def __init__(self, binary, directory):
        super().__init__(binary, directory)
        self.fronts = free_ports(SIZE)
        addresses = [peer.rsplit(":", 1) for peer in self.peers]
        self.proxies = [Proxy(front, (host, int(port))) for front, (host, port) in zip(self.fronts, addresses)]

    def command(self, index):
        members = ",".join(f"{n + 1}=127.0.0.1:{front}" for n, front in enumerate(self.fronts))
        command = super().command(index)
        command[command.index("--initial-cluster") + 1] = members
        return command

    def restart(self, index):
        with open(os.path.join(self.directory, f"log-{index + 1}"), "ab") as log:
            self.processes[index] = subprocess.Popen(self.command(index), stdout=log, stderr=log)

    def leader_index(self):
        for client in self.clients:
            try:
                return call(client, "/admin/v1/cluster", token=self.token)["leader"] - 1
            except (OSError, KeyError, TypeError):
                continue
        raise SystemExit("no node names a leader")

    def log_bytes(self, index):
        return os.path.getsize(os.path.join(self.directory, f"log-{index + 1}"))


def kill(cluster, index):
    cluster.processes[index].kill()
    cluster.processes[index].wait()


def pause(cluster, index):
    cluster.processes[index].send_signal(signal.SIGSTOP)


def resume(cluster, index):
    cluster.processes[index].send_signal(signal.SIGCONT)


def cut(cluster, index):
    cluster.proxies[index].is_cut = True


def mend(cluster, index):
    cluster.proxies[index].is_cut = False


# How a follower leaves, and how it comes back.
AWAY = {"killed": (kill, Wired.restart), "paused": (pause, resume), "cut off": (cut, mend)}


class Writers:
    """Writes services one by one through one node, on several connections, and counts."""

    def __init__(self, client, token, tag):
        self.client, self.token, self.tag = client, token, tag
        self.written = self.failed = 0
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.write, args=(n,)) for n in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self, writer):
        number = 0
        while not self.stop.is_set():
            number += 1
            item = {"namespace": NAMESPACE, "name": f"service-{writer}", "comment": f"{self.tag} {number}"}
            try:
                done = call(self.client, "/naming/v1/services", [item], self.token, "PUT")["code"] == 200000
            except (OSError, urllib.error.URLError):
                done = False
            with self.lock:
                self.written += done
                self.failed += not done

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def measure(cluster, leader, seconds, title):
    """One state, idle and under load."""
    cells = []
    for load in (False, True):
        process, writers = cluster.processes[leader], None
        cpu, log, began = cpu_seconds(process.pid), cluster.log_bytes(leader), time.monotonic()
        if load:
            writers = Writers(cluster.clients[leader], cluster.token, f"{title} {began}")
        time.sleep(seconds)
        if load:
            writers.end()
        took = time.monotonic() - began
        share = (cpu_seconds(process.pid) - cpu) / took * 100
        cells += [f"{share:.1f} %", f"{cluster.log_bytes(leader) - log:,}"]
        if load:
            cells += [f"{writers.written / took:,.0f}", str(writers.failed)]
    return cells + [f"{resident_mib(process.pid):.0f}"]


def has(cluster, index, name):
    path = f"/naming/v1/services?consistency=local&namespace={NAMESPACE}&name={name}"
    return call(cluster.clients[index], path, token=cluster.token)["amount"] == 1


def main(options):
    binary = options.thuban or built()
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        with Wired(binary, directory) as cluster:
            print(f"{cluster.version()}; {os.cpu_count()} cores; {options.seconds} s idle and {options.seconds} s of "
                  f"{WRITERS} writers a state; the leader's figures\n")
            heads = ["follower", "idle CPU", "idle log B", "load CPU", "load log B", "writes/s", "failed", "RSS MiB"]
            row(heads + ["caught up after s"])
            row(["---"] * (len(heads) + 1))
            row(["there"] + measure(cluster, cluster.leader_index(), options.seconds, "there") + [""])
            for state in options.states:
                leave, come_back = AWAY[state]
                leader = cluster.leader_index()
                follower = (leader + 1) % SIZE
                leave(cluster, follower)
                time.sleep(SETTLE_S)
                cells = measure(cluster, leader, options.seconds, state)
                name = f"last-{state.replace(' ', '-')}"
                last = [{"namespace": NAMESPACE, "name": name}]
                call(cluster.clients[leader], "/naming/v1/services", last, cluster.token)
                come_back(cluster, follower)
                back = time.monotonic()
                eventually("the follower has caught up", lambda f=follower, n=name: has(cluster, f, n), pause_s=POLL_S)
                row([state] + cells + [f"{time.monotonic() - back:.2f}"])
                eventually("the follower is ready", lambda f=follower: cluster.ready(cluster.clients[f]))
