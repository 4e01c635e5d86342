"""Clusters of three on the loopback interface, started alike: thuban and etcd.

Both keep their data in the same directory, both write it through to the disk before they answer.
peers.py has further ones.
"""

import base64
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from load import scheme, wrk

KEYS = 1000
BATCH = 100
VALUE_BYTES = 200
START_LIMIT_S = 60
SIZE = 3
PASSWORD = "a password for benches only"
SECRET = "a cluster secret for benches, long enough"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Many nodes are started on one machine. By the environment, as an earlier version does not know the flag, which wins.
os.environ.setdefault("THUBAN_GRPC_ADDR", "off")
# No balancer has to notice that a node stops.
os.environ.setdefault("THUBAN_DRAIN_MS", "0")


def built():
    """The binary of this checkout, built as packages are."""
    script = '. scripts/lib.sh && build_binary release && echo "$THUBAN_BIN"'
    return subprocess.check_output(["bash", "-euc", script], cwd=ROOT, text=True).strip()


def free_ports(count):
    """Ports that are free now, all different."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def call(address, path, body=None, token=None, method=None, tls=None):
    """The decoded JSON answer; any HTTP error is raised. `tls` is the context of a client that speaks TLS."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{scheme(tls)}://{address}{path}", data=data, method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", token)
    with urllib.request.urlopen(request, timeout=15, context=tls) as answer:
        return json.load(answer)


def resident_mib(pid):
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def eventually(what, probe, pause_s=0.05):
    """Repeats `probe` until it gives something true; fails with the last error after a limit."""
    end = time.monotonic() + START_LIMIT_S
    last = None
    while time.monotonic() < end:
        try:
            value = probe()
            if value:
                return value
        except (OSError, urllib.error.URLError, KeyError) as error:
            last = error
        time.sleep(pause_s)
    raise SystemExit(f"not within {START_LIMIT_S} s: {what}; last: {last}")


class Cluster:
    """Three processes; how they are started and spoken to is the subclass's."""

    tls = None
    workloads = ("write", "read")
    # Whether each node gets a share of the processors of its own, where the system gives them to sessions.
    in_sessions = False
    acknowledges = "what a majority has on disk by fsync"

    def __init__(self, binary, directory, options=()):
        self.binary = binary
        self.options = list(options)
        self.directory = os.path.join(directory, self.name)
        os.makedirs(self.directory, exist_ok=True)
        self.processes = []
        self.clients = [f"127.0.0.1:{port}" for port in free_ports(SIZE)]
        self.peers = [f"127.0.0.1:{port}" for port in free_ports(SIZE)]
        self.token = ""

    def __enter__(self):
        try:
            for index in range(len(self.clients)):
                self.launch(index)
            self.prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def launch(self, index):
        environment = dict(os.environ, **self.environment(index))
        with open(self.log(index), "wb") as log:
            process = subprocess.Popen(
                self.command(index), stdout=log, stderr=log, env=environment, start_new_session=self.in_sessions
            )
            self.processes.append(process)

    def environment(self, _index):
        """What a node finds in its environment beside what is there."""
        return {}

    def drive(self, run):
        """One run of the load tool that this cluster is asked by."""
        return wrk(run, self.speaks, self.token, self.tls)

    def stalled(self, _result):
        """Whether a fault of this cluster that is known spoilt the run, so that it is made again."""
        return False

    def targets(self, _workload, spread):
        """Where requests go: to all nodes, or to the leader alone."""
        return tuple(self.clients) if spread else (self.leader(),)

    def confirmed(self, workload):
        """How many requests the nodes themselves count; nothing where the statuses of the answers tell all."""
        return self.effective_writes() if workload == "write" else None

    def cpu_seconds(self):
        """Processor time that all nodes have used so far."""
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def log(self, index):
        return os.path.join(self.directory, f"log-{index + 1}")

    def data(self, index):
        return os.path.join(self.directory, f"node-{index + 1}")


class Thuban(Cluster):
    name = speaks = "thuban"

    def __init__(self, binary, directory, options=()):
        super().__init__(binary, directory, options)
        self.compat = [f"127.0.0.1:{port}" for port in free_ports(SIZE)]

    def version(self):
        return subprocess.check_output([self.binary, "--version"], text=True).strip()

    def command(self, index):
        members = ",".join(f"{n + 1}={peer}" for n, peer in enumerate(self.peers))
        return [
            self.binary, "serve", "--node-id", str(index + 1), "--data-dir", self.data(index),
            "--api-addr", self.clients[index], "--compat-addr", self.compat[index], "--peer-addr", self.peers[index],
            "--initial-cluster", members, "--cluster-secret", SECRET, "--admin-password", PASSWORD,
        ] + self.options

    def prepare(self):
        for client in self.clients:
            eventually("a node is ready", lambda client=client: self.ready(client))
        path, login = "/auth/v1/user/login", {"name": "admin", "password": PASSWORD}
        answer = eventually("the login works", lambda: call(self.clients[0], path, login, tls=self.tls))
        self.token = answer["loginResponse"]["token"]
        comment = "v" * VALUE_BYTES
        self.fill("/naming/v1/services", lambda n: {"namespace": "bench", "name": f"service-{n}", "comment": comment})

    def fill(self, path, item, count=KEYS):
        """Posts what `item` makes of each number below `count`, in batches."""
        for first in range(0, count, BATCH):
            batch = [item(number) for number in range(first, min(first + BATCH, count))]
            call(self.clients[0], path, batch, self.token, tls=self.tls)

    def ready(self, client):
        url = f"{scheme(self.tls)}://{client}/readyz"
        with urllib.request.urlopen(url, timeout=5, context=self.tls) as answer:
            return answer.status == 200

    def leader(self):
        view = call(self.clients[0], "/admin/v1/cluster", token=self.token, tls=self.tls)
        return self.clients[view["leader"] - 1]

    def effective_writes(self):
        """Write items that changed something, on all nodes, by the nodes' own count; others raise."""
        changed = 0
        for client in self.clients:
            url = f"{scheme(self.tls)}://{client}/metrics"
            with urllib.request.urlopen(url, timeout=15, context=self.tls) as answer:
                for line in answer.read().decode().splitlines():
                    if line.startswith("thuban_write_outcomes_total{"):
                        if 'code="200000"' not in line:
                            raise SystemExit(f"a write did not change anything: {line}")
                        changed += int(float(line.rsplit(" ", 1)[1]))
        return changed


class Secure(Thuban):
    """Its surfaces speak TLS."""

    name = "thuban by TLS"

    def __init__(self, binary, directory, options=()):
        super().__init__(binary, directory, options)
        made = [binary, "certs", "--dir", self.directory, "node=127.0.0.1"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        file = {name: os.path.join(self.directory, f"{name}.pem") for name in ("ca", "node", "node-key")}
        self.options += ["--tls-cert", file["node"], "--tls-key", file["node-key"]]
        self.tls = ssl.create_default_context(cafile=file["ca"])


class Before(Thuban):
    """Another revision of thuban."""

    name = "before"


class Etcd(Cluster):
    name = speaks = "etcd"

    def version(self):
        return subprocess.check_output([self.binary, "--version"], text=True).splitlines()[0]

    def command(self, index):
        members = ",".join(f"n{n + 1}=http://{peer}" for n, peer in enumerate(self.peers))
        client, peer = f"http://{self.clients[index]}", f"http://{self.peers[index]}"
        return [
            self.binary, "--name", f"n{index + 1}", "--data-dir", self.data(index),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", members, "--initial-cluster-state", "new",
            "--quota-backend-bytes", str(8 << 30), "--logger", "zap", "--log-level", "error",
        ]

    def prepare(self):
        eventually("etcd has a leader", lambda: int(self.status(0).get("leader", 0)))
        for number in range(KEYS):
            key, value = (base64.b64encode(t.encode()).decode() for t in (f"service-{number}", "v" * VALUE_BYTES))
            call(self.clients[number % SIZE], "/v3/kv/put", {"key": key, "value": value})

    def status(self, index):
        return call(self.clients[index], "/v3/maintenance/status", {})

    def leader(self):
        views = [self.status(index) for index in range(SIZE)]
        leads = [view["header"]["member_id"] == view["leader"] for view in views]
        return self.clients[leads.index(True)]

    def effective_writes(self):
        """Every put makes a revision."""
        return int(self.status(0)["header"]["revision"])


def cpu_seconds(pid):
    """User and system time of a process; the fields after its name, which may hold spaces."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
