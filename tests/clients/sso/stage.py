"""What the cases share: people at the console and on the command line, before one provider and three nodes."""

import json
import os
import re
import subprocess
import time
import urllib.parse

from nodes import eventually

from .terminal import Command
from .visitor import Visitor

# Time within which an end has to be known on every node.
AT_ONCE_S = 1.0
ACCOUNT = "/ui/account"


class Person:
    """A browser without scripts, signed in at the console or not."""

    def __init__(self, stage, name):
        self.stage = stage
        self.name = name
        self.visitor = Visitor()

    def callback(self):
        """Begins at the console, signs in at the provider, and returns the address to come back to."""
        start = self.visitor.ask(f"{self.stage.nodes.public}/ui/sso/{self.stage.provider.name}/start?to=%2Fui")
        return self.stage.provider.sign_in(self.visitor, start.location, self.name)

    def come_back(self, address):
        return self.visitor.visit(address)

    def sign_in(self):
        page = self.come_back(self.callback())
        assert page.status == 200 and self.holder in page.text, f"{page.url}: {page.status} {page.text[:2000]}"
        return self

    @property
    def holder(self):
        return f"{self.stage.provider.name}:{self.name}"

    def is_in(self, node):
        """Whether a node takes the session."""
        page = self.visitor.ask(f"http://{self.stage.nodes.clients[node]}{ACCOUNT}")
        assert page.status in (200, 302, 303, 307), f"{page.status} {page.text[:1000]}"
        return page.status == 200 and self.holder in page.text


class Stage:
    def __init__(self, nodes, provider, directory):
        self.nodes = nodes
        self.provider = provider
        # A client of our own, once the provider is up.
        self.strict = None
        self.directory = os.path.join(directory, f"home-{provider.name}")
        os.makedirs(self.directory, exist_ok=True)
        self.contexts = os.path.join(self.directory, "contexts.json")
        # Figures of this provider, for the report.
        self.measured = {}

    # The command line.

    def environment(self):
        return {
            "THUBAN_ENDPOINT": self.nodes.public, "THUBAN_CONTEXTS_FILE": self.contexts, "HOME": self.directory,
            "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "",
        }

    def saved_token(self):
        """The token that the command line has in its context."""
        with open(self.contexts, encoding="utf-8") as file:
            saved = json.load(file)
        return saved["contexts"][saved["current"]]["token"]

    def command(self, *arguments):
        return Command([self.nodes.binary, *arguments], self.environment())

    def run(self, *arguments, token=None):
        """Exit code and output of a command, both streams together."""
        environment = {**os.environ, **self.environment()}
        if token:
            environment["THUBAN_TOKEN"] = token
        done = subprocess.run(
            [self.nodes.binary, *arguments], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout

    def log_in_by_device(self, person):
        """Logs in as from a machine without a browser, and returns the token that is saved."""
        command = self.command("login", "--sso", self.provider.name, "--device")
        try:
            address = command.find(r"(http://\S+)\s").group(1)
            code = command.find(r"the code (\S+)").group(1)
            began = time.monotonic()
            self.provider.approve(Visitor(), address, code, person)
            return self.logged_in(command, person, began)
        finally:
            command.close()

    def log_in_by_browser(self, person):
        """Logs in by a browser on the same machine."""
        command = self.command("login", "--sso", self.provider.name, "--browser")
        try:
            address = command.find(r"(http://\S+)\s").group(1)
            visitor = Visitor()
            began = time.monotonic()
            page = visitor.visit(self.provider.sign_in(visitor, address, person))
            assert page.status == 200, f"{page.status} {page.text}"
            return self.logged_in(command, person, began)
        finally:
            command.close()

    def logged_in(self, command, person, began):
        status, printed = command.end()
        self.measured["command line: from the approval to the token"] = time.monotonic() - began
        assert status == 0 and f"logged in as {self.provider.name}:{person}" in printed, f"{status}: {printed}"
        token = self.saved_token()
        assert token not in printed, "the token is on the terminal"
        return token

    # What nodes take.

    def takes(self, node, token):
        """Whether a node takes a token of thuban or of the provider."""
        answer = self.nodes.ask("/auth/v1/user", token=token, node=node)
        assert answer.status in (200, 401, 403), f"{answer.status} {answer.text}"
        return answer.status == 200

    def leads_on(self, node):
        """Whether a node leads people to the provider."""
        start = Visitor().ask(f"http://{self.nodes.clients[node]}/ui/sso/{self.provider.name}/start")
        return 300 <= start.status < 400

    def is_offered(self, node):
        """Whether a node lets people sign in at the provider."""
        return self.nodes.ask(f"/auth/v1/sso/{self.provider.name}", node=node).status == 200

    def ends_everywhere(self, what, is_in):
        """Every node refuses within a second of now; returns the time that the last one took."""
        began = time.monotonic()
        for node in self.nodes.indexes():
            while is_in(node):
                took = time.monotonic() - began
                assert took < AT_ONCE_S, f"{what} is in force on node {node + 1} after {took:.2f} s"
        took = time.monotonic() - began
        self.measured[f"{what}: ended on every node after"] = took

    def audit(self, *words):
        """A row of the audit trail that has all of these words, waited for."""

        def found():
            rows = self.nodes.ask("/admin/v1/audit?limit=200").json()["data"]
            return next((row for row in rows if all(word in str(row) for word in words)), None)

        return eventually(f"an audit row with {words}", found)

    def update(self, **changes):
        """Changes the provider as thuban knows it. The secret stays."""
        document = {**self.provider.document(), **changes}
        document.pop("client_secret")
        self.nodes.write("/auth/v1/providers", [document], "PUT")

    def steps(self, token=None):
        """What a test of the provider finds: step to (ok, detail)."""
        answer = self.nodes.ask(f"/auth/v1/sso/{self.provider.name}/test", {"token": token} if token else {})
        assert answer.status == 200, answer.text
        return {step["step"]: (step["ok"], step["detail"]) for step in answer.json()["steps"]}


def query(address):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query))


def refusal(page):
    """The words of a refusal on a page of the console."""
    found = re.search(r'class="notice fault"[^>]*>(.*?)</p>', page.text, re.S)
    return f"{page.status} {found.group(1) if found else page.text[:1500]}"
