"""What the cases need of an identity provider, whichever it is."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from .visitor import Visitor

CONSOLE, CLI, PIPELINE = "thuban", "thuban-cli", "pipeline"
AUDIENCE = "thuban-api"
# People with their groups. Nothing is bound to the group of eve.
PEOPLE = {"ann": ["platform", "dev-shop"], "bob": ["dev-shop"], "eve": ["visitors"]}
START_LIMIT_S = 120
STOP_LIMIT_S = 20


def password(person):
    return f"{person}'s password"


class Provider:
    """A process with its own directory and ports. `public` is the address of thuban as people see it."""

    name = ""
    # Secret of the clients that have one.
    secret = "a secret+of the: tests%"
    # Scopes that the provider knows and that give the claims.
    scopes = ["openid", "profile", "email", "groups"]
    # Whether the redirect address of a program on a person's machine may have any port (RFC 8252, 7.3).
    takes_any_port = True
    # Whether its pages work in a browser.
    has_pages = True
    # Whether a restart makes new keys, and nothing else that is new.
    rotates = False
    # Audience of access tokens.
    audience = AUDIENCE
    # A claim of the pipeline's access token with its value.
    program_claim = ("azp", PIPELINE)

    def __init__(self, installed, directory, public, ports):
        self.installed = installed
        self.directory = os.path.join(directory, self.name)
        os.makedirs(self.directory, exist_ok=True)
        self.callback = f"{public}/ui/sso/{self.name}/callback"
        self.logout_uri = f"{public}/auth/v1/sso/{self.name}/logout"
        self.signed_out_uris = [f"{public}/ui/sign-in", f"{public}/ui"]
        self.port = ports[0]
        self.ports = ports
        self.process = None

    # Set by each provider.

    issuer = ""

    def prepare(self):
        """Writes what the first start needs."""

    def command(self):
        raise NotImplementedError

    def configure(self):
        """Sets up the running provider, after its first start."""

    def environment(self):
        return {}

    def sign_in(self, visitor, address, person):
        """Signs in at an authorization address, and returns the address of the callback, unvisited."""
        raise NotImplementedError

    def approve(self, visitor, address, code, person):
        """Approves a device code at the address that the device shows."""
        raise NotImplementedError

    def program_token(self):
        """An access token of the pipeline by client_credentials."""
        raise NotImplementedError

    def set_groups(self, person, groups):
        raise NotImplementedError

    def sign_out(self, visitor, person):
        """The person's session at the provider ends there, not at thuban."""
        raise NotImplementedError

    def confirm_sign_out(self, visitor, address):
        """Visits the address that ends the session at the provider, confirms it if asked to, and returns the last page."""
        raise NotImplementedError

    def asks_for_a_password(self, visitor, address):
        """Whether an authorization address leads to a page with a password."""
        page = visitor.visit(address, outside(address))
        return page.status == 200 and 'type="password"' in page.text

    def browse(self, browser, person):
        """Fills the pages of the provider in a real browser."""
        raise AssertionError(f"{self.name} has no pages for {person} in {browser}")

    # The same for all.

    def start(self):
        first = self.process is None
        if first:
            self.prepare()
        began = time.monotonic()
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory,
                env={**os.environ, **self.environment()}, start_new_session=True,
            )
        if first:
            self.when_up(self.probe)
            self.configure()
        self.when_up(f"{self.issuer}/.well-known/openid-configuration")
        return time.monotonic() - began

    probe = ""

    def when_up(self, url):
        deadline = time.monotonic() + START_LIMIT_S
        while not answers(url):
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(os.path.join(self.directory, "log"), encoding="utf-8", errors="replace") as log:
                    raise SystemExit(f"{self.name} does not start:\n{log.read()[-4000:]}")
            time.sleep(0.05)

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.send(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self.process.wait()

    def send(self, what):
        """Sends a signal to the process and those that it started: Keycloak's script starts Java and waits for it."""
        os.killpg(self.process.pid, what)

    def document(self):
        """The provider as an item of thuban's API."""
        return {
            "name": self.name,
            "issuer": self.issuer,
            "client_id": CONSOLE,
            "client_secret": self.secret,
            "cli_client_id": CLI,
            "scopes": self.scopes,
            "bearer": True,
            "audiences": [self.audience],
            "bindings": [
                {"claim": "groups", "value": "platform", "role": "admin", "namespace": "*"},
                {"claim": "groups", "value": "dev-*", "role": "editor", "namespace": "shop"},
                {"claim": "groups", "value": "dev-*", "role": "reader", "namespace": "shop"},
                {"claim": self.program_claim[0], "value": self.program_claim[1], "role": "editor", "namespace": "shop"},
                {"claim": self.program_claim[0], "value": self.program_claim[1], "role": "reader", "namespace": "shop"},
            ],
        }


def outside(address):
    """The origin to which an authorization address sends the browser back."""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)
    target = urllib.parse.urlsplit(query["redirect_uri"][0])
    return f"{target.scheme}://{target.netloc}/"


def answers(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False
    except (OSError, urllib.error.URLError):
        return False


def client_credentials(endpoint, secret, **fields):
    """The access token of a program that has only its own secret."""
    data = {"grant_type": "client_credentials", "client_id": PIPELINE, "client_secret": secret, **fields}
    answer = Visitor().ask(endpoint, data)
    if answer.status != 200:
        raise AssertionError(f"{endpoint}: {answer.status} {answer.text}")
    return answer.json()["access_token"]
