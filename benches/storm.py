#!/usr/bin/env python3
"""Runs all attacks at once against one node of a cluster whose memory is limited, beside a config client and an editor.

    benches/storm.py --binary BINARY [--seconds N] [--nodes 1|3] [--memory-mib N] [--only NAME,NAME] [--directory DIR]

scripts/attacks together builds the binary and calls this. The first node may have so much private memory (`prlimit
--data`, default 1024 MiB; an allocation beyond it fails, which ends the node). Each attack has hands from one address
(127.0.0.9) and as many from many: they connect from 127.0.1.0/24, which a node trusts as a proxy, and say another
address in X-Forwarded-For with each request. Meanwhile a config client pulls over a connection that stays and polls,
and an editor publishes once a second, through the first node. Told are the times and failures of both, what the
attackers were answered, and of the node its memory, descriptors, processor time and log; then whether the audit rows
from before are still there. Ends with status 1 if the node died, one of the two failed once, or an audit row is lost.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import queue
import resource
import sys
import tempfile
import time
import urllib.error
import urllib.parse
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attackers import ATTACKS, MIB, PULL, TIMEOUT_S, attack  # noqa: E402
from nodes import Thuban, call, cpu_seconds, resident_mib  # noqa: E402

AUDIT = "/admin/v1/audit?kind=user&limit=100"
ALONE_S = 15
CALM_S = 20


# --- the ones that are to be served ---


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1000 if times else float("nan")


def pull(address, ends, results):
    """A pull every 50 ms, which names the release that it has."""
    times, failures, key, connection = [], Counter(), "", None
    while not ends.is_set():
        began = time.monotonic()
        try:
            connection = connection or http.client.HTTPConnection(address, timeout=TIMEOUT_S)
            connection.request("GET", f"{PULL}?releaseKey={key}&ip=10.0.0.1", headers={"User-Agent": "honest/1.0"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 200:
                key = json.loads(body)["releaseKey"]
            elif answer.status != 304:
                failures[f"pull {answer.status}"] += 1
        except (OSError, http.client.HTTPException) as error:
            failures[f"pull {type(error).__name__}"] += 1
            connection = None
            ends.wait(0.2)
        times.append((began, time.monotonic() - began))
        time.sleep(0.05)
    results.put(("pull", times, failures))


def poll(address, ends, results):
    """A poll after the other; how long after a publish was begun the client has it."""
    times, failures, known, connection = [], Counter(), -1, None
    while not ends.is_set():
        wanted = urllib.parse.quote(json.dumps([{"namespaceName": "application", "notificationId": known}]))
        try:
            connection = connection or http.client.HTTPConnection(address, timeout=90)
            path = f"/notifications/v2?appId=shop&cluster=default&ip=10.0.0.1&notifications={wanted}"
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status not in (200, 304):
                failures[f"poll {answer.status}"] += 1
            if answer.status != 200:
                continue
            known = json.loads(body)[0]["notificationId"]
            connection.request("GET", PULL)
            answer = connection.getresponse()
            begun = float(json.loads(answer.read())["configurations"]["begun"])
            if begun:
                times.append((begun, time.monotonic() - begun))
        except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
            failures[f"poll {type(error).__name__}"] += 1
            connection = None
            ends.wait(0.2)
    results.put(("poll", times, failures))


def edit(address, token, ends, results):
    """A publish a second, with the moment in which it is begun."""
    times, failures = [], Counter()
    while not ends.wait(max(0.0, 1 - (times[-1][1] if times else 0))):
        began = time.monotonic()
        try:
            publish(address, token, "application.properties", f"begun={began}")
        except (OSError, urllib.error.URLError) as error:
            failures[f"publish {getattr(error, 'code', type(error).__name__)}"] += 1
        times.append((began, time.monotonic() - began))
    results.put(("publish", times, failures))


def publish(address, token, file, content):
    body = {"namespace": "default", "group": "shop", "file_name": file, "content": content}
    call(address, "/config/v1/configfiles/createandpub", body, token)


# --- the node, and what is told of it ---


def prefer(pid):
    """Attackers are on machines of their own, mostly: here they are not to take the processors from whom they attack.

    Of a process in a session of its own; a system may share out processors by sessions first.
    """
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), -10)
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as group:
            group.write("-10")
    except PermissionError:
        print("All processes have the same priority: this is to be run as root.")
    except FileNotFoundError:
        pass  # processors are not shared out by sessions


def serve(run, arguments):
    os.setsid()
    prefer(os.getpid())
    run(*arguments)


class Limited(Thuban):
    """A cluster of as many nodes as are asked for, of which the first has a limit of memory."""

    in_sessions = True

    def __init__(self, binary, directory, options):
        super().__init__(binary, directory)
        addresses = (self.clients, self.peers, self.compat)
        self.clients, self.peers, self.compat = (those[: options.nodes] for those in addresses)
        self.memory_mib = options.memory_mib

    def launch(self, index):
        super().launch(index)
        if index == 0 and self.memory_mib:
            most = self.memory_mib * MIB
            resource.prlimit(self.processes[0].pid, resource.RLIMIT_DATA, (most, most))


def prepare(cluster):
    """What the attackers meet; their tokens."""
    api, admin = cluster.clients[0], cluster.token
    publish(api, admin, "application.properties", "begun=0")
    for number in range(100):
        body = {"namespace": "default", "group": "large", "file_name": f"{number}.txt", "content": "x" * 200_000}
        call(api, "/config/v1/configfiles/createandpub", body, admin)
    of_eve = {"namespace": "default", "group": "eve", "file_name": "f", "content": "a=1"}
    call(api, "/config/v1/configfiles/createandpub", of_eve, admin)
    for first in range(0, 5000, 100):
        batch = [
            {"namespace": "shop", "service": f"s{n % 50}", "host": f"10.1.{n // 250}.{n % 250}", "port": 20_000}
            for n in range(first, first + 100)
        ]
        call(api, "/naming/v1/instances", batch, admin)
    grants = {
        "blind": [],
        "client": [{"role": "client", "namespace": "shop"}],
        "reader": [{"role": "reader", "namespace": "*"}],
        "eve": [{"role": role, "namespace": "default", "name": "eve"} for role in ("editor", "releaser")],
    }
    tokens = {}
    for name, given in grants.items():
        made = call(api, "/auth/v1/tokens", [{"name": name, "grants": given}], admin)
        tokens[name] = made["responses"][0]["token"]["secret"]
    for number in range(20):
        user = {"name": f"user-{number}", "password": "a password of somebody", "grants": grants["client"]}
        call(api, "/auth/v1/users", [user], admin)
    return tokens


def audit_rows(cluster):
    rows, page = set(), 0
    while True:
        found = call(cluster.clients[0], f"{AUDIT}&user=admin&offset={page}", token=cluster.token)["data"]
        rows |= {json.dumps(row, sort_keys=True) for row in found}
        page += len(found)
        if len(found) < 100:
            return rows


def look(cluster, began, samples):
    """A sample of the attacked node; False where it has died."""
    pid = cluster.processes[0].pid
    try:
        samples.append((time.monotonic() - began, resident_mib(pid), len(os.listdir(f"/proc/{pid}/fd"))))
        return True
    except (OSError, StopIteration):
        return False


def metrics(cluster, *names):
    connection = http.client.HTTPConnection(cluster.clients[0], timeout=TIMEOUT_S)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return [line for line in lines if line.startswith(names)]


def answered(told):
    """What one process of attackers was told; nothing of one that does not come to its end."""
    try:
        return told.get(timeout=60)
    except queue.Empty:
        print("Some of the attackers did not end: their answers are not counted.")
        return Counter()


def storm(cluster, options, names):
    """Runs it; the samples, what the honest ones saw, what the attackers were told, and whether the node lives."""
    ends, results, told = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Queue()
    target = (cluster.clients[0], cluster.compat[0], prepare(cluster))
    before, log_before = audit_rows(cluster), os.path.getsize(cluster.log(0))
    jobs = [
        (pull, (cluster.compat[0], ends, results)), (poll, (cluster.compat[0], ends, results)),
        (edit, (cluster.clients[0], cluster.token, ends, results)),
    ]
    served = [multiprocessing.Process(target=serve, args=job) for job in jobs]
    attackers = [
        multiprocessing.Process(target=attack, args=(target, is_one, names, options.seconds, ends, told))
        for is_one in (True, False)
    ]
    for process in served:
        process.start()
    for process in cluster.processes:
        prefer(process.pid)
    time.sleep(ALONE_S)
    samples, began, cpu = [], time.monotonic(), cpu_seconds(cluster.processes[0].pid)
    is_alive = look(cluster, began, samples)
    for process in attackers:
        process.start()
    while is_alive and time.monotonic() < began + options.seconds:
        is_alive = look(cluster, began, samples)
        time.sleep(0.5)
    cpu = (cpu_seconds(cluster.processes[0].pid) - cpu) / (time.monotonic() - began) if is_alive else float("nan")
    ends.set()
    saw = [results.get(timeout=120) for _ in served]
    answers = sum((answered(told) for _ in attackers), Counter())
    for process in served + attackers:
        process.terminate()
        process.join()
    written = (os.path.getsize(cluster.log(0)) - log_before) / 1024
    if not is_alive:
        print(f"The node died after {samples[-1][0]:.0f} s.")
    print(f"The node used {cpu:.2f} processors and wrote {written:.0f} KiB of log.")
    if is_alive:
        time.sleep(CALM_S)
        is_alive = look(cluster, began, samples)
    split = [
        (f"{name}{when}", [took for at, took in times if (at < began) == is_before], failures if not is_before else {})
        for name, times, failures in sorted(saw)
        for when, is_before in ((" before", True), ("", False))
    ]
    return samples, split, answers, is_alive, is_alive and before <= audit_rows(cluster)


def tell(samples, saw, answers):
    print("\n| Seconds | Resident MiB | Descriptors |\n|---|---|---|")
    last = samples[-1][0]
    for share in (0, 0.05, 0.1, 0.25, 0.5, 0.75):
        at, memory, files = min(samples, key=lambda sample, at=last * share: abs(sample[0] - at))
        print(f"| {at:.0f} | {memory:.0f} | {files} |")
    most = max(samples, key=lambda sample: sample[1])
    print(f"| {most[0]:.0f} (most) | {most[1]:.0f} | {max(sample[2] for sample in samples)} at most |")
    print(f"| {last:.0f} ({CALM_S} s after the end) | {samples[-1][1]:.0f} | {samples[-1][2]} |")
    print("\n| Served | Times | p50, ms | p99, ms | longest, ms | failures |\n|---|---|---|---|---|---|")
    for name, times, failures in saw:
        told = ", ".join(f"{what}: {count}" for what, count in failures.items()) or "none"
        row = f"{percentile(times, 0.5):.1f} | {percentile(times, 0.99):.1f} | {percentile(times, 1):.0f}"
        print(f"| {name} | {len(times)} | {row} | {told} |")
    print("\n| Attack | Answers |\n|---|---|")
    for name in sorted({name for name, _ in answers}):
        row = ", ".join(f"{what}: {count:,}" for (of, what), count in sorted(answers.items()) if of == name)
        print(f"| {name} | {row} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3))
    parser.add_argument("--memory-mib", type=int, default=1024)
    parser.add_argument("--only", default=",".join(ATTACKS))
    parser.add_argument("--directory", default="/var/tmp")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        parser.error(f"no such attack: {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    made = tempfile.TemporaryDirectory(prefix="thuban-storm-", dir=options.directory)
    with made as directory, Limited(options.binary, directory, options) as cluster:
        print(f"{cluster.version()}, {options.nodes} nodes, {options.seconds} s, {options.memory_mib} MiB for one")
        samples, saw, answers, is_alive, kept = storm(cluster, options, names)
        tell(samples, saw, answers)
        if is_alive:
            told = ("thuban_connections_refused", "thuban_subscribers", "thuban_audit_refusals")
            print("\n" + "\n".join(metrics(cluster, *told)))
        failed = [failures for _, _, failures in saw if failures]
        print(f"\nThe node {'lives' if is_alive else 'died'}; {'all' if kept else 'not all'} audit rows are there.")
    return 0 if is_alive and kept and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
