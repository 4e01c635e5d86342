"""oidc-provider of npm, by tests/clients/sso/oidc-provider/main.js. It issues the tokens of pipelines in any shape."""

import json
import os

from .provider import AUDIENCE, CLI, CONSOLE, PEOPLE, PIPELINE, Provider, client_credentials, outside, password


class OidcProvider(Provider):
    name = "oidc-provider"
    program_claim = ("client_id", PIPELINE)
    rotates = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.probe = f"{self.issuer}/.well-known/openid-configuration"
        self.groups = dict(PEOPLE)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, value):
        with open(self.path(f"{name}.part"), "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(self.path(f"{name}.part"), self.path(name))

    def prepare(self):
        clients = [
            {
                "client_id": CONSOLE, "client_secret": self.secret, "redirect_uris": [self.callback],
                "post_logout_redirect_uris": self.signed_out_uris, "backchannel_logout_uri": self.logout_uri,
                "backchannel_logout_session_required": True, "grant_types": ["authorization_code"],
            },
            {
                "client_id": CLI, "token_endpoint_auth_method": "none", "application_type": "native",
                "redirect_uris": ["http://127.0.0.1/callback"], "id_token_signed_response_alg": "ES256",
                "grant_types": ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
            },
            {
                "client_id": PIPELINE, "client_secret": self.secret, "grant_types": ["client_credentials"],
                "redirect_uris": [], "response_types": [],
            },
        ]
        settings = {
            "issuer": self.issuer, "port": self.port, "clients": clients, "audience": AUDIENCE,
            "people": self.path("people.json"), "tokens": self.path("tokens.json"),
        }
        self.write("settings.json", settings)
        self.write_people()
        self.bend({})

    def write_people(self):
        people = {
            person: {"email": f"{person}@example.com", "email_verified": True, "groups": groups}
            for person, groups in self.groups.items()
        }
        self.write("people.json", people)

    def bend(self, tokens):
        """Sets what access tokens of a client have in the header and the payload from now on."""
        self.write("tokens.json", tokens)

    def command(self):
        return ["node", os.path.join(self.installed, "main.js"), self.path("settings.json")]

    def environment(self):
        return {"NODE_NO_WARNINGS": "1"}

    def sign_in(self, visitor, address, person):
        until = outside(address)
        page = visitor.visit(address, until)
        if page.status == 200 and "login" in page.form("prompt").fields:
            page = visitor.submit(page.form("login"), {"login": person, "password": password(person)}, until)
        if page.status == 200:
            page = visitor.submit(page.form("prompt"), {}, until)
        return page.location

    def approve(self, visitor, address, code, person):
        page = visitor.visit(address)
        # A form that sends itself comes first, one that confirms the code second.
        page = visitor.submit(page.form("user_code"), {"user_code": code})
        if "confirm" in page.text:
            page = visitor.submit(page.form("user_code"), {"confirm": "yes"})
        page = visitor.submit(page.form("login"), {"login": person, "password": password(person)})
        if "prompt" in page.text:
            page = visitor.submit(page.form("prompt"), {})
        assert page.status == 200 and "Sign-in Success" in page.text, page.text[:2000]

    def program_token(self):
        return client_credentials(f"{self.issuer}/token", self.secret, resource=f"urn:{AUDIENCE}")

    def set_groups(self, person, groups):
        self.groups[person] = groups
        self.write_people()

    def sign_out(self, visitor, person):
        page = self.confirm_sign_out(visitor, f"{self.issuer}/session/end")
        assert page.status == 200, f"{person}: {page.status} {page.text[:1000]}"

    def confirm_sign_out(self, visitor, address):
        return visitor.submit(visitor.visit(address).form("xsrf"), {"logout": "yes"})

    def browse(self, browser, person):
        browser.fill("form", login=person, password=password(person))
        browser.go_on("button[type=submit]")
        browser.go_on("button[type=submit]")
