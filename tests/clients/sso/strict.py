"""A strict client of our own, which proves that a provider works before thuban signs anybody in by it."""

import base64
import hashlib
import json
import secrets
import urllib.parse

from .visitor import Visitor

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
# DER of the prefix of a SHA-256 digest in a signature by RSASSA-PKCS1-v1_5.
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")


def unpadded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def halves(token):
    """Header and payload of a token, unchecked."""
    header, payload, _ = token.split(".")
    return json.loads(decoded(header)), json.loads(decoded(payload))


def verify_rs256(token, keys):
    header, _ = halves(token)
    signed, signature = token.rsplit(".", 1)
    key = next(one for one in keys if one.get("kid") == header.get("kid"))
    modulus, exponent = (int.from_bytes(decoded(key[name]), "big") for name in ("n", "e"))
    size = (modulus.bit_length() + 7) // 8
    digest = SHA256_PREFIX + hashlib.sha256(signed.encode()).digest()
    expected = b"\x00\x01" + b"\xff" * (size - 3 - len(digest)) + b"\x00" + digest
    found = pow(int.from_bytes(decoded(signature), "big"), exponent, modulus).to_bytes(size, "big")
    assert found == expected, "the signature is wrong"


class Strict:
    def __init__(self, provider):
        self.provider = provider
        self.metadata = self.get(f"{provider.issuer}/.well-known/openid-configuration")
        assert self.metadata["issuer"] == provider.issuer, self.metadata["issuer"]

    def get(self, url, headers=None):
        answer = Visitor().ask(url, headers=headers)
        assert answer.status == 200, f"{url}: {answer.status} {answer.text}"
        return answer.json()

    def post(self, endpoint, fields, secret):
        headers = {}
        if secret:
            pair = ":".join(urllib.parse.quote(part, safe="") for part in (fields["client_id"], secret))
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
            fields = {name: value for name, value in fields.items() if name != "client_id"}
        return Visitor().ask(self.metadata[endpoint], fields, headers=headers)

    def checked(self, token, client, nonce):
        """The claims of an ID token."""
        header, claims = halves(token)
        if header["alg"] == "RS256":
            verify_rs256(token, self.get(self.metadata["jwks_uri"])["keys"])
        else:
            assert header["alg"] in ("PS256", "ES256", "ES384", "EdDSA"), header
        audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        assert claims["iss"] == self.provider.issuer and audience == [client], claims
        assert claims.get("nonce") == nonce, claims
        return claims

    def code_flow(self, visitor, person, client, secret, redirect_uri):
        """Signs in as the console does, and returns the claims of the ID token and of userinfo, and the tokens."""
        verifier, state, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        request = {
            "response_type": "code", "client_id": client, "redirect_uri": redirect_uri, "state": state, "nonce": nonce,
            "scope": " ".join(self.provider.scopes), "code_challenge_method": "S256",
            "code_challenge": unpadded(hashlib.sha256(verifier.encode()).digest()),
        }
        address = f"{self.metadata['authorization_endpoint']}?{urllib.parse.urlencode(request)}"
        callback = self.provider.sign_in(visitor, address, person)
        answer = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback).query))
        assert answer["state"] == state and answer.get("iss", self.provider.issuer) == self.provider.issuer, callback
        fields = {
            "grant_type": "authorization_code", "code": answer["code"], "redirect_uri": redirect_uri, "client_id": client,
        }
        wrong = self.post("token_endpoint", {**fields, "code_verifier": verifier[::-1]}, secret)
        assert wrong.status in (400, 401, 403), f"a wrong verifier: {wrong.status} {wrong.text}"
        # A code that was tried wrongly is worth nothing any more: another one.
        callback = self.provider.sign_in(visitor, address, person)
        fields["code"] = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback).query))["code"]
        answer = self.post("token_endpoint", {**fields, "code_verifier": verifier}, secret)
        assert answer.status == 200, answer.text
        return self.with_userinfo(answer.json(), client, nonce)

    def with_userinfo(self, tokens, client, nonce):
        claims = self.checked(tokens["id_token"], client, nonce)
        bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
        person = self.get(self.metadata["userinfo_endpoint"], bearer)
        assert person["sub"] == claims["sub"], (person, claims)
        return claims, person, tokens

    def device_flow(self, person, client):
        verifier = secrets.token_urlsafe(32)
        fields = {
            "client_id": client, "scope": " ".join(self.provider.scopes), "code_challenge_method": "S256",
            "code_challenge": unpadded(hashlib.sha256(verifier.encode()).digest()),
        }
        answer = self.post("device_authorization_endpoint", fields, None)
        assert answer.status == 200, answer.text
        device = answer.json()
        poll = {
            "grant_type": DEVICE_CODE, "device_code": device["device_code"], "client_id": client, "code_verifier": verifier,
        }
        address = device.get("verification_uri_complete", device["verification_uri"])
        self.provider.approve(Visitor(), address, device["user_code"], person)
        answer = self.post("token_endpoint", poll, None)
        assert answer.status == 200, answer.text
        return device, self.with_userinfo(answer.json(), client, None)
