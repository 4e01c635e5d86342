#!/usr/bin/env python3
"""Takes a running cluster of three from an older binary to the present one and back, node by node, under load.

    benches/upgrade.py --old BINARY --new BINARY [--hold LEVEL] [--rounds N] [--step-seconds S] [--directory DIR]

scripts/upgrade builds both binaries and calls this. A round:

1. three nodes of the old binary;
2. each in turn ended, and started with the new binary, whose level is held at that of the old one;
3. each in turn back to the old binary;
4. each in turn to the new binary, held; then each restarted with the next level allowed, whereupon the cluster's level rises;
5. the old binary on a directory of the new level: refused in words, and nothing in it changed.

All the while writers create services, publish config files, save rules and release them through every node
that runs. After each step the load pauses and the state hashes of all nodes are compared at one index. At the end every
write that was acknowledged is looked for. A write that finds its node gone goes to the next one, as a balancer would
send it; 503 answers say that nothing happened and are counted; any other failure ends the run with status 1.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nodes import SIZE, Thuban, call, eventually  # noqa: E402

WRITERS = 4
PACE_S = 0.004
END_LIMIT_S = 40


class Nodes(Thuban):
    """Three nodes whose binary is chosen at each start."""

    def __init__(self, binary, directory):
        super().__init__(binary, directory)
        self.serving = [False] * SIZE
        self.lock = threading.Lock()
        self.under_way = [0] * SIZE

    def start(self, index, binary, flags=()):
        with open(os.path.join(self.directory, f"log-{index + 1}"), "ab") as log:
            self.binary = binary
            process = subprocess.Popen([*self.command(index), *flags], stdout=log, stderr=log)
        self.processes[index] = process
        eventually(f"node {index + 1} is ready", lambda: process.poll() is None and self.ready(self.clients[index]))
        self.serving[index] = True

    def stop(self, index):
        """As an operator does: the balancer stops sending, what it sent is answered, then SIGTERM."""
        with self.lock:
            self.serving[index] = False
        eventually("nothing is under way", lambda: self.under_way[index] == 0, pause_s=0.005)
        process = self.processes[index]
        process.terminate()
        if process.wait(timeout=END_LIMIT_S) != 0:
            raise SystemExit(f"node {index + 1} ended with status {process.returncode}")

    @contextlib.contextmanager
    def taken(self, index):
        """Whether the node takes one more request, which ends with the block."""
        with self.lock:
            is_taken = self.serving[index]
            self.under_way[index] += is_taken
        try:
            yield is_taken
        finally:
            with self.lock:
                self.under_way[index] -= is_taken

    def cluster(self, index):
        return call(self.clients[index], "/admin/v1/cluster", token=self.token)

    def equal_hashes(self):
        """The one state hash of all nodes at one index."""
        def compare():
            states = [self.cluster(index)["state_hash"] for index in range(SIZE)]
            if len({state["index"] for state in states}) > 1:
                return None
            if len({state["hash"] for state in states}) > 1:
                raise SystemExit(f"states differ at one index: {states}")
            return states[0]
        return eventually("all nodes are at one index", compare)


class Load:
    """Writers that note what became of each attempt."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.numbers = itertools.count()
        self.gate = threading.Event()
        self.gate.set()
        self.over = threading.Event()
        self.idle = [threading.Event() for _ in range(WRITERS)]
        self.lock = threading.Lock()
        self.acknowledged, self.refused, self.moved, self.failed = [], 0, 0, []
        self.threads = [threading.Thread(target=self.run, args=(n,), daemon=True) for n in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def run(self, writer):
        while not self.over.is_set():
            if not self.gate.is_set():
                self.idle[writer].set()
                self.gate.wait(1)
                continue
            self.idle[writer].clear()
            self.write(next(self.numbers))
            time.sleep(PACE_S)

    def write(self, number):
        method, path, body, shown = request(number)
        for attempt in range(SIZE * 2):
            index = (number + attempt) % SIZE
            with self.nodes.taken(index) as is_taken:
                if is_taken and self.send(index, method, path, body, shown):
                    return
        with self.lock:
            self.failed.append(f"{path}: no node to send it to")

    def send(self, index, method, path, body, shown):
        """One attempt; false if the node is gone and the next one is to be asked."""
        connection = http.client.HTTPConnection(self.nodes.clients[index], timeout=15)
        try:
            try:
                connection.connect()
            except ConnectionError:
                with self.lock:
                    self.moved += 1
                return False
            headers = {"Authorization": self.nodes.token, "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            with self.lock:
                self.failed.append(f"{path} through node {index + 1}: {error!r}")
            return True
        finally:
            connection.close()
        with self.lock:
            if answer.status == 200:
                self.acknowledged.append(shown)
            elif answer.status == 503:
                self.refused += 1
            else:
                self.failed.append(f"{path} through node {index + 1}: {answer.status} {text[:200]!r}")
        return True

    def paused(self):
        self.gate.clear()
        for idle in self.idle:
            idle.wait(20)

    def resume(self):
        for idle in self.idle:
            idle.clear()
        self.gate.set()

    def end(self):
        self.over.set()
        self.gate.set()
        for thread in self.threads:
            thread.join(20)


def request(number):
    """Method, path and body of the write with this number, and where its result is found."""
    turn, kind = divmod(number, 6)
    name, rule = f"n{number}", f"r{turn % 10}"
    if kind == 1:
        file = f"f{turn % 10}.properties"
        body = {"namespace": "up", "group": "g", "file_name": file, "content": f"a={number}"}
        return "POST", "/config/v1/configfiles/createandpub", body, ("file", file)
    if kind == 2:
        limit = {"namespace": "up", "name": name, "rules": [{"amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]}
        return "POST", "/naming/v1/ratelimits", [limit], ("ratelimit", name)
    if kind == 3:
        method = "POST" if turn < 10 else "PUT"
        return method, "/naming/v1/faultdetectors", [{"namespace": "up", "name": rule, "description": name}], None
    if kind == 4:
        instance = {"namespace": "up", "service": "pay", "host": "10.0.0.1", "port": 1000 + turn % 100}
        instance["weight"] = turn % 99 + 1
        return "POST", "/naming/v1/instances", [instance], None
    if kind == 5 and turn > 20:
        return "POST", "/naming/v1/faultdetectors/releases", [{"namespace": "up", "rule_name": rule}], None
    service = {"namespace": "up", "name": name, "comment": "c" * 100}
    return "POST", "/naming/v1/services", [service], ("service", name)


def look_for(nodes, shown):
    """How many of the acknowledged things are missing on any node."""
    wanted = {"service": set(), "file": set(), "ratelimit": set()}
    for kind, name in filter(None, shown):
        wanted[kind].add(name)
    lost = 0
    for client in nodes.clients:
        services = call(client, "/naming/v1/services/all?namespace=up", token=nodes.token)["services"]
        lost += len(wanted["service"] - {service["name"] for service in services})
        files = pages(client, nodes, "/config/v1/configfiles/search?namespace=up&group=g", "configFiles", "name")
        limits = pages(client, nodes, "/naming/v1/ratelimits?namespace=up&brief=true", "data", "name")
        lost += len(wanted["file"] - set(files)) + len(wanted["ratelimit"] - set(limits))
    return lost


def pages(client, nodes, path, element, field):
    offset = 0
    while True:
        page = call(client, f"{path}&offset={offset}&limit=100", token=nodes.token)
        rows = page.get(element) or []
        yield from (row[field] for row in rows)
        offset += len(rows)
        if not rows or offset >= page["amount"]:
            return


def checksum(directory):
    """What lies in a data directory, by name and content; locks and text logs aside."""
    script = "find . -type f ! -name 'LOCK*' ! -name 'LOG*' -print0 | sort -z | xargs -0 sha256sum"
    return subprocess.check_output(["bash", "-c", script], cwd=directory)


def step(nodes, load, title, seconds):
    time.sleep(seconds)
    load.paused()
    state = nodes.equal_hashes()
    levels = {nodes.cluster(index).get("level", 1) for index in range(SIZE)}
    load.resume()
    state_hash = f"index {state['index']:>7}  hash {state['hash'][:12]}"
    print(f"  {title:<44} level {sorted(levels)}  {state_hash} on all", flush=True)


def play(arguments, number, directory):
    held, free = (("--level-max", str(level)) for level in (arguments.hold, arguments.hold + 1))
    with Nodes(arguments.old, os.path.join(directory, f"round-{number}")) as nodes:
        nodes.serving = [True] * SIZE
        load = Load(nodes)
        passes = [("new binary, held back", arguments.new, held), ("old binary again", arguments.old, ()),
                  ("new binary, held back", arguments.new, held), (f"new binary, level {arguments.hold + 1} allowed", arguments.new, free)]
        step(nodes, load, "three nodes of the old binary", arguments.step_seconds)
        for title, binary, flags in passes:
            for index in range(SIZE):
                nodes.stop(index)
                nodes.start(index, binary, flags)
                step(nodes, load, f"node {index + 1}: {title}", arguments.step_seconds)
        eventually("the level rises", lambda: nodes.cluster(0)["level"] > arguments.hold)
        level = nodes.cluster(0)["level"]
        step(nodes, load, f"level {level}", arguments.step_seconds)
        refuse_the_old(arguments, nodes)
        load.end()
        nodes.equal_hashes()
        lost = look_for(nodes, load.acknowledged)
    print(f"round {number}: {len(load.acknowledged)} acknowledged, {load.refused} refused with 503, "
          f"{load.moved} sent to another node, {len(load.failed)} failed, {lost} lost", flush=True)
    for failure in load.failed[:10]:
        print(f"  failed: {failure}")
    return not load.failed and not lost


def refuse_the_old(arguments, nodes):
    nodes.stop(0)
    before = checksum(nodes.data(0))
    nodes.binary = arguments.old
    refused = subprocess.run(nodes.command(0), check=False, capture_output=True, text=True, timeout=END_LIMIT_S)
    said = (refused.stderr.strip().splitlines() or ["nothing"])[-1]
    print(f"  the old binary on this directory: status {refused.returncode}, {said}")
    if refused.returncode == 0 or checksum(nodes.data(0)) != before:
        raise SystemExit("the old binary did not refuse a newer directory, or it changed it")
    nodes.start(0, arguments.new, ("--level-max", str(arguments.hold + 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--hold", type=int, default=1, help="level of the old binary (1)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--step-seconds", type=float, default=2)
    parser.add_argument("--directory")
    arguments = parser.parse_args()
    directory = arguments.directory or tempfile.mkdtemp(prefix="thuban-upgrade-")
    is_right = all([play(arguments, number + 1, directory) for number in range(arguments.rounds)])
    if is_right and not arguments.directory:
        shutil.rmtree(directory)
    elif not is_right:
        print(f"logs of the nodes: {directory}")
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
