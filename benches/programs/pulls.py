"""Pulls of a released file, beside a bare handler that answers with the same bytes; prints a Markdown table.

One node of a cluster of three holds a released file of so many bytes, and a program of forty lines on the same
library (benches/bare.rs) answers with the bytes that the node answers with: once with all its headers, once with its
media type alone. wrk asks each for it in turns, over the same number of connections; `/livez` of the node's port is
measured beside them, and the file for who accepts gzip. Medians, every answer a success.

Needs wrk (Debian: apt install wrk).
"""

import contextlib
import os
import re
import statistics
import subprocess
import tempfile
import urllib.request

from nodes import ROOT, Thuban, built, call, cpu_seconds, eventually

PATH = "/configs/app/default/application"
# What the library puts on an answer itself.
OF_THE_PROTOCOL = ["content-length", "date", "connection", "transfer-encoding"]


def arguments(parser):
    parser.add_argument("--bare", help="the bare handler (default: built from this checkout)")
    parser.add_argument("--bytes", type=int, default=2048, help="size of the file")
    parser.add_argument("--connections", type=int, nargs="+", default=[64])
    parser.add_argument("--seconds", type=int, default=4, help="length of one run")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each; medians are shown")


def built_bare():
    """The bench program, as cargo names it."""
    script = ". scripts/lib.sh && prepare_build && run_cargo bench --locked --no-run --bench bare 2>&1"
    told = subprocess.check_output(["bash", "-euc", script], cwd=ROOT, text=True)
    path = re.findall(r"Executable .*\((.*)\)", told)[-1]
    return path if os.path.isabs(path) else os.path.join(ROOT, path)


@contextlib.contextmanager
def bare(program, file, headers):
    """The bare handler: its process and its address."""
    pipe = subprocess.PIPE
    lines = [f"{name}: {value}" for name, value in headers]
    with subprocess.Popen([program, file, *lines], stdin=pipe, stdout=pipe, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.stdin.close()


def run(url, pid, connections, seconds, headers=()):
    """Requests a second, and microseconds of the server's processor each."""
    before = cpu_seconds(pid)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
    for header in headers:
        command += ["-H", header]
    output = subprocess.check_output([*command, url], text=True)
    used = cpu_seconds(pid) - before
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"{url}: not every answer was a success\n{output}")
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    return float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)), used * 1e6 / requests


def release(cluster, size):
    """Publishes a file, and waits until the node that is asked has it: its headers, without those of the protocol, and
    the bytes."""
    lines = "".join(f"key.{number:04}=value of the key {number:04}\n" for number in range(size // 36))
    file = {"namespace": "default", "group": "app", "file_name": "application.properties", "content": lines}
    call(cluster.clients[0], "/config/v1/configfiles/createandpub", file, cluster.token)

    def pulled():
        with urllib.request.urlopen(f"http://{cluster.compat[0]}{PATH}", timeout=5) as answer:
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in OF_THE_PROTOCOL]
            return headers, answer.read()

    return eventually("the file can be pulled", pulled)


def size_as_gzip(url):
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        if answer.headers["Content-Encoding"] != "gzip":
            return "not compressed"
        return f"{len(answer.read()):,} bytes as gzip"


def table(sides, options):
    print("| asked for | connections | a second | CPU µs each | of the bare handler |\n|---|---|---|---|---|")
    for connections in options.connections:
        runs = {name: [] for name, *_ in sides}
        for pair in range(options.pairs):
            for name, url, pid, *headers in sides if pair % 2 == 0 else reversed(sides):
                runs[name].append(run(url, pid, connections, options.seconds, headers))
        medians = {name: [statistics.median(part) for part in zip(*results)] for name, results in runs.items()}
        of_bare = medians[sides[-1][0]][0]
        for name, (rate, cpu) in medians.items():
            print(f"| {name} | {connections} | {rate:,.0f} | {cpu:.1f} | {rate / of_bare:.2f} |", flush=True)


def main(options):
    program = options.bare or built_bare()
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        with Thuban(options.thuban or built(), directory) as cluster:
            headers, content = release(cluster, options.bytes)
            file = os.path.join(directory, "answer")
            with open(file, "wb") as out:
                out.write(content)
            media_type = [header for header in headers if header[0].lower() == "content-type"]
            with bare(program, file, headers) as (whole, address), bare(program, file, media_type) as (lean, other):
                pid = cluster.processes[0].pid
                head = sum(len(f"{name}: {value}\r\n") for name, value in headers)
                url = f"http://{cluster.compat[0]}{PATH}"
                print(f"{cluster.version()}; {os.cpu_count()} cores; an answer of {len(content):,} bytes under")
                print(f"{len(headers)} headers of {head} bytes, without those of the protocol; {size_as_gzip(url)}\n")
                sides = [
                    ("the file, of a node", url, pid),
                    ("the same as gzip", url, pid, "Accept-Encoding: gzip"),
                    ("`/livez` of its port", f"http://{cluster.compat[0]}/livez", pid),
                    ("the bare handler, its media type alone", f"http://{other}{PATH}", lean.pid),
                    ("the bare handler", f"http://{address}{PATH}", whole.pid),
                ]
                table(sides, options)
