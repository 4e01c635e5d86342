"""Links between the nodes of a cluster that are slow, long, or both, as relays on the loopback interface.

A relay stands before the peer port of each node and is what the others dial. Which node a connection comes from is
looked up by its port in /proc, so each direction between two nodes is one link: all connections of that direction
share its rate, its buffer and its delay. A byte waits until those before it have passed (a buffer of 64 KiB, beyond
which the relay reads no more and TCP holds the sender), passes at the rate, and arrives after the delay. A new
connection takes one round trip before it carries anything.

What a relay does not have: loss, and TCP's own slow start over the distance, since each half of a connection is a
short one. Both sides of a comparison lack the same.

The relays are a process of their own, whose processor time is told.
"""

import asyncio
import dataclasses
import multiprocessing
import os
import socket
import threading

BUFFER_BYTES = 64 * 1024
PIECE_BYTES = 16 * 1024
# Two pieces of one link never arrive at the same moment: timers of the same moment have no order.
TICK_S = 1e-6
NODE_FLAGS = {b"--node-id": b"", b"--name": b"n"}


@dataclasses.dataclass(frozen=True)
class Quality:
    """Of one direction: bytes a second (0: without a limit) and the time that each takes to arrive."""

    rate: float = 0
    delay_s: float = 0


class Lane:
    """One direction between two nodes."""

    def __init__(self, loop, quality):
        self.loop, self.quality = loop, quality
        self.free_at = self.last_at = 0.0
        self.bytes = 0

    def carry(self, end, data):
        """Delivers `data` to the other end in time, and stops reading while too much waits."""
        now = self.loop.time()
        self.bytes += len(data)
        rate, delay = self.quality.rate, self.quality.delay_s
        self.free_at = max(self.free_at, now) + (len(data) / rate if rate else 0)
        self.last_at = max(self.free_at + delay, self.last_at + TICK_S)
        self.loop.call_at(self.last_at, end.deliver, data)
        waits_s = self.free_at - now
        if rate and waits_s * rate > BUFFER_BYTES:
            end.hold("lane")
            self.loop.call_later(waits_s - BUFFER_BYTES / 2 / rate, end.release, "lane")

    def after_all(self, act):
        """Calls `act` behind everything that is on its way."""
        self.last_at = max(self.loop.time() + self.quality.delay_s, self.last_at) + TICK_S
        self.loop.call_at(self.last_at, act)


class End(asyncio.BufferedProtocol):
    """One end of a connection through a relay."""

    def __init__(self):
        self.transport = self.other = self.lane = None
        self.holds = set()
        self.buffer = bytearray(PIECE_BYTES)

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, _hint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.lane.carry(self, bytes(self.buffer[:nbytes]))

    def deliver(self, data):
        if self.other and not self.other.transport.is_closing():
            self.other.transport.write(data)

    def hold(self, why):
        self.holds.add(why)
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def release(self, why):
        self.holds.discard(why)
        if not self.holds and not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self):
        if self.other:
            self.other.hold("peer")

    def resume_writing(self):
        if self.other:
            self.other.release("peer")

    def eof_received(self):
        self.lane.after_all(self.end_other)
        return True

    def connection_lost(self, _error):
        if self.lane:
            self.lane.after_all(self.end_other)

    def end_other(self):
        if self.other and not self.other.transport.is_closing():
            self.other.transport.close()


class Front(End):
    """The end that was dialled; makes the other one."""

    def __init__(self, relays, node):
        super().__init__()
        self.relays, self.node, self.task = relays, node, None

    def connection_made(self, transport):
        super().connection_made(transport)
        self.hold("dialling")
        self.task = asyncio.ensure_future(self.dial())

    async def dial(self):
        loop, relays = asyncio.get_running_loop(), self.relays
        caller = await loop.run_in_executor(None, dialler, self.transport.get_extra_info("peername")[1])
        self.lane, back = relays.lane(caller, self.node), relays.lane(self.node, caller)
        await asyncio.sleep(self.lane.quality.delay_s + back.quality.delay_s)
        try:
            small = small_socket()
            small.setblocking(False)
            await loop.sock_connect(small, relays.targets[self.node])
            _, end = await loop.create_connection(End, sock=small)
        except OSError:
            self.transport.abort()
            return
        for one in (self, end):
            one.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # What has left a lane is at its end: it waits in no further buffer.
            one.transport.set_write_buffer_limits(high=4 * BUFFER_BYTES)
        end.lane, end.other, self.other = back, self, end
        if self.transport.is_closing():
            end.transport.close()
        self.release("dialling")


def small_socket():
    """By default the kernel takes megabytes from a sender before a relay does."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    return made


def dialler(port):
    """The node whose process has a connection from this port; 0 if it is none."""
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            rows = [line.split() for line in table.readlines()[1:]]
        inode = next((row[9] for row in rows if int(row[1].rsplit(":", 1)[1], 16) == port and row[3] == "01"), "0")
        if inode != "0":
            return node_with(f"socket:[{inode}]")
    return 0


def node_with(link):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            flag = next((flag for flag in NODE_FLAGS if flag in words), None)
            if flag and any(os.readlink(f"/proc/{pid}/fd/{fd}") == link for fd in os.listdir(f"/proc/{pid}/fd")):
                return int(words[words.index(flag) + 1].removeprefix(NODE_FLAGS[flag]))
        except OSError:
            continue  # it has ended, or a descriptor was closed meanwhile
    return 0


class Relays:
    """Within the process of the relays."""

    def __init__(self, targets, quality):
        self.targets, self.quality = targets, quality
        self.lanes = {}

    def lane(self, source, target):
        key = (source, target)
        if key not in self.lanes:
            self.lanes[key] = Lane(asyncio.get_running_loop(), self.quality.get(key, self.quality[None]))
        return self.lanes[key]

    async def serve(self, sockets, control):
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for node, listener in sockets.items():
            await loop.create_server(lambda node=node: Front(self, node), sock=listener)

        def obey():
            try:
                order, *rest = control.recv()
            except EOFError:
                ended.set()
                return
            if order == "set":
                self.quality.update(rest[0])
                for key, lane in self.lanes.items():
                    lane.quality = self.quality.get(key, self.quality[None])
            control.send({key: lane.bytes for key, lane in self.lanes.items()})

        loop.add_reader(control.fileno(), obey)
        await ended.wait()


class Links:
    """The relays before the nodes with these peer addresses, by node or those of 1, 2, …; used with `with`."""

    def __init__(self, peers, quality):
        self.targets = {}
        for node, peer in peers.items() if isinstance(peers, dict) else enumerate(peers, 1):
            host, port = peer.rsplit(":", 1)
            self.targets[node] = (host, int(port))
        sockets = {}
        for node in self.targets:
            sockets[node] = small_socket()
            sockets[node].bind(("127.0.0.1", 0))
            sockets[node].listen(128)
        self.fronts = ["127.0.0.1:{}".format(sockets[node].getsockname()[1]) for node in self.targets]
        self.lock = threading.Lock()
        self.control, far = multiprocessing.Pipe()
        relays = Relays(self.targets, {None: quality})
        self.process = multiprocessing.Process(target=self.run, args=(relays, sockets, far), daemon=True)
        self.process.start()
        far.close()
        for listener in sockets.values():
            listener.close()

    def run(self, relays, sockets, control):
        self.control.close()
        asyncio.run(relays.serve(sockets, control))

    def ask(self, *order):
        with self.lock:
            self.control.send(order)
            return self.control.recv()

    def set(self, quality, pairs=None):
        """From now on all links are like this, or those from one node to another that are named."""
        return self.ask("set", {pair: quality for pair in pairs or [None]})

    def passed(self):
        """Bytes so far, by (from, to)."""
        return self.ask("count")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.control.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.terminate()
