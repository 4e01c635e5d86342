"""What a backup costs, and how long a cluster is away that is made anew of one.

Three nodes hold many rules and config files; writers go on all the time. Told are the time and size of
a backup taken from a follower, the rate of writes before it and meanwhile, and then, on empty
directories, the time of a restore (of the first node from the backup, and of the other two at once from the
file that it leaves) and from the start of all three nodes to readiness.
"""

import concurrent.futures
import http.client
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time

from nodes import KEYS, SIZE, VALUE_BYTES, Thuban, built, call, eventually, resident_mib

BATCH = 100
HANDS = 8
# Items of one request of the writers: so many requests a second do not need many processes.
ITEMS = 25
SETTLE_S = 5


def arguments(parser):
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--file-bytes", type=int, default=10_000)
    parser.add_argument("--writes", type=int, default=5_000, help="writes a second to aim at; 0 for none")


def fill(cluster, options):
    """Rules in batches, config files with a release each, over all nodes."""

    def rules(first):
        numbers = range(first, min(first + BATCH, options.rules))
        batch = [{"name": f"rule-{n}", "namespace": "bench", "service": f"service-{n % KEYS}"} for n in numbers]
        call(cluster.clients[first // BATCH % SIZE], "/naming/v1/ratelimits", batch, cluster.token)

    def file(number):
        content = f"key-{number}=" + "v" * options.file_bytes
        body = {"namespace": "bench", "group": f"app-{number % 100}", "file_name": f"file-{number}.properties"}
        path = "/config/v1/configfiles/createandpub"
        call(cluster.clients[number % SIZE], path, {**body, "content": content}, cluster.token)

    with concurrent.futures.ThreadPoolExecutor(HANDS) as hands:
        list(hands.map(rules, range(0, options.rules, BATCH)))
        list(hands.map(file, range(options.files)))


def write(address, token, rate, hand, stop):
    """Changes services in batches at a steady pace, until told to stop."""
    connection = http.client.HTTPConnection(address, timeout=15)
    headers = {"Content-Type": "application/json", "Authorization": token}
    pause, due, turn = ITEMS / rate, time.monotonic(), 0
    while not stop.is_set():
        first = (turn * ITEMS * HANDS + hand * ITEMS) % KEYS
        text = f"{hand}-{turn}-" + "v" * VALUE_BYTES
        batch = [{"namespace": "bench", "name": f"service-{(first + n) % KEYS}", "comment": text} for n in range(ITEMS)]
        connection.request("PUT", "/naming/v1/services", json.dumps(batch), headers)
        connection.getresponse().read()
        turn += 1
        due = max(due + pause, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))


class Writers:
    """Processes that write until this ends."""

    def __init__(self, cluster, rate):
        self.stop = multiprocessing.Event()
        hands = 2 if rate else 0
        self.processes = [
            multiprocessing.Process(
                target=write, args=(cluster.clients[hand % SIZE], cluster.token, rate / hands, hand, self.stop)
            )
            for hand in range(hands)
        ]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for process in self.processes:
            process.join()


def applied(cluster):
    """Log index of a node, which grows by one a request of the writers."""
    return call(cluster.clients[0], "/admin/v1/cluster", token=cluster.token)["state_hash"]["index"]


def restore(cluster, source, index, *more):
    shutil.rmtree(cluster.data(index), ignore_errors=True)
    command = [cluster.binary, "restore", "--from", source, "--data-dir", cluster.data(index)]
    command += ["--node-id", str(index + 1), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def waited(processes):
    for process in processes:
        if process.wait():
            raise SystemExit(f"{process.args} ended with {process.returncode}")


def timed(work):
    begun = time.monotonic()
    result = work()
    return time.monotonic() - begun, result


def start(cluster):
    for index in range(SIZE):
        log = open(os.path.join(cluster.directory, f"log-{index + 1}"), "ab")
        cluster.processes.append(subprocess.Popen(cluster.command(index), stdout=log, stderr=log))
    for client in cluster.clients:
        eventually("a restored node is ready", lambda client=client: cluster.ready(client), 0.01)


def main(options):
    binary = options.thuban or built()
    rows = []
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        backup = os.path.join(directory, "backup")
        with Thuban(binary, directory) as cluster:
            seconds, _ = timed(lambda: fill(cluster, options))
            print(f"{options.rules} rules and {options.files} files are there after {seconds:.0f} s", file=sys.stderr)
            follower = next(client for client in cluster.clients if client != cluster.leader())
            command = [binary, "backup", "--endpoint", f"http://{follower}", "--token", cluster.token, "--out", backup]
            with Writers(cluster, options.writes):
                time.sleep(SETTLE_S)
                first = applied(cluster)
                time.sleep(SETTLE_S)
                before = (applied(cluster) - first) * ITEMS / SETTLE_S
                first = applied(cluster)
                seconds, _ = timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
                during = (applied(cluster) - first) * ITEMS / seconds
            memory = max(resident_mib(process.pid) for process in cluster.processes)
            size = os.path.getsize(backup) / 2**20
            rows.append(("backup from a follower, verified", f"{seconds:.2f} s, {size:.0f} MiB"))
            rows.append(("writes a second before and meanwhile", f"{before:.0f}, {during:.0f}"))
            rows.append(("memory of the largest node", f"{memory:.0f} MiB"))
            for process in cluster.processes:
                process.kill()
                process.wait()
            cluster.processes.clear()
            members = ",".join(f"{n + 1}={peer}" for n, peer in enumerate(cluster.peers))
            seconds, _ = timed(lambda: waited([restore(cluster, backup, 0, "--initial-cluster", members)]))
            rows.append(("restore of the first node", f"{seconds:.2f} s"))
            reborn = f"{backup}.reborn"
            seconds, _ = timed(lambda: waited([restore(cluster, reborn, index) for index in range(1, SIZE)]))
            rows.append(("restore of the other two at once", f"{seconds:.2f} s"))
            seconds, _ = timed(lambda: start(cluster))
            rows.append(("start of three to ready", f"{seconds:.2f} s"))
            login = {"name": "admin", "password": "a password for benches only"}
            token = call(cluster.clients[0], "/auth/v1/user/login", login)["loginResponse"]["token"]
            kept = call(cluster.clients[0], "/naming/v1/ratelimits?limit=0", token=token)["amount"]
            if kept != options.rules:
                raise SystemExit(f"{kept} of {options.rules} rules came back")
    print("| measure | value |\n|---|---|")
    for measure, value in rows:
        print(f"| {measure} | {value} |")
