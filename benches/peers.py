"""Further clusters of three to measure beside thuban, and thuban as it is asked beside them."""

import os
import socket
import subprocess
import urllib.parse
import urllib.request

from load import h2load, zookeeper
from nodes import KEYS, SIZE, VALUE_BYTES, Cluster, Etcd, Thuban, call, eventually, free_ports

FILE_BYTES = 2048
# Calls that share a connection to etcd, and sessions of ZooKeeper on a node: more than these made neither faster.
STREAMS = 16
SESSIONS = 16
STALLS_MAX = 5
# As ZooKeeper's own script starts it.
HEAP = "-Xmx1000m"


def port(address):
    return address.rsplit(":", 1)[1]


def fetched(address, path, body=None):
    """The body of the answer; any HTTP error is raised."""
    with urllib.request.urlopen(f"http://{address}{path}", data=body, timeout=15) as answer:
        return answer.read()


def asked(address, word):
    """What ZooKeeper answers to one of its words."""
    with socket.create_connection(("127.0.0.1", int(port(address))), timeout=5) as connection:
        connection.sendall(word)
        return connection.makefile("rb").read().decode()


def varint(number):
    head = number & 0x7F
    return bytes([head | 0x80]) + varint(number >> 7) if number > 0x7F else bytes([head])


def protobuf(fields):
    """A message of fields of bytes, by their numbers."""
    return b"".join(bytes([number << 3 | 2]) + varint(len(value)) + value for number, value in fields.items())


class Files:
    """What a cluster has beside its nodes if config files are published to it and pulled from it."""

    workloads = ("publish", "pull", "livez")

    def drive(self, run):
        result = super().drive(run)
        if run.workload == "pull" and result["bytes"] < result["requests"] * FILE_BYTES:
            raise SystemExit(f"{self.name}: not every pull got the file: {result}")
        return result

    def confirmed(self, workload):
        return self.effective_writes() if workload == "publish" else None


class ThubanFiles(Files, Thuban):
    # What is asked of the port for config clients.
    of_clients = ("pull", "livez")

    def prepare(self):
        super().prepare()
        body = {"namespace": "bench", "group": "bench", "file_name": "pulled.txt", "content": "v" * FILE_BYTES}
        call(self.clients[0], "/config/v1/configfiles/createandpub", body, self.token)
        for compat in self.compat:
            eventually("a node has the file", lambda compat=compat: call(compat, "/configs/bench/bench/pulled.txt"))

    def targets(self, workload, spread):
        nodes = super().targets(workload, spread)
        return tuple(self.compat[self.clients.index(node)] for node in nodes) if workload in self.of_clients else nodes


class Rnacos(Files, Cluster):
    """No setting of it asks for an fsync."""

    name = "r-nacos"
    acknowledges = "what a majority has taken into its log, which is written behind and without fsync"
    speaks = "rnacos"
    workloads = ("publish", "pull")

    def __init__(self, binary, directory, options=()):
        super().__init__(binary, directory, options)
        self.consoles = free_ports(SIZE)

    def version(self):
        return subprocess.check_output([self.binary, "--version"], text=True).strip()

    def command(self, _index):
        return [self.binary]

    def environment(self, index):
        environment = {
            "RNACOS_HTTP_PORT": port(self.clients[index]), "RNACOS_GRPC_PORT": port(self.peers[index]),
            "RNACOS_HTTP_CONSOLE_PORT": str(self.consoles[index]), "RNACOS_DATA_DIR": self.data(index),
            "RNACOS_SDK_HOST": "127.0.0.1", "RNACOS_RAFT_NODE_ID": str(index + 1),
            "RNACOS_RAFT_NODE_ADDR": self.peers[index], "RNACOS_RAFT_AUTO_INIT": str(index == 0).lower(),
            "RUST_LOG": "error",
        }
        return environment if index == 0 else dict(environment, RNACOS_RAFT_JOIN_ADDR=self.peers[0])

    def launch(self, index):
        """A node asks once to be taken in, so the ones before have to be there, and their leader to listen to nodes."""
        super().launch(index)
        eventually(f"r-nacos has {index + 1} members", lambda: self.has_members(index + 1))

    def has_members(self, count):
        view = self.view(0)
        with socket.create_connection(("127.0.0.1", int(port(self.peers[0]))), timeout=5):
            return view["current_leader"] and len(view["membership_config"]["members"]) == count

    def view(self, index):
        return call(self.clients[index], "/nacos/v1/raft/metrics")

    def prepare(self):
        files = "/nacos/v1/cs/configs"
        body = urllib.parse.urlencode({"group": "bench", "dataId": "pulled", "content": "v" * FILE_BYTES}).encode()
        for client in self.clients:
            eventually("r-nacos publishes", lambda client=client: fetched(client, files, body) == b"true")
        pull = f"{files}?group=bench&dataId=pulled"
        for client in self.clients:
            eventually("a node has the file", lambda client=client: len(fetched(client, pull)) == FILE_BYTES)

    def leader(self):
        return self.clients[self.view(0)["current_leader"] - 1]

    def effective_writes(self):
        """Every publish is an entry of the log."""
        return self.view(0)["last_applied"]


class EtcdByGrpc(Etcd):
    """Asked by its own protocol: one key, one value, as the load tool has one body."""

    name = "etcd by gRPC"
    method = {"write": "Put", "read": "Range"}
    message = {"write": {1: b"service-1", 2: b"v" * VALUE_BYTES}, "read": {1: b"service-1"}}

    def drive(self, run):
        path = f"/etcdserverpb.KV/{self.method[run.workload]}"
        return h2load(run, path, protobuf(self.message[run.workload]), STREAMS)

    def confirmed(self, workload):
        """Calls that ended with OK, by the nodes' own count."""
        series = f'grpc_server_handled_total{{grpc_code="OK",grpc_method="{self.method[workload]}"'
        lines = [line for client in self.clients for line in fetched(client, "/metrics").decode().splitlines()]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith(series))


class Zookeeper(Cluster):
    """Only written to: its reads are of the node that is asked.

    While one write at a time is under way on a busy machine, now and then the leader of 3.8.0 does not answer one that
    its followers have already applied, and the session times out.
    """

    name = "ZooKeeper"
    workloads = ("write",)

    def __init__(self, classpath, driver, directory):
        super().__init__("java", directory)
        self.classpath, self.driver = classpath, driver
        self.elections = free_ports(SIZE)
        self.stalls = 0

    def version(self):
        command = ["java", "-cp", self.classpath, "org.apache.zookeeper.version.VersionInfoMain"]
        return "ZooKeeper " + subprocess.check_output(command, text=True).split("version ")[1].split()[0]

    def launch(self, index):
        os.makedirs(self.data(index))
        with open(os.path.join(self.data(index), "myid"), "w", encoding="ascii") as file:
            file.write(str(index + 1))
        settings = [
            "tickTime=2000", "initLimit=10", "syncLimit=5", "maxClientCnxns=0", "admin.enableServer=false",
            "4lw.commands.whitelist=srvr", "clientPortAddress=127.0.0.1",
            f"clientPort={port(self.clients[index])}", f"dataDir={self.data(index)}",
        ]
        members = enumerate(zip(self.peers, self.elections), start=1)
        settings += [f"server.{number}={peer}:{election}" for number, (peer, election) in members]
        with open(self.settings(index), "w", encoding="ascii") as file:
            file.write("\n".join(settings))
        super().launch(index)

    def settings(self, index):
        return os.path.join(self.directory, f"zoo-{index + 1}.cfg")

    def command(self, index):
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["java", HEAP, "-cp", self.classpath, main, self.settings(index)]

    def prepare(self):
        eventually("ZooKeeper has a leader", self.leader)
        make_keys = [self.driver, self.leader(), "1", "1", "0", str(KEYS), "-"]
        eventually("the keys are made", lambda: subprocess.run(make_keys, check=False).returncode == 0)

    def drive(self, run):
        return zookeeper(run, self.driver, SESSIONS)

    def stalled(self, result):
        self.stalls += result["refused"] > 0
        return result["refused"] > 0 and self.stalls <= STALLS_MAX

    def state(self, index):
        """What it tells of itself, as names and values."""
        lines = asked(self.clients[index], b"srvr").splitlines()
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def leader(self):
        """Nothing while there is none."""
        modes = [self.state(index)["Mode"] for index in range(SIZE)]
        return self.clients[modes.index("leader")] if "leader" in modes else None

    def effective_writes(self):
        """The number within the epoch of the last transaction."""
        return int(self.state(0)["Zxid"], 16) & 0xFFFFFFFF
