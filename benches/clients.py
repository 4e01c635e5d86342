"""Clients of every surface that note what becomes of each request: writers, readers, pullers, polls and streams.

Each request is made once. A connection is kept for as long as the other end lets it.
"""

import http.client
import itertools
import json
import socket
import ssl
import struct
import threading
import time
import urllib.parse

ANSWER_LIMIT_S = 20
POLL_LIMIT_S = 90
PAUSE_S = 0.01
NAMESPACE = "application"
PUBLISH_EACH_S = 0.5
ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
CLUSTERS = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
# Frames of HTTP/2, and two flags.
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM = ACK = 1
END_HEADERS = 4
# In the table of HPACK.
STATUS_200 = 0x88


class Notes:
    """What became of the requests of one kind."""

    def __init__(self):
        self.lock = threading.Lock()
        self.count, self.slowest_s, self.errors = 0, 0.0, {}

    def add(self, seconds, error=None):
        with self.lock:
            self.count += 1
            self.slowest_s = max(self.slowest_s, seconds)
            if error is not None:
                self.errors[error] = self.errors.get(error, 0) + 1


class Http:
    """One connection of HTTP/1, opened anew where it was closed."""

    def __init__(self, address, tls, limit_s=ANSWER_LIMIT_S):
        if tls:
            self.connection = http.client.HTTPSConnection(address, timeout=limit_s, context=tls)
        else:
            self.connection = http.client.HTTPConnection(address, timeout=limit_s)

    def ask(self, method, path, body=None, token=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
        try:
            self.connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise


def refusal(status, text):
    """How an answer that is no success is counted: by its status, and by its business code where it has one."""
    try:
        return f"{status} {json.loads(text)['code']}"
    except (ValueError, KeyError, TypeError):
        return str(status)


class Clients:
    """Threads at work from [`Clients.start`] to [`Clients.stop`]."""

    KINDS = ("writes", "reads", "pulls", "polls", "streams")

    def __init__(self, addresses, token, tls, each=4):
        self.api, self.compat, self.grpc = addresses
        self.token, self.tls, self.each = token, tls, each
        self.notes = {kind: Notes() for kind in self.KINDS}
        self.ends = 0
        self.over = threading.Event()
        self.numbers = itertools.count()
        self.sockets = set()
        self.salt = f"{time.time_ns():x}"
        self.threads = []

    def start(self):
        error = self.publish(Http(self.api, self.tls))
        if error:
            raise SystemExit(f"the first publish is refused: {error}")
        work = {"writes": self.write, "reads": self.read, "pulls": self.pull, "polls": self.poll}
        runs = [(kind, once) for kind, once in work.items() for _ in range(self.each)]
        self.threads = [threading.Thread(target=self.repeat, args=run, daemon=True) for run in runs]
        self.threads += [threading.Thread(target=self.stream, daemon=True) for _ in range(self.each)]
        # They end polls.
        publishes = ("writes", self.publish, PUBLISH_EACH_S)
        self.threads.append(threading.Thread(target=self.repeat, args=publishes, daemon=True))
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Ends all; a poll or stream that is held ends with its connection."""
        self.over.set()
        for held in list(self.sockets):
            shut(held)
        for thread in self.threads:
            thread.join(ANSWER_LIMIT_S)

    def total(self):
        return sum(notes.count for notes in self.notes.values())

    def repeat(self, kind, once, pause_s=PAUSE_S):
        is_poll = kind == "polls"
        http1 = Http(self.compat if kind in ("pulls", "polls") else self.api, self.tls,
                     POLL_LIMIT_S if is_poll else ANSWER_LIMIT_S)
        memory = {}
        while not self.over.is_set():
            began = time.monotonic()
            try:
                error = once(http1, memory)
            except (OSError, http.client.HTTPException) as broken:
                error = type(broken).__name__
            if self.over.is_set():
                break
            # Polls are held: the time of one says nothing.
            self.notes[kind].add(0 if is_poll else time.monotonic() - began, error)
            self.over.wait(pause_s)
        http1.connection.close()

    def write(self, http1, _):
        body = [{"namespace": "rolling", "name": f"s{self.salt}-{next(self.numbers)}", "comment": "c" * 100}]
        status, text = http1.ask("POST", "/naming/v1/services", body, self.token)
        return None if status == 200 else refusal(status, text)

    def read(self, http1, _):
        status, text = http1.ask("GET", "/naming/v1/services?namespace=rolling&limit=5&offset=0", token=self.token)
        return None if status == 200 else refusal(status, text)

    def pull(self, http1, _):
        status, text = http1.ask("GET", f"/configs/app/default/{NAMESPACE}")
        return None if status == 200 else refusal(status, text)

    def poll(self, http1, memory):
        known = [{"namespaceName": NAMESPACE, "notificationId": memory.get("id", -1)}]
        query = urllib.parse.urlencode({"appId": "app", "cluster": "default", "notifications": json.dumps(known)})
        if http1.connection.sock is None:
            http1.connection.connect()
        held = http1.connection.sock
        self.sockets.add(held)
        try:
            status, text = http1.ask("GET", f"/notifications/v2?{query}")
        finally:
            self.sockets.discard(held)
        if status == 200:
            memory["id"] = json.loads(text)[0]["notificationId"]
        return None if status in (200, 304) else refusal(status, text)

    def publish(self, http1, _=None):
        body = {"namespace": "default", "group": "app", "file_name": f"{NAMESPACE}.properties", "format": "properties",
                "content": f"a={next(self.numbers)}"}
        status, text = http1.ask("POST", "/config/v1/configfiles/createandpub", body, self.token)
        return None if status == 200 else refusal(status, text)

    def stream(self):
        """Streams of xDS, one after the other: each has to get a response, and may end then."""
        while not self.over.is_set():
            began, error, held = time.monotonic(), None, None
            try:
                held = Stream(self.grpc, self.tls)
                self.sockets.add(held.socket)
                held.first()
            except (OSError, ValueError) as broken:
                error = type(broken).__name__ if isinstance(broken, OSError) else str(broken)
            if self.over.is_set():
                break
            self.notes["streams"].add(time.monotonic() - began, error)
            if error is None:
                held.end()
                self.ends += not self.over.is_set()
            if held is not None:
                self.sockets.discard(held.socket)
                held.socket.close()
            time.sleep(PAUSE_S)


def shut(held):
    try:
        held.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended meanwhile


def field(number, payload):
    """A field of protobuf that is not longer than 127 bytes."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def header(name, value):
    """A header in HPACK, literal and without an index."""
    name, value = name.encode(), value.encode()
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


class Stream:
    """One stream of aggregated discovery on a connection of HTTP/2 of its own."""

    def __init__(self, address, tls):
        host, port = address.rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), timeout=ANSWER_LIMIT_S)
        # HTTP/2 is chosen in the handshake of TLS; `tls` is that of HTTP/1 clients too.
        self.socket = h2_context(tls).wrap_socket(plain, server_hostname=host) if tls else plain
        path = [(":method", "POST"), (":scheme", "https" if tls else "http"), (":path", ADS), (":authority", address)]
        path += [("content-type", "application/grpc"), ("te", "trailers")]
        message = field(2, field(1, b"rolling")) + field(4, CLUSTERS.encode())
        self.socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(SETTINGS, 0, 0, b"")
            + frame(HEADERS, END_HEADERS, 1, b"".join(header(*pair) for pair in path))
            + frame(DATA, 0, 1, b"\0" + struct.pack(">I", len(message)) + message)
        )

    def read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionResetError("closed")
            data += piece
        return data

    def next(self):
        """Kind, flags and payload of the next frame; what the protocol asks for is answered."""
        head = self.read(9)
        size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        payload = self.read(size)
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
        if kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        return kind, flags, payload

    def first(self):
        """Returns with the first response."""
        while True:
            kind, flags, payload = self.next()
            if kind == DATA:
                return
            # The first header is the status; trailers alone are a refusal too.
            if kind == RST_STREAM or kind == HEADERS and (flags & END_STREAM or payload[0] != STATUS_200):
                raise ValueError("refused")

    def end(self):
        """Returns when the stream has ended, however."""
        self.socket.settimeout(None)
        try:
            while True:
                kind, flags, _ = self.next()
                if kind == RST_STREAM or kind in (DATA, HEADERS) and flags & END_STREAM:
                    return
        except (OSError, ValueError):
            return


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def h2_context(tls):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata="\n".join(map(ssl.DER_cert_to_PEM_cert, tls.get_ca_certs(binary_form=True))))
    context.set_alpn_protocols(["h2"])
    return context
