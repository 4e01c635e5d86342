"""Who has what, of many clients over three nodes: memory of each client, time of the question, and what is told while a
release spreads and after a node was killed; prints a Markdown table.

Each client pulls one file, once for each release, as a client of its own (`ip=`). The question is asked of every node
in turns, ten times, a page of 100 rows; medians.
"""

import http.client
import os
import signal
import statistics
import tempfile
import threading
import time

from beside import memory, row
from nodes import Thuban, built, call, eventually

FILE = {"namespace": "default", "group": "app", "file_name": "application"}
QUESTION = "/config/v1/configfiles/subscribers?namespace=default&group=app&file_name=application&limit=100"
QUESTIONS = 10


def arguments(parser):
    parser.add_argument("--clients", type=int, default=20_000)


def publish(cluster, value):
    call(cluster.clients[0], "/config/v1/configfiles/createandpub", {**FILE, "content": f"v={value}"}, cluster.token)


def pull(address, clients, failures):
    """One connection to a node that pulls for these clients, one after the other."""
    connection = http.client.HTTPConnection(address, timeout=30)
    for number in clients:
        ip = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        connection.request("GET", f"/configs/app/default/application?ip={ip}", headers={"User-Agent": "bench/1.0"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            failures.append(answer.status)
    connection.close()


def is_there(address):
    failures = []
    pull(address, [0], failures)
    return not failures


def pull_all(addresses, clients):
    """The clients are spread evenly over these nodes."""
    failures = []
    threads = [
        threading.Thread(target=pull, args=(address, clients[index :: len(addresses)], failures))
        for index, address in enumerate(addresses)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"{len(failures)} pulls failed: {failures[:3]}")


def ask(cluster, nodes):
    """The answer, and the median of the seconds that it took."""
    took, answer = [], None
    for turn in range(QUESTIONS):
        began = time.monotonic()
        answer = call(nodes[turn % len(nodes)], QUESTION, token=cluster.token)
        took.append(time.monotonic() - began)
    return answer, statistics.median(took)


def tell(what, answer, took, held):
    silent = ", ".join(map(str, answer["silent_nodes"])) or "none"
    row([what, f"{answer['amount']:,}", f"{answer['current']:,}", silent, f"{took * 1000:.0f}", held])


def main(options):
    clients = range(options.clients)
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        with Thuban(options.thuban or built(), directory) as cluster:
            publish(cluster, 1)
            for address in cluster.compat:
                eventually("the file can be pulled", lambda address=address: is_there(address))
            pull_all(cluster.compat, [0] * 3000)
            before = sum(memory(cluster))
            print(f"{cluster.version()}; {os.cpu_count()} cores; {options.clients:,} clients on three nodes\n")
            row(["", "clients", "with what they should have", "silent nodes", "ms to tell", "memory of the nodes"])
            row(["---"] * 6)
            pull_all(cluster.compat, clients)
            held = (sum(memory(cluster)) - before) * 2**20 / options.clients
            tell("all have pulled", *ask(cluster, cluster.clients), f"{held:.0f} bytes a client")
            publish(cluster, 2)
            pull_all(cluster.compat, clients[: options.clients // 10])
            tell("a tenth has the next release", *ask(cluster, cluster.clients), "")
            killed = cluster.processes[2]
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            began = time.monotonic()
            answer = call(cluster.clients[0], QUESTION, token=cluster.token)
            tell("a node is killed", answer, time.monotonic() - began, "")
            pull_all(cluster.compat[:2], clients)
            tell("its clients went to the others", *ask(cluster, cluster.clients[:2]), "")
