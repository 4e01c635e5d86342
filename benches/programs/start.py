"""Start time, idle memory and size of the optimized binary.

Start is told from the exec of `thuban dev` to its first answered request that needs a leader: once
on an empty directory (which makes the administrator and the cluster of one), once on that directory
again. Memory is told when the node has been idle for a while.
"""

import os
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from nodes import built, free_ports, resident_mib

LIMIT_S = 30
IDLE_S = 10


def arguments(parser):
    parser.add_argument("--rounds", type=int, default=10)


def start(binary, data):
    """Starts a node; returns it and the seconds until it was ready."""
    api, compat = free_ports(2)
    command = [binary, "dev", "--data-dir", data, "--api-port", str(api), "--compat-port", str(compat)]
    if "--grpc-port" in subprocess.check_output([binary, "dev", "--help"], text=True):
        command += ["--grpc-port", "0"]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while time.monotonic() - begun < LIMIT_S and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{api}/readyz", timeout=LIMIT_S):
                return process, time.monotonic() - begun
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.001)
    process.kill()
    raise SystemExit(f"the node was not ready within {LIMIT_S} s, or ended with {process.wait()}")


def stop(process):
    process.terminate()
    process.wait()


def stripped_mib(binary, directory):
    copy = os.path.join(directory, "stripped")
    subprocess.run(["strip", "-o", copy, binary], check=True)
    return os.path.getsize(copy) / 2**20


def main(options):
    binary = options.thuban or built()
    first, again, memory = [], [], 0
    with tempfile.TemporaryDirectory(prefix="thuban-bench-", dir=options.directory) as directory:
        for number in range(options.rounds):
            data = os.path.join(directory, f"data-{number}")
            for times in (first, again):
                process, seconds = start(binary, data)
                times.append(seconds)
                if times is again and number == options.rounds - 1:
                    time.sleep(IDLE_S)
                    memory = resident_mib(process.pid)
                stop(process)
        size = stripped_mib(binary, directory)
    print("| measure | value |\n|---|---|")
    print(f"| first start to ready, median of {options.rounds} | {statistics.median(first) * 1000:.0f} ms |")
    print(f"| start on existing data, median of {options.rounds} | {statistics.median(again) * 1000:.0f} ms |")
    print(f"| resident memory after {IDLE_S} s idle | {memory:.1f} MiB |")
    print(f"| stripped binary | {size:.1f} MiB |")
