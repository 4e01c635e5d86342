"""A browser without scripts: keeps cookies, follows redirects as far as it is allowed to, fills forms."""

import http.client
import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser

LIMIT_S = 20
REDIRECTS_MAX = 20


class Unredirected(urllib.request.HTTPErrorProcessor):
    """Returns redirects and errors as answers."""

    def http_response(self, request, response):
        return response

    https_response = http_response


@dataclass
class Form:
    action: str
    method: str
    fields: dict = field(default_factory=dict)


class Forms(HTMLParser):
    """The forms of a page with their hidden and filled fields."""

    def __init__(self, text):
        super().__init__()
        self.forms = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "form":
            self.forms.append(Form(values.get("action") or "", (values.get("method") or "get").lower()))
        elif tag == "input" and self.forms and values.get("name"):
            self.forms[-1].fields[values["name"]] = values.get("value") or ""


@dataclass
class Answer:
    url: str
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.body)

    @property
    def location(self):
        """The absolute target of a redirect."""
        target = self.headers.get("Location")
        if not 300 <= self.status < 400 or target is None:
            raise AssertionError(f"{self.url}: no redirect: {self.status} {self.text[:600]}")
        return urllib.parse.urljoin(self.url, target)

    def forms(self):
        """The forms, their actions absolute."""
        forms = Forms(self.text).forms
        for form in forms:
            form.action = urllib.parse.urljoin(self.url, form.action)
        return forms

    def form(self, *names):
        """The first form that has all of these fields."""
        for form in self.forms():
            if all(name in form.fields for name in names):
                return form
        raise AssertionError(f"{self.url}: {self.status}, no form with {names}: {self.text[:1500]}")


class Visitor:
    def __init__(self):
        # Secure cookies are sent to 127.0.0.1 too, as browsers do.
        policy = http.cookiejar.DefaultCookiePolicy(secure_protocols=("http", "https"))
        self.cookies = http.cookiejar.CookieJar(policy)
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self.cookies), Unredirected()
        )

    def ask(self, url, data=None, method=None, headers=None):
        """One request; `data` is a dictionary for a form, or bytes."""
        if isinstance(data, dict):
            data = urllib.parse.urlencode(data).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
        with self.opener.open(request, timeout=LIMIT_S) as answer:
            return Answer(url, answer.status, answer.headers, answer.read())

    def call(self, url, body=None, method=None, headers=None):
        """One request with JSON."""
        data = None if body is None else json.dumps(body).encode()
        return self.ask(url, data, method, {"Content-Type": "application/json", **(headers or {})})

    def follow(self, answer, until):
        """Follows redirects to the first page, or to an address that begins with `until`, which is not visited."""
        for _ in range(REDIRECTS_MAX):
            if not 300 <= answer.status < 400:
                return answer
            target = answer.location
            if target.startswith(until):
                return answer
            answer = self.ask(target)
        raise AssertionError(f"more than {REDIRECTS_MAX} redirects, the last to {answer.url}")

    def visit(self, url, until="none:"):
        return self.follow(self.ask(url), until)

    def submit(self, form, changes, until="none:"):
        """Sends a form with some fields changed, and follows the answer."""
        fields = {**form.fields, **changes}
        if form.method == "get":
            return self.visit(f"{form.action}?{urllib.parse.urlencode(fields)}", until)
        return self.follow(self.ask(form.action, fields), until)
