"""The load tools: wrk for HTTP, h2load for gRPC, and for ZooKeeper a client that is compiled here.

All three are closed loops: so many requests are under way at any time, and an answer starts the next
one. Each run gives the same figures of what was answered; a caller looks at `refused` and `broken`.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass(frozen=True)
class Run:
    """What is asked of whom, for how long, and by how many requests at a time."""

    workload: str
    targets: tuple
    connections: int
    seconds: int
    # Differs between runs, so that every write changes something.
    salt: str
    keys: int


def scheme(tls):
    return "https" if tls else "http"


def told(output):
    """The line that load.lua and zookeeper.c end with."""
    line = next(line for line in output.splitlines() if line.startswith("RESULT "))
    return json.loads(line.removeprefix("RESULT "))


def wrk(run, speaks, token="", tls=None):
    """One thread for each target; `speaks` names whose requests load.lua builds."""
    environment = dict(
        os.environ,
        BENCH_WORKLOAD=f"{speaks}-{run.workload}",
        BENCH_TARGETS=",".join(run.targets),
        BENCH_TOKEN=token,
        BENCH_SALT=run.salt,
        BENCH_KEYS=str(run.keys),
    )
    command = ["wrk", f"-t{len(run.targets)}", f"-c{run.connections}", f"-d{run.seconds}s", "--timeout", "15s"]
    command += ["-s", os.path.join(HERE, "load.lua"), f"{scheme(tls)}://{run.targets[0]}"]
    return told(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def h2load(run, path, message, streams):
    """A gRPC call, always the same one: h2load sends one body. One process for each target.

    About `streams` calls at a time share a connection. The status of gRPC follows the body, where h2load does not
    look: the caller has to ask the server how many calls went well.
    """
    with tempfile.TemporaryDirectory(prefix="h2load-") as directory:
        body = os.path.join(directory, "body")
        with open(body, "wb") as file:
            file.write(b"\0" + len(message).to_bytes(4, "big") + message)
        each = run.connections // len(run.targets)
        dialled = max(1, each // streams)
        logs = [os.path.join(directory, target) for target in run.targets]
        command = ["h2load", "-t1", f"-c{dialled}", f"-m{each // dialled}", f"-D{run.seconds}", "-d", body]
        command += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        processes = [
            subprocess.Popen(command + [f"--log-file={log}", f"http://{target}{path}"], stdout=subprocess.DEVNULL)
            for log, target in zip(logs, run.targets)
        ]
        if any([process.wait() for process in processes]):
            raise SystemExit("h2load failed")
        return logged(logs)


def logged(logs):
    """What h2load wrote down of each request: when it began, its status, how long it took; all in µs."""
    rows = []
    for log in logs:
        with open(log, encoding="ascii") as lines:
            rows += [tuple(map(int, line.split("\t")[:3])) for line in lines]
    times = sorted(took for _, _, took in rows)
    return {
        "requests": len(rows),
        "duration_us": max(began + took for began, _, took in rows) - min(began for began, _, _ in rows),
        "p50_us": times[len(times) // 2],
        "p99_us": times[len(times) * 99 // 100],
        "refused": sum(status != 200 for _, status, _ in rows),
        "broken": 0,
    }


@contextlib.contextmanager
def compiled(source, libraries):
    """The program of a C file beside this one."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        program = os.path.join(directory, "program")
        command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, os.path.join(HERE, source), *libraries]
        subprocess.run(command, check=True)
        yield program


def zookeeper(run, program, sessions):
    """At most so many sessions for each target share the requests that are under way."""
    each = min(sessions, run.connections // len(run.targets))
    command = [program, ",".join(run.targets), *map(str, (run.connections, each, run.seconds, run.keys)), run.salt]
    return told(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
