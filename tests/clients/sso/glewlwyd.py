"""glewlwyd of Debian, set up by its own API. Its pages work by scripts: visitors without them use its API as well."""

import gzip
import os
import subprocess
import urllib.parse

from .provider import AUDIENCE, CLI, CONSOLE, PEOPLE, PIPELINE, Provider, client_credentials, outside, password
from .visitor import Visitor

ADMIN = ("admin", "password")
MODULES = "/usr/lib/glewlwyd"
DATABASE = "/usr/share/doc/glewlwyd/database/init.sqlite3.sql.gz"
COOKIE = "GLEWLWYD2_OIDC_SID"
RESOURCE = f"https://{AUDIENCE}/"
CONFIGURATION = """
port={port}
bind_address="127.0.0.1"
external_url="http://127.0.0.1:{port}"
api_prefix="api"
static_files_path="/usr/share/glewlwyd/webapp/"
static_files_mime_types = (
  {{ extension = ".html" mime_type = "text/html" compress = 1 }},
  {{ extension = ".js" mime_type = "application/javascript" compress = 1 }},
  {{ extension = ".css" mime_type = "text/css" compress = 1 }},
  {{ extension = ".json" mime_type = "application/json" compress = 1 }}
)
cookie_secure=0
cookie_domain="127.0.0.1"
login_url="login.html"
admin_scope="g_admin"
profile_scope="g_profile"
log_mode="console"
log_level="WARNING"
user_module_path="{modules}/user"
client_module_path="{modules}/client"
user_auth_scheme_module_path="{modules}/scheme"
plugin_module_path="{modules}/plugin"
database = {{ type = "sqlite3" path = "{database}" }};
"""


class Glewlwyd(Provider):
    name = "glewlwyd"
    scopes = ["openid"]
    takes_any_port = False
    # Its pages load scripts that Debian's package does not have.
    has_pages = False
    program_claim = ("client_id", PIPELINE)
    audience = RESOURCE
    # It does not decode what a client encodes in its header of basic authentication.
    secret = "a-secret-of-the-tests"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.url = f"http://127.0.0.1:{self.port}"
        self.issuer = f"{self.url}/api/oidc"
        self.probe = f"{self.url}/config"

    def path(self, name):
        return os.path.join(self.directory, name)

    def prepare(self):
        with gzip.open(DATABASE, "rt", encoding="utf-8") as script:
            subprocess.run(["sqlite3", self.path("gl.db")], input=script.read(), text=True, check=True)
        with open(self.path("glewlwyd.conf"), "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(port=self.port, modules=MODULES, database=self.path("gl.db")))
        private, public = self.path("key.pem"), self.path("public.pem")
        for command in (["genrsa", "-out", private, "2048"], ["rsa", "-in", private, "-pubout", "-out", public]):
            subprocess.run(["openssl", *command], check=True, capture_output=True)

    def command(self):
        return ["glewlwyd", f"--config-file={self.path('glewlwyd.conf')}"]

    def call(self, visitor, path, body=None, method=None):
        answer = visitor.call(f"{self.url}/api{path}", body, method)
        if answer.status >= 300:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.text}")
        return answer.json() if answer.body else None

    def enter(self, name, secret):
        visitor = Visitor()
        self.log_in(visitor, name, secret)
        return visitor

    def log_in(self, visitor, name, secret):
        self.call(visitor, "/auth/", {"username": name, "password": secret})

    def configure(self):
        admin = self.enter(*ADMIN)
        profile = {"profile-read": True, "profile-write": False}
        for kind, name, more in (("user", "groups", profile), ("client", "post_logout_redirect_uris", {})):
            module = self.call(admin, f"/mod/{kind}/database")
            format_of = {"multiple": True, "read": True, "write": True, **more}
            module["parameters"].setdefault("data-format", {})[name] = format_of
            self.call(admin, f"/mod/{kind}/database", module, "PUT")
            self.call(admin, f"/mod/{kind}/database/reset", method="PUT")
        self.call(admin, "/mod/plugin/", {
            "module": "oidc", "name": "oidc", "display_name": "OIDC", "enabled": True, "parameters": self.parameters(),
        })
        for person, groups in PEOPLE.items():
            self.call(admin, "/user/", {
                "username": person, "name": person.title(), "email": f"{person}@example.com", "password": password(person),
                "scope": ["openid", "g_profile"], "enabled": True, "groups": groups,
            })
        flows = ["code", "refresh_token", "device_authorization"]
        common = {"scope": ["openid"], "enabled": True}
        known = {"confidential": True, "password": self.secret}
        known["token_endpoint_auth_method"] = ["client_secret_basic", "client_secret_post"]
        self.call(admin, "/client/", {
            "client_id": CONSOLE, "name": "console", **known,
            "redirect_uri": [self.callback], "authorization_type": flows, "backchannel_logout_uri": self.logout_uri,
            "backchannel_logout_session_required": "1", "post_logout_redirect_uris": self.signed_out_uris, **common,
        })
        self.call(admin, "/client/", {
            "client_id": CLI, "name": "command line", "confidential": False, "token_endpoint_auth_method": ["none"],
            "redirect_uri": ["http://127.0.0.1/callback"],
            "authorization_type": flows, **common,
        })
        self.call(admin, "/client/", {
            "client_id": PIPELINE, "name": "pipeline", **known, "redirect_uri": [],
            "authorization_type": ["client_credentials"], **common,
        })

    def parameters(self):
        keys = {}
        for name, file in (("key", "key.pem"), ("cert", "public.pem")):
            with open(self.path(file), encoding="ascii") as text:
                keys[name] = text.read()
        claim = {"type": "string", "mandatory": True, "on-demand": False, "scope": []}
        return {
            **keys, "iss": self.issuer, "jwt-type": "rsa", "jwt-key-size": "256", "access-token-duration": 3600,
            "refresh-token-duration": 1209600, "code-duration": 600, "refresh-token-rolling": True,
            "allow-non-oidc": True, "auth-type-code-enabled": True, "auth-type-device-enabled": True,
            "auth-type-refresh-enabled": True, "auth-type-client-enabled": True, "auth-type-token-enabled": False,
            "auth-type-implicit-enabled": False, "auth-type-password-enabled": False, "jwks-show": True,
            "allowed-scope": ["openid"], "pkce-allowed": True, "pkce-required": True, "pkce-method-plain-allowed": False,
            "session-management-allowed": True, "session-cookie-name": COOKIE,
            "session-cookie-expiration": 2419200, "back-channel-logout-allowed": True,
            "client-backchannel_logout_uri-parameter": "backchannel_logout_uri",
            "client-backchannel_logout_session_required-parameter": "backchannel_logout_session_required",
            "client-post_logout_redirect_uris-parameter": "post_logout_redirect_uris",
            "device-authorization-expiration": 600, "device-authorization-interval": 5, "subject-type": "public",
            "name-claim": "mandatory", "email-claim": "mandatory", "resource-allowed": True,
            "resource-scope": {"openid": [RESOURCE]}, "resource-client-property": "",
            "claims": [
                {"name": "preferred_username", "user-property": "username", **claim},
                {"name": "groups", "user-property": "groups", **claim},
            ],
        }

    def sign_in(self, visitor, address, person):
        self.log_in(visitor, person, password(person))
        client = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)["client_id"][0]
        self.call(visitor, f"/auth/grant/{client}", {"scope": "openid"}, "PUT")
        return visitor.visit(f"{address}&g_continue", outside(address)).location

    def approve(self, visitor, address, code, person):
        self.log_in(visitor, person, password(person))
        self.call(visitor, f"/auth/grant/{CLI}", {"scope": "openid"}, "PUT")
        separator = "&" if "?" in address else "?"
        page = visitor.visit(f"{address}{separator}g_continue", f"{self.url}/login.html")
        assert "prompt=deviceComplete" in page.location, f"{code}: {page.location}"

    def program_token(self):
        return client_credentials(f"{self.issuer}/token", self.secret, scope="openid", resource=RESOURCE)

    def set_groups(self, person, groups):
        admin = self.enter(*ADMIN)
        user = self.call(admin, f"/user/{person}")
        self.call(admin, f"/user/{person}", {**user, "groups": groups}, "PUT")

    def sign_out(self, visitor, person):
        sid = next(cookie.value for cookie in visitor.cookies if cookie.name == COOKIE)
        self.call(visitor, f"/oidc/session/{sid}/", method="DELETE")

    def confirm_sign_out(self, visitor, address):
        """The page of the provider calls its API by a script."""
        page = visitor.visit(address)
        assert page.url.startswith(f"{self.url}/login.html"), f"{page.url} {page.status}"
        self.sign_out(visitor, "")
        self.call(visitor, "/auth/", method="DELETE")
        return page

    def asks_for_a_password(self, visitor, address):
        """Its page asks by a script."""
        page = visitor.visit(address, f"{self.url}/login.html")
        return "login.html" in page.headers.get("Location", "")
