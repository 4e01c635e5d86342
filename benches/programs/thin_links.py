"""What large writes do to a cluster whose links are thin, and how a learner behind one catches up.

Each direction between two nodes is a relay with a rate, a buffer of 64 KiB and 5 ms of delay, which all connections of
that direction share (benches/links.py). First, for each rate, three voters: one publish of several files of 1 MB
goes to the leader. Is it answered, do all nodes have it and after how long, and how do small writes fare from then
until all have it? Second, a learner behind one link: it is away while files are published, and comes back. How long
until it has all of them, and how many bytes were sent to it for each byte that it needed? Needed is what was
published; keys, frames and TLS come on top of that.

Prints two Markdown tables. What has not ended after --limit seconds is said to be "not within" it.
"""

import http.client
import os
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from apart import Apart, free_directory
from beside import disk, row
from links import Links, Quality
from nodes import SIZE, built, call, eventually, free_ports
from publishing import Connection

MEGABYTE = 1_000_000
DELAY_S = 0.005
PROBE_PAUSE_S = 0.5
SMALL_PAUSE_S = 0.05
LEARNER = SIZE + 1


def arguments(parser):
    rates = [24_000, 2_000, 512]
    parser.add_argument("--kbits", type=int, nargs="*", default=rates, help="rates of the links of the voters")
    parser.add_argument("--files", type=int, default=7, help="of 1 MB, in the one publish")
    parser.add_argument("--limit", type=float, default=600, help="seconds to wait for any end")
    about = "bytes a second to the learner; 0 leaves it out"
    parser.add_argument("--learner-rate", type=float, default=MEGABYTE, help=about)
    parser.add_argument("--backlog", type=int, default=200, help="MB that the learner has missed")


def content():
    """A megabyte that no compression makes smaller by much."""
    return os.urandom(MEGABYTE // 2).hex()


class SmallWrites(threading.Thread):
    """One write after the other through the leader, each on the same connection while that lasts."""

    def __init__(self, cluster, address):
        super().__init__(daemon=True)
        self.connection = Connection(address, cluster.token)
        self.times, self.others, self.ended = [], {}, threading.Event()
        self.start()

    def run(self):
        number = 0
        while not self.ended.wait(SMALL_PAUSE_S):
            number += 1
            item = [{"namespace": "bench", "name": "service-1", "comment": f"small {number}"}]
            began = time.monotonic()
            status, answer = self.connection.send("PUT", "/naming/v1/services", item)
            if status == 200:
                self.times.append(time.monotonic() - began)
            else:
                code = answer.get("code", status) if isinstance(answer, dict) else "none"
                self.others[code] = self.others.get(code, 0) + 1

    def end(self):
        """Cells: how many, p50 and p99 in ms, and what else was answered."""
        self.ended.set()
        self.join()
        times = sorted(self.times)
        others = ", ".join(f"{count} × {code}" for code, count in self.others.items()) or "none"
        if not times:
            return ["0", "", "", others]
        p50, p99 = (f"{times[min(len(times) - 1, int(len(times) * share))] * 1000:,.0f}" for share in (0.5, 0.99))
        return [str(len(times)), p50, p99, others]


def has(compat, group, name, length):
    """Whether a config client of this node gets the whole file."""
    try:
        with urllib.request.urlopen(f"http://{compat}/configfiles/raw/{group}/default/{name}", timeout=5) as answer:
            return len(answer.read()) >= length
    except (OSError, http.client.HTTPException, urllib.error.URLError):
        return False


def until(limit_s, holds, pause_s=PROBE_PAUSE_S):
    """Seconds until this holds; nothing if it does not within the limit."""
    began = time.monotonic()
    while time.monotonic() - began < limit_s:
        if holds():
            return time.monotonic() - began
        time.sleep(pause_s)
    return None


def told(seconds, limit):
    return f"not within {limit:.0f}" if seconds is None else f"{seconds:.1f}"


def publish_one(connection, group, name):
    body = {"namespace": "default", "group": group, "file_name": name, "content": content()}
    return connection.send("POST", "/config/v1/configfiles/createandpub", body)


def voters(cluster, kbit, options):
    """The row of one rate."""
    leader = cluster.leader_index()
    address = cluster.clients[leader]
    drafts = [{"namespace": "default", "group": "thin", "file_name": f"f{number}.txt", "content": content()}
              for number in range(options.files)]
    cluster.links.set(Quality(kbit * 1000 / 8, DELAY_S))
    small, before, cpu = SmallWrites(cluster, address), cluster.links.passed(), cluster.relays_cpu_seconds()
    began = time.monotonic()
    status, answer = Connection(address, cluster.token).send("POST", "/config/v1/configfiles", drafts)
    answered = time.monotonic() - began
    code = answer.get("code", status) if isinstance(answer, dict) else "none"

    def everywhere():
        """Drafts are looked at by their number, on each node by itself."""
        return all(drafts_of(cluster, index) >= options.files for index in range(SIZE))

    ended = until(options.limit, everywhere)
    took = time.monotonic() - began
    cells = small.end()
    after = cluster.links.passed()
    sent = sum(after[pair] - before.get(pair, 0) for pair in after if pair[0] == leader + 1)
    needed = 2 * options.files * MEGABYTE
    relays = 100 * (cluster.relays_cpu_seconds() - cpu) / took
    row([f"{kbit:,}", f"{code} after {answered:.1f}", told(None if ended is None else took, options.limit), *cells,
         f"{sent / needed:.2f}", f"{relays:.0f} %"])


def drafts_of(cluster, index):
    """Files of the group that this node has, by its own state."""
    path = "/config/v1/configfiles/search?namespace=default&group=thin&limit=1&consistency=local"
    try:
        return call(cluster.clients[index], path, token=cluster.token).get("total", 0)
    except (OSError, urllib.error.URLError):
        return 0


def learner(binary, directory, options):
    with Apart(binary, directory, Quality()) as cluster:
        api, compat, peer = (f"127.0.0.1:{port}" for port in free_ports(3))
        with Links({LEARNER: peer}, Quality()) as links:
            behind = Learner(cluster, binary, (api, compat, peer), os.path.join(directory, "learner"))
            call(cluster.leader(), "/admin/v1/cluster/add", {"id": LEARNER, "peer": links.fronts[0]}, cluster.token)
            connection = Connection(cluster.leader(), cluster.token)
            publish_one(connection, "before", "first.txt")
            eventually("the learner has the first file", lambda: has(compat, "before", "first.txt", MEGABYTE))
            behind.stop()
            for number in range(options.backlog):
                _, answer = publish_one(connection, "backlog", f"f{number}.txt")
                if not isinstance(answer, dict) or answer.get("code") != 200000:
                    raise SystemExit(f"a publish was not taken: {answer}")
            last = f"f{options.backlog - 1}.txt"
            before = links.set(Quality(options.learner_rate, DELAY_S))
            behind.start()
            took = until(options.limit, lambda: has(compat, "backlog", last, MEGABYTE))
            after = links.passed()
            behind.stop()
            sent = sum(after[pair] - before.get(pair, 0) for pair in after if pair[1] == LEARNER)
    needed = options.backlog * MEGABYTE
    row([f"{options.learner_rate / 1000:,.0f}", str(options.backlog), told(took, options.limit),
         f"{needed / options.learner_rate:.1f}", f"{sent / MEGABYTE:,.1f}", f"{sent / needed:.2f}"])


class Learner:
    """A fourth node, which the cluster adds."""

    def __init__(self, cluster, binary, addresses, data):
        self.cluster, self.process = cluster, None
        api, compat, peer = addresses
        command = cluster.command(0)
        kept = {"--cluster-secret", "--admin-password"}
        shared = [word for flag in kept for word in (flag, command[command.index(flag) + 1])]
        self.words = [binary, "serve", "--node-id", str(LEARNER), "--data-dir", data, "--api-addr", api,
                      "--compat-addr", compat, "--peer-addr", peer, *shared]
        self.start()

    def start(self):
        with open(os.path.join(self.cluster.directory, "log-learner"), "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)
        self.cluster.processes.append(self.process)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.cluster.processes.remove(self.process)


def main(options):
    disk(options.directory)
    binary = options.thuban or built()
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        print(f"{os.cpu_count()} cores; data on {disk(directory)}; "
              f"one publish of {options.files} files of 1 MB to three voters\n")
        heads = ["link kbit/s", "publish answered, s", "on all nodes after s", "small writes", "p50 ms", "p99 ms",
                 "other answers", "bytes sent / needed", "relays' CPU"]
        row(heads)
        row(["---"] * len(heads))
        for kbit in options.kbits:
            with Apart(binary, free_directory(directory, f"at-{kbit}"), Quality()) as cluster:
                voters(cluster, kbit, options)
        if options.learner_rate:
            print("\nA learner that has missed some files of 1 MB:\n")
            heads = ["link kB/s", "missed MB", "caught up after s", "at the rate of the link s", "MB sent to it",
                     "sent / needed"]
            row(heads)
            row(["---"] * len(heads))
            learner(binary, free_directory(directory, "learner-cluster"), options)
