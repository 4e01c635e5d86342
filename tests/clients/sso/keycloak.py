"""Keycloak, by its development server with a realm from a file."""

import json
import os
import shutil

from .provider import AUDIENCE, CLI, CONSOLE, PEOPLE, PIPELINE, Provider, client_credentials, outside, password
from .visitor import Visitor

ADMIN = {"username": "admin", "password": "the password of Keycloak's administrator"}
S256 = {"pkce.code.challenge.method": "S256"}


def mapper(name, kind, settings):
    return {"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": settings}


IN_ALL = {"id.token.claim": "true", "access.token.claim": "true", "userinfo.token.claim": "true"}
GROUPS = mapper("groups", "oidc-group-membership-mapper", {"claim.name": "groups", "full.path": "false", **IN_ALL})
FOR_API = mapper(
    "audience", "oidc-audience-mapper", {"included.custom.audience": AUDIENCE, "access.token.claim": "true"}
)


class Keycloak(Provider):
    name = "keycloak"
    scopes = ["openid", "profile", "email"]

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.url = f"http://127.0.0.1:{self.port}"
        self.issuer = f"{self.url}/realms/acme"
        self.probe = f"{self.issuer}/.well-known/openid-configuration"
        self.home = os.path.join(self.directory, "keycloak")

    def realm(self):
        groups = sorted({group for groups in PEOPLE.values() for group in groups})
        console = {
            "clientId": CONSOLE, "secret": self.secret, "redirectUris": [self.callback], "protocolMappers": [GROUPS],
            "attributes": {
                **S256, "backchannel.logout.url": self.logout_uri, "backchannel.logout.session.required": "true",
                "post.logout.redirect.uris": "##".join(self.signed_out_uris),
            },
        }
        cli = {
            "clientId": CLI, "publicClient": True, "redirectUris": ["http://127.0.0.1/*"], "protocolMappers": [GROUPS],
            "attributes": {**S256, "oauth2.device.authorization.grant.enabled": "true"},
        }
        pipeline = {
            "clientId": PIPELINE, "secret": self.secret, "serviceAccountsEnabled": True, "standardFlowEnabled": False,
            "protocolMappers": [FOR_API],
        }
        people = [
            {
                "username": person, "enabled": True, "email": f"{person}@example.com", "emailVerified": True,
                "firstName": person.title(), "lastName": "Example", "groups": [f"/{group}" for group in groups],
                "credentials": [{"type": "password", "value": password(person)}],
            }
            for person, groups in PEOPLE.items()
        ]
        return {
            "realm": "acme", "enabled": True, "sslRequired": "none", "groups": [{"name": name} for name in groups],
            "users": people, "clients": [console, cli, pipeline],
        }

    def prepare(self):
        shutil.copytree(os.path.join(self.installed, "keycloak"), self.home, symlinks=True)
        os.makedirs(os.path.join(self.home, "data", "import"), exist_ok=True)
        with open(os.path.join(self.home, "data", "import", "acme.json"), "w", encoding="utf-8") as file:
            json.dump(self.realm(), file)

    def command(self):
        return [
            os.path.join(self.home, "bin", "kc.sh"), "start", "--optimized", "--import-realm", "--http-enabled=true",
            f"--hostname={self.url}", "--http-host=127.0.0.1", f"--http-port={self.port}",
            "--http-management-host=127.0.0.1", f"--http-management-port={self.ports[1]}", "--cache=local",
        ]

    def environment(self):
        return {
            "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN["username"],
            "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN["password"],
            "JAVA_OPTS_KC_HEAP": "-Xms128m -Xmx512m",
            # It runs for minutes: a quick start is worth more than a quick program.
            "JAVA_OPTS_APPEND": "-XX:TieredStopAtLevel=1",
            "JAVA_OPTS_GC": "-XX:+UseSerialGC",
        }

    def sign_in(self, visitor, address, person):
        page = visitor.visit(address, outside(address))
        if page.status == 200:
            page = self.fill(visitor, page, person, outside(address))
        return page.location

    def fill(self, visitor, page, person, until="none:"):
        return visitor.submit(page.form("username"), {"username": person, "password": password(person)}, until)

    def approve(self, visitor, address, code, person):
        page = visitor.visit(address)
        if 'name="device_user_code"' in page.text:
            page = visitor.submit(page.form("device_user_code"), {"device_user_code": code})
        page = self.fill(visitor, page, person)
        page = visitor.submit(page.form("code"), {"accept": "Yes"})
        assert page.status == 200 and "successful" in page.text.lower(), page.text[:2000]

    def program_token(self):
        return client_credentials(f"{self.issuer}/protocol/openid-connect/token", self.secret)

    def administrator(self):
        """A caller of Keycloak's own API."""
        fields = {"grant_type": "password", "client_id": "admin-cli", **ADMIN}
        answer = Visitor().ask(f"{self.url}/realms/master/protocol/openid-connect/token", fields)
        headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}

        def call(path, body=None, method=None):
            done = Visitor().call(f"{self.url}/admin/realms/acme{path}", body, method, headers)
            if done.status >= 300:
                raise AssertionError(f"{path}: {done.status} {done.text}")
            return done.json() if done.body else None

        return call

    def set_groups(self, person, groups):
        call = self.administrator()
        user = call(f"/users?exact=true&username={person}")[0]["id"]
        for group in call(f"/users/{user}/groups"):
            call(f"/users/{user}/groups/{group['id']}", method="DELETE")
        for group in call("/groups"):
            if group["name"] in groups:
                call(f"/users/{user}/groups/{group['id']}", method="PUT")

    def sign_out(self, visitor, person):
        del visitor  # an administrator of Keycloak ends it
        call = self.administrator()
        call(f"/users/{call(f'/users?exact=true&username={person}')[0]['id']}/logout", method="POST")

    def confirm_sign_out(self, visitor, address):
        page = visitor.visit(address)
        assert "logged out" in page.text, page.text[:2000]
        return page

    def browse(self, browser, person):
        browser.fill("form", username=person, password=password(person))
        browser.go_on("[name=login]")
