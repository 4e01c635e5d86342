"""All pages of the console, what they show, and who looks at them: for scripts that visit each page.

`fill` makes an example of everything through the management API, with an administrator, a releaser and a reader.
"""

import json
import urllib.error
import urllib.parse
import urllib.request

NAMESPACE = "shop"
LIMITED = {"amounts": [{"maxAmount": 100, "validDuration": "1s"}]}
FREEZE = {"from": "2020-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z", "comment": "year's end"}
GRAY = [{"key": "zone", "value": {"type": "EXACT", "value": "a"}}]
# Each with its password and the roles it has in the namespace.
PEOPLE = {"rita": ["editor", "releaser", "approver"], "eve": ["reader"]}


class Api:
    """The management API, as an administrator."""

    def __init__(self, url, password):
        self.url, self.token = url, None
        self.token = self.send("POST", "/auth/v1/user/login", {"name": "admin", "password": password})["loginResponse"]["token"]

    def send(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.add_header(name, value)
        if self.token:
            request.add_header("Authorization", self.token)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.read().decode()}") from error
        if found.get("code", 200000) // 1000 not in (200, 202):
            raise SystemExit(f"{method} {path}: {found}")
        return found

    def post(self, path, *bodies):
        return self.send("POST", path, list(bodies))


def of(name, **more):
    return {"namespace": NAMESPACE, "name": name, **more}


def rules():
    """A rule of each family, by the path of its family."""
    pay = {"service": "pay", "namespace": NAMESPACE}
    condition = {"type": "HEADER", "key": "x-beta", "value": {"type": "EXACT", "value": "1"}}
    destination = dict(pay, labels={"version": {"type": "EXACT", "value": "2"}}, weight=100, name="second")
    route = {"name": "beta", "arguments": {"arguments": [condition]}, "destinations": [destination]}
    errors = [{"input_type": "RET_CODE", "condition": {"type": "RANGE", "value": "500~599"}}]
    triggers = [{"trigger_type": "ERROR_RATE", "error_percent": 50, "interval": 60, "minimum_request": 10}]
    probe = {"interval": 30, "timeout": 1, "port": 8080, "protocol": "HTTP", "http_config": {"method": "GET", "url": "/"}}
    return {
        "routings": of("beta", enable=True, route_policy="RulePolicy", routing_config={"callee": pay, "rules": [route]}),
        "ratelimits": of("pay-limit", enable=True, service="pay", rules=[LIMITED]),
        "circuitbreakers": of("pay-breaker", enable=True, level="SERVICE", rule_matcher={
            "source": {"service": "*", "namespace": "*"}, "destination": pay,
        }, error_conditions=errors, trigger_condition=triggers),
        "faultdetectors": of("pay-probe", enable=True, target_service=pay, rules=[probe]),
    }


def fill(url, clients, password):
    """Makes the examples; `clients` is the address that config clients read from."""
    api = Api(url, password)
    for name, roles in PEOPLE.items():
        grants = [{"role": role, "namespace": NAMESPACE} for role in roles]
        api.post("/auth/v1/users", {"name": name, "password": f"password of {name}", "grants": grants})
    api.post("/naming/v1/services", of("pay", comment="takes the money", owners="team-a", metadata={"tier": "gold"}), of("cart"))
    for number in range(1, 6):
        place = {"namespace": NAMESPACE, "service": "pay", "host": f"10.0.0.{number}", "port": 8080}
        api.post("/naming/v1/instances", {**place, "healthy": number > 1, "metadata": {"version": str(number % 2 + 1)}})
    api.send("POST", "/naming/v1/service/alias", {"alias": "cash", "alias_namespace": NAMESPACE, "service": "pay", "namespace": NAMESPACE})
    for family, rule in rules().items():
        api.post(f"/naming/v1/{family}", rule)
        api.post(f"/naming/v1/{family}/releases", {"rule_name": rule["name"], "namespace": NAMESPACE})
    changed = dict(rules()["ratelimits"], rules=[{"amounts": [{"maxAmount": 200, "validDuration": "1s"}]}])
    api.send("PUT", "/naming/v1/ratelimits", [changed])
    gray = {"release_type": "gray", "release_name": "zone-a", "client_labels": GRAY}
    api.post("/naming/v1/ratelimits/releases", {"rule_name": "pay-limit", "namespace": NAMESPACE, **gray})
    file = {"namespace": NAMESPACE, "group": "shop", "file_name": "application.properties"}
    api.send("POST", "/config/v1/configfiles/createandpub", dict(file, content="greeting=hello\nlimit=10\n"))
    for number in range(30):
        words = urllib.parse.urlencode({"ip": f"10.2.0.{number}", "label": "zone=ab"[: 6 + number % 2]})
        path = f"/configs/shop/{NAMESPACE}/application?{words}"
        with urllib.request.urlopen(f"http://{clients}{path}", timeout=30) as answer:
            answer.read()
    draft = {"namespace": NAMESPACE, "group": "shop", "name": "application.properties", "content": "greeting=hello\nlimit=20\n"}
    api.send("PUT", "/config/v1/configfiles", draft)
    steps = [{"percent": 25, "hold_s": 3600}, {"percent": 100}]
    plan = {"by": "CLIENT_IP", "steps": steps, "guards": [{"kind": "refused", "max_percent": 5}]}
    api.send("POST", "/config/v1/configfiles/release", dict(file, name="careful", release_type="gray", plan=plan))
    api.send("PUT", "/config/v1/configfiles", dict(draft, content="greeting=hi\nlimit=20\n"))
    api.post("/admin/v1/policies", {"name": "two-people", "namespace": NAMESPACE, "approvals": 1, "freezes": [FREEZE]})
    api.post("/admin/v1/contracts", {"name": "short", "namespace": NAMESPACE, "mode": "warn", "kinds": ["configfile"],
                                      "schema": {"type": "object"}})
    api.post("/config/v1/configfiletemplates", {"name": "spring", "content": "a: 1\n", "format": "yaml"})
    api.post("/auth/v1/tokens", {"name": "ci", "grants": [{"role": "reader", "namespace": NAMESPACE}]})
    asked = Api(url, password)
    asked.token = None
    login = {"name": "rita", "password": "password of rita"}
    asked.token = asked.send("POST", "/auth/v1/user/login", login)["loginResponse"]["token"]
    asked.post("/naming/v1/routings/releases", {"rule_name": "beta", "namespace": NAMESPACE, "request": "for the fair"})
    return api


def pages(api=None):
    """Paths of all pages by their names; those of objects if there is something."""
    lists = [
        "", "/services", "/map", "/rules/routings", "/rules/ratelimits", "/rules/circuitbreakers", "/rules/faultdetectors",
        "/config", "/clients", "/requests", "/namespaces", "/templates", "/contracts", "/policies", "/webhooks", "/accounts",
        "/account", "/book/contents", "/book/rules-routing", "/book/zh/start", "/audit", "/proxies", "/cluster", "/search", "/none", "/rules/routings/explain",
    ]
    found = {f"list{path.replace('/', '-') or '-home'}": f"/ui{path}" for path in lists}
    edited = ["policies", "contracts", "namespaces", "aliases", "services", "templates", "users", "tokens", "accesskeys", "webhooks"]
    found |= {f"form-{sort}": f"/ui/edit/{sort}" for sort in [*edited, "settings"]}
    if api is None:
        return found
    asked = urllib.parse.urlencode({"namespace": NAMESPACE, "service": "pay", "headers": "x-beta=1", "client_labels": "zone=a"})
    file = urllib.parse.urlencode({"namespace": NAMESPACE, "group": "shop", "name": "application.properties"})
    rule = {kind: api.send("GET", f"/naming/v1/{kind}")["data"][0]["id"] for kind in ("routings", "ratelimits")}
    request = api.send("GET", "/admin/v1/requests")["data"][0]["id"]
    return found | {
        "home-namespace": f"/ui?namespace={NAMESPACE}",
        "services-none": "/ui/services?name=nothing",
        "service": f"/ui/service?namespace={NAMESPACE}&name=pay",
        "rule-routing": f"/ui/rules/routings/{rule['routings']}",
        "rule-limit": f"/ui/rules/ratelimits/{rule['ratelimits']}",
        "rule-new": "/ui/rules/routings/new",
        "explain": f"/ui/rules/ratelimits/explain?{asked}",
        "files": f"/ui/config?namespace={NAMESPACE}&group=shop",
        "file": f"/ui/config/file?{file}",
        "file-table": f"/ui/config/file?{file}&as=table",
        "clients-search": "/ui/clients?q=10.2.0.1",
        "request": f"/ui/requests/{request}",
        "found": "/ui/search?q=pay",
        "audit-user": "/ui/audit?user=admin",
        "user": "/ui/edit/users?name=rita",
    }
