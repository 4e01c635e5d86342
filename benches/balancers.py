"""HAProxy and nginx before three nodes of this machine, by the files in cluster/ with other addresses.

Each change has to find what it changes, so that a file that was edited is not tried in part.
"""

import os
import re
import shutil
import subprocess

from nodes import ROOT, eventually

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class Fittings:
    """What a balancer is fitted with: the ports of its own and of the nodes, by the ports in the files."""

    def __init__(self, directory, own, nodes, tls):
        self.directory = directory
        # {8090: 26000, 8890: …} of the balancer, and one such table for each node.
        self.own, self.nodes, self.tls = own, nodes, tls

    def file(self, name):
        return os.path.join(self.directory, name)


def changed(text, pattern, replacement):
    text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    if not count:
        raise SystemExit(f"the file of the balancer has nothing like {pattern!r}")
    return text


def shipped(name):
    with open(os.path.join(ROOT, "cluster", name), encoding="utf-8") as file:
        return file.read()


def to_nodes(text, fittings):
    def address(match):
        return f"127.0.0.1:{fittings.nodes[int(match[1]) - 1][int(match[2])]}"
    return changed(text, r"\bn([123]):(\d+)\b", address)


def haproxy(fittings):
    text = shipped("haproxy.cfg")
    # Names of nodes come from no server here.
    text = changed(text, r"^resolvers docker\n(    .*\n)+", "")
    text = changed(text, r" resolvers docker init-addr libc,none", "")
    # Health is asked of the management port of each node, which is another one for each here.
    text = changed(text, r"^(    server n([123]) n[123]:8091.*)$",
                   lambda match: f"{match[1]} port {fittings.nodes[int(match[2]) - 1][8090]}")
    text = changed(text, r"^    bind :(\d+)", lambda match: f"    bind 127.0.0.1:{fittings.own[int(match[1])]}")
    text = to_nodes(text, fittings)
    if not fittings.tls:
        text = changed(text, r" ssl crt \S+ alpn http/1.1$", "")
        text = changed(text, r" ssl crt \S+ alpn h2$", " proto h2")
        text = changed(text, r" ssl verify required ca-file \S+", "")
        text = changed(text, r" verifyhost n[123]", "")
        # Checks of HTTP/1 do not work there for servers that speak HTTP/2 by prior knowledge.
        text = changed(text, r" alpn h2 port 8090 check-ssl check-alpn http/1.1 check-proto h1$", " proto h2")
        return changed(text, r"^(    server n([123]) .*) port \d+$", r"\1 no-check track compat_nodes/n\2")
    text = changed(text, "/run/thuban-balancer/balancer.pem", fittings.file("balancer.pem"))
    return changed(text, "/run/thuban-trust/ca.pem", fittings.file("ca.pem"))


def nginx(fittings):
    text = to_nodes(shipped("nginx.conf"), fittings)
    text = changed(text, r"^( +)listen (\d+)", lambda match: f"{match[1]}listen 127.0.0.1:{fittings.own[int(match[2])]}")
    text = changed(text, r"^pid .*;$", f"pid {fittings.file('nginx.pid')};\ndaemon off;")
    if os.geteuid() == 0:
        text = "user root;\n" + text
    places = "".join(f"    {kind}_temp_path {fittings.file(kind)};\n" for kind in TEMPORARY)
    text = changed(text, r"^http \{\n", f"http {{\n{places}")
    if not fittings.tls:
        text = changed(text, r"^ +(proxy_|grpc_)?ssl_.*\n", "")
        text = changed(text, r"(listen \S+) ssl", r"\1")
        text = changed(text, "https://", "http://")
        return changed(text, "grpcs://", "grpc://")
    text = changed(text, "/run/thuban-balancer/balancer.pem", fittings.file("balancer.pem"))
    return changed(text, "/run/thuban-trust/ca.pem", fittings.file("ca.pem"))


KINDS = {
    "haproxy": (haproxy, lambda program, file, _: [program, "-db", "-f", file]),
    "nginx": (nginx, lambda program, file, directory: [program, "-p", directory, "-c", file]),
}


class Balancer:
    """A process of one of [`KINDS`] for as long as the block goes."""

    def __init__(self, kind, fittings, probe):
        self.kind, self.fittings, self.probe = kind, fittings, probe
        self.process = None

    def __enter__(self):
        make, command = KINDS[self.kind]
        file = self.fittings.file(f"{self.kind}.conf")
        with open(file, "w", encoding="utf-8") as written:
            written.write(make(self.fittings))
        named = os.environ.get(f"THUBAN_{self.kind.upper()}")
        program = named or shutil.which(self.kind, path=search_path()) or fetched(self.kind)
        with open(self.fittings.file(f"{self.kind}.log"), "ab") as log:
            self.process = subprocess.Popen(
                command(program, file, self.fittings.directory), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            eventually(f"{self.kind} sends to a node", self.answers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def answers(self):
        if self.process.poll() is not None:
            with open(self.fittings.file(f"{self.kind}.log"), encoding="utf-8", errors="replace") as log:
                raise SystemExit(f"{self.kind} ended: {log.read()[-2000:]}")
        return self.probe()

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def fetched(kind):
    """The program out of Debian's package, in the cache."""
    fetch = subprocess.run([os.path.join(ROOT, "tests/clients/balancers")], stdout=subprocess.PIPE, text=True, check=False)
    if fetch.returncode != 0:
        raise SystemExit(f"{kind} is not installed, and could not be fetched")
    return os.path.join(fetch.stdout.strip(), kind)


def search_path():
    """Daemons are beside what users have in their path."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
