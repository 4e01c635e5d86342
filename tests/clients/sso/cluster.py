"""Three nodes of thuban behind a balancer, as people and providers reach them."""

import os
import signal
import socket
import subprocess
import threading

from nodes import PASSWORD, Thuban, eventually, free_ports

from .visitor import Visitor

BUFFER = 65536


class Balancer:
    """Passes each connection on to the next node that takes it."""

    def __init__(self, backends):
        self.backends = list(backends)
        self.next = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def node(self):
        """A connection to a living node."""
        for _ in self.backends:
            self.next = (self.next + 1) % len(self.backends)
            host, port = self.backends[self.next].split(":")
            try:
                return socket.create_connection((host, int(port)), timeout=2)
            except OSError:
                continue
        return None

    def carry(self, client):
        node = self.node()
        if node is None:
            client.close()
            return
        node.settimeout(None)
        back = threading.Thread(target=pump, args=(node, client), daemon=True)
        back.start()
        pump(client, node)
        back.join()
        client.close()
        node.close()

    def close(self):
        self.listener.close()


def pump(source, target):
    try:
        while data := source.recv(BUFFER):
            target.sendall(data)
    except OSError:
        pass
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Nodes(Thuban):
    """The cluster; `public` is the balancer's address."""

    name = "nodes"

    def __init__(self, binary, directory):
        super().__init__(binary, directory)
        self.grpc = [f"127.0.0.1:{port}" for port in free_ports(len(self.clients))]
        self.balancer = Balancer(self.clients)
        self.public = f"http://127.0.0.1:{self.balancer.port}"
        key = os.path.join(self.directory, "data-key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(os.urandom(32).hex())
        self.options += ["--data-key-file", key, "--public-url", self.public]

    def environment(self, index):
        return {"THUBAN_GRPC_ADDR": self.grpc[index], "THUBAN_LOG": "info"}

    def __exit__(self, *_):
        self.balancer.close()
        super().__exit__()

    def launch(self, index):
        """Starts a node for the first time, or again."""
        with open(self.log(index), "ab") as log:
            process = subprocess.Popen(  # pylint: disable=consider-using-with
                self.command(index), stdout=log, stderr=log, env={**os.environ, **self.environment(index)}
            )
        if index < len(self.processes):
            self.processes[index] = process
        else:
            self.processes.append(process)

    def fill(self, path, item, count=0):
        """Nothing is there at first."""

    def kill_leader(self):
        """Kills the leader, and returns its index."""
        index = self.clients.index(self.leader())
        self.kill(index)
        return index

    def kill(self, index):
        self.processes[index].send_signal(signal.SIGKILL)
        self.processes[index].wait()

    def leader(self):
        """The address of the leader, by any living node."""

        def known():
            leader = self.ask("/admin/v1/cluster").json().get("leader")
            return leader and self.clients[leader - 1]

        return eventually("a leader is known", known)

    def heal(self, index):
        """Starts a killed node again."""
        self.launch(index)
        eventually("the node is ready", lambda: self.ready(self.clients[index]))

    def ask(self, path, body=None, method=None, token=None, node=None):
        """One request with JSON to a node, or through the balancer; as the administrator, or by another token."""
        url = self.public if node is None else f"http://{self.clients[node]}"
        return Visitor().call(f"{url}{path}", body, method, {"Authorization": token or self.token})

    def write(self, path, items, method=None):
        """A batch as the administrator, each item of which has to be carried out."""
        answer = self.ask(path, items, method)
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {answer.text}")
        return answer.json()

    def log_in(self, name="admin", secret=PASSWORD, node=None):
        """The answer to a login by a password."""
        url = self.public if node is None else f"http://{self.clients[node]}"
        return Visitor().call(f"{url}/auth/v1/user/login", {"name": name, "password": secret})

    def indexes(self):
        return [index for index, process in enumerate(self.processes) if process.poll() is None]
