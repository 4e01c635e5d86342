"""Programs that a comparison drives: a node, the clients of xDS, and the servers that they call."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "benches"))
from driven import ends_with_parent  # noqa: E402
from nodes import PASSWORD, SECRET, call, eventually  # noqa: E402

OK, UNCHANGED = 200_000, 200_002
KEPT_S = 5
# For a call of a client that may wait for its deadline: 1,000 times what a call takes here.
LIMIT_S, FIRST_LIMIT_S = 2, 15
# The same for what waits for it without an instance too, which most of the calls of some worlds are without; all at once.
WAITING, WAITING_LIMIT_S, WAITING_AT_ONCE = "go-2024", 1, 16
# Below those that the kernel gives to whoever wants any, and above those of the servers.
PORTS = iter(range(20_000 + os.getpid() * 53 % 4_000, 32_000))
ALLOCATING = threading.Lock()


def free_ports(count):
    """Ports that nobody listens on and nobody else here was given."""
    found = []
    while len(found) < count:
        with ALLOCATING, socket.socket() as one:
            port = next(PORTS)
            try:
                one.bind(("127.0.0.1", port))
                found.append(port)
            except OSError:
                pass
    return found


class Program:
    """A program that is driven by lines."""

    def __init__(self, name, *arguments, environment=None):
        """One of Python by its name in this folder, else what tests/clients/LANGUAGE/build printed."""
        command = [sys.executable, os.path.join(HERE, name)] if name.endswith(".py") else [name]
        self.process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.first = json.loads(self.process.stdout.readline())

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "failed" in answer:
            raise SystemExit(f"{question}: {answer}")
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Node:
    """A node of its own cluster."""

    def __init__(self, binary, directory):
        self.binary, self.directory = binary, directory
        self.api, compat, peer, self.grpc = [f"127.0.0.1:{port}" for port in free_ports(4)]
        command = [
            binary, "serve", "--node-id", "1", "--data-dir", os.path.join(directory, "data"), "--api-addr", self.api,
            "--compat-addr", compat, "--peer-addr", peer, "--initial-cluster", f"1={peer}", "--cluster-secret", SECRET,
            "--admin-password", PASSWORD,
        ]
        with open(os.path.join(directory, "log"), "wb") as log:
            environment = dict(os.environ, THUBAN_GRPC_ADDR=self.grpc)
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, preexec_fn=ends_with_parent)
        login = {"name": "admin", "password": PASSWORD}
        answer = eventually("the login works", lambda: call(self.api, "/auth/v1/user/login", login))
        self.token, self.kept = answer["loginResponse"]["token"], threading.local()

    def call(self, path, body=None, method=None):
        """The answer, by a connection that is kept for each thread; whatever is not done is an error."""
        # One that nobody used for a while is closed.
        if time.monotonic() - getattr(self.kept, "used", 0) > KEPT_S:
            self.kept.connection = http.client.HTTPConnection(self.api, timeout=30)
        headers = {"Content-Type": "application/json", "Authorization": self.token}
        data = None if body is None else json.dumps(body)
        self.kept.connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        answer = json.loads(self.kept.connection.getresponse().read())
        self.kept.used = time.monotonic()
        if answer.get("code", OK) not in (OK, UNCHANGED):
            raise SystemExit(f"{path} {data}: {json.dumps(answer)[:2000]}")
        return answer

    def end(self):
        self.process.terminate()
        self.process.wait()


# Clients of gRPC that tests/clients/LANGUAGE/build makes, by the variants of tests/clients/programs.
LANGUAGES = {"go": ("go", "newest"), "go-2024": ("go", "2024"), "java": ("java", "newest"), "node": ("node", "newest")}


def built(kind):
    """The path of the program of a kind."""
    language, variant = LANGUAGES[kind]
    script = os.path.join(HERE, "..", language, "build")
    return subprocess.check_output([script, "grpc", variant], text=True).strip()


class Client:
    """A client of one kind: `grpc`, which is C-core, one of `LANGUAGES`, `envoy-delta`, `envoy-sotw` or `gateway`, an Envoy
    that has no caller."""

    def __init__(self, node, namespace, kind, canary="no", place=("", "", ""), service="cart", inbound=None):
        self.node, self.namespace, self.kind, self.canary = node, namespace, kind, canary
        self.place, self.service, self.inbound = place, service, inbound
        self.is_envoy, self.is_gateway = kind != "grpc" and kind not in LANGUAGES, kind == "gateway"
        # The word of `carried_out_by.grpc_libraries`.
        self.library = None if self.is_envoy else {"grpc": "core"}.get(kind, kind.split("-")[0])
        self.dialect, self.address = "envoy" if self.is_envoy else "grpc", "127.0.0.1"
        self.name = f"{namespace}-{kind}-{canary}-{service}"
        self.outbound, self.admin = free_ports(2)
        self.called = set()
        self.directory = os.path.join(node.directory, self.name)
        os.makedirs(self.directory)
        bootstrap = os.path.join(self.directory, "bootstrap.json")
        with open(bootstrap, "wb") as file:
            file.write(subprocess.check_output(self.bootstrap()))
        if self.is_envoy:
            flags = ["--sotw"] if kind == "envoy-sotw" else []
            self.program = Program("proxy.py", bootstrap, self.directory, *flags)
        elif kind == "grpc":
            self.program = Program("grpc_client.py", bootstrap)
        else:
            self.program = Program(built(kind), environment=dict(os.environ, GRPC_XDS_BOOTSTRAP=bootstrap))

    def bootstrap(self):
        labels = {"canary": self.canary}
        command = [self.node.binary, "xds", "bootstrap", self.dialect, "--server", self.node.grpc]
        command += ["--namespace", self.namespace, "--service", self.service, "--node-id", self.name]
        if any(self.place):
            command += ["--locality", "/".join(self.place).rstrip("/")]
        if self.is_envoy:
            command += ["--admin-port", str(self.admin)]
            labels["outbound_port"] = self.outbound
        if self.is_gateway:
            labels["role"] = "gateway"
        if self.inbound:
            labels["inbound_port"], labels["application_port"] = self.inbound
        for key, value in labels.items():
            command += ["--label", f"{key}={value}"]
        return command

    def as_heard(self, sketch):
        """The same request as this client sends it, and what a node knows of the client, for explain."""
        asked = {key: value for key, value in sketch.items() if key not in ("service", "method")}
        labels = {"canary": self.canary, "CLIENT_IP": self.address, "NODE_ID": self.name}
        labels |= {key: value for key, value in zip(("region", "zone", "campus"), self.place) if value}
        asked |= {"namespace": self.namespace, "service": sketch["service"], "client_labels": labels}
        if not self.is_gateway:
            asked |= {"caller_service": self.service, "caller_namespace": self.namespace, "caller_ip": self.address}
            asked["caller_metadata"] = {"canary": self.canary, "namespace": self.namespace, "service": self.service}
        if not self.is_envoy:
            asked |= {"query": {}, "cookies": {}}
        # Instances say no protocol: for proxies they speak HTTP.
        if self.is_envoy:
            asked["method"] = sketch["method"]
        else:
            asked |= {"method": "POST", "protocol": "grpc"}
        return asked

    def question(self, sketch):
        """The call of the request, as its program is asked for it."""
        headers = dict(sketch["headers"])
        if not self.is_envoy:
            target = f"xds:///{self.namespace}/{sketch['service']}"
            metadata = {name.lower(): value for name, value in headers.items()}
            question = {"target": target, "method": sketch["path"], "metadata": metadata}
            if self.kind == "grpc":
                return question
            # A client of Node waits for the deadline where others fail at once; the first call has to fetch all.
            limit = LIMIT_S if target in self.called else FIRST_LIMIT_S
            self.called.add(target)
            if self.kind == WAITING and limit == LIMIT_S:
                return question | {"timeout_s": WAITING_LIMIT_S, "parallel": WAITING_AT_ONCE}
            return question | {"timeout_s": limit, "parallel": 4}
        # A parameter that is empty may be there by its name alone.
        query = "&".join(key + ("=" + value if value or key == "q" else "") for key, value in sketch["query"].items())
        if sketch["cookies"]:
            headers["Cookie"] = "; ".join(f"{key}={value}" for key, value in sketch["cookies"].items())
        host = f"{sketch['service']}.{self.namespace}"
        path = sketch["path"] + ("?" + query if query else "")
        return {"port": self.outbound, "host": host, "method": sketch["method"], "path": path, "headers": headers}

    def call(self, sketch, times):
        return self.program.ask(op="call", times=times, **self.question(sketch))

    def call_inbound(self, sketch, times):
        return self.program.ask(op="call", times=times, **(self.question(sketch) | {"port": self.inbound[0]}))

    def become_ready(self):
        if not self.is_envoy:
            return
        eventually(f"{self.name} is live", self.has_routes)
        # No call is made: it would count.
        for port in [self.outbound] + ([self.inbound[0]] if self.inbound else []):
            eventually(f"{self.name} listens", lambda port=port: is_open(port))
        # An Envoy of the same machine names its address there.
        rows = self.node.call(f"/admin/v1/xds/clients?node_id={self.name}")["data"]
        self.address = next(row["address"] for row in rows if row["node_id"] == self.name)

    def has_routes(self):
        """It is live after a while too if nothing came."""
        told = self.program.ask(op="state")
        return told["ready"] == "LIVE" and any(row["type"] == "RouteConfiguration" for row in told["resources"])


def is_open(port):
    """Connects, and makes no call."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def on_each(clients, work):
    """Results of what is done with each client at once, in their order."""
    results = [None] * len(clients)

    def run(position, client):
        try:
            results[position] = work(client)
        except BaseException as error:  # pylint: disable=broad-exception-caught
            results[position] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def start_clients(node, namespace, kinds):
    """Clients of (kind, canary, place, service), each ready."""
    def started(given):
        client = Client(node, namespace, *given)
        client.become_ready()
        return client

    return on_each(kinds, started)
