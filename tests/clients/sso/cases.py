"""The cases, each of them against one provider and three nodes. They run in this order and need nothing of each other."""

import json
import os
import signal
import stat
import time

from nodes import eventually

from .provider import CONSOLE, PIPELINE
from .stage import Person, refusal
from .strict import halves
from .terminal import CTRL_C
from .visitor import Visitor

# Requests of thuban to a provider end after 5 s.
AWAY_LIMIT_S = 7.0


def sign_in_at_the_console(stage):
    """A form, three redirects, and a session that every node knows."""
    began = time.monotonic()
    ann = Person(stage, "ann").sign_in()
    stage.measured["console: from the first click to the home page"] = time.monotonic() - began
    for node in stage.nodes.indexes():
        assert ann.is_in(node), f"node {node + 1} does not know the session"
    stage.audit(ann.holder)


def the_leader_dies_between_redirect_and_callback(stage):
    ann = Person(stage, "ann")
    address = ann.callback()
    killed = stage.nodes.kill_leader()
    try:
        began = time.monotonic()
        page = ann.come_back(address)
        stage.measured["callback after the leader's death"] = time.monotonic() - began
        assert page.status == 200 and ann.holder in page.text, refusal(page)
    finally:
        stage.nodes.heal(killed)
    assert ann.is_in(killed), "the node that was away does not know the session"


def a_callback_is_used_once_by_its_browser(stage):
    ann = Person(stage, "ann")
    address = ann.callback()
    other = Visitor().visit(address)
    assert ann.holder not in other.text and other.status in (400, 401, 403), refusal(other)
    page = ann.come_back(address)
    assert ann.holder in page.text, refusal(page)
    again = ann.come_back(address)
    assert again.status in (400, 401, 403), refusal(again)


def a_person_without_a_binding_is_refused(stage):
    eve = Person(stage, "eve")
    page = eve.come_back(eve.callback())
    assert page.status in (401, 403) and "no binding gives it a right" in page.text, refusal(page)
    assert not any(eve.is_in(node) for node in stage.nodes.indexes())
    stage.audit(eve.holder, "401001")


def log_in_in_a_terminal_by_the_device_flow(stage):
    token = stage.log_in_by_device("ann")
    mode = stat.S_IMODE(os.stat(stage.contexts).st_mode)
    assert mode == 0o600, oct(mode)
    status, printed = stage.run("whoami")
    assert status == 0 and f"{stage.provider.name}:ann" in printed, printed
    assert all(stage.takes(node, token) for node in stage.nodes.indexes())
    status, printed = stage.run("logout")
    assert status == 0, printed
    stage.ends_everywhere("a login of the command line", lambda node: stage.takes(node, token))
    status, printed = stage.run("whoami")
    assert status != 0, printed


def ctrl_c_ends_a_login(stage):
    command = stage.command("login", "--sso", stage.provider.name, "--device")
    try:
        command.find(r"the code (\S+)")
        command.press(CTRL_C)
        status, printed = command.end()
    finally:
        command.close()
    assert status == 130 and "nobody was logged in" in printed, f"{status}: {printed}"


def log_in_in_a_terminal_by_a_browser(stage):
    if not stage.provider.takes_any_port:
        return "the provider compares the port of a redirect address, which the command line chooses anew each time"
    token = stage.log_in_by_browser("ann")
    for node in stage.nodes.indexes():
        assert stage.takes(node, token), f"node {node + 1}"
    return None


def a_pipeline_brings_its_own_token(stage):
    token = stage.provider.program_token()
    bearer = f"Bearer {token}"
    for node in stage.nodes.indexes():
        began = time.monotonic()
        assert stage.takes(node, bearer), stage.nodes.ask("/auth/v1/user", token=bearer, node=node).text
        stage.measured[f"bearer: first sight on node {node + 1}"] = time.monotonic() - began
        began = time.monotonic()
        assert stage.takes(node, bearer)
        stage.measured[f"bearer: second sight on node {node + 1}"] = time.monotonic() - began
    grants = stage.nodes.ask("/auth/v1/user", token=bearer).json()["user"]["grants"]
    assert grants and all(grant.get("source") == "binding" for grant in grants), grants
    service = [{"namespace": "shop", "name": f"of-{stage.provider.name}"}]
    answer = stage.nodes.ask("/naming/v1/services", service, token=bearer)
    assert answer.status == 200, answer.text
    elsewhere = [{"namespace": "default", "name": "foreign"}]
    answer = stage.nodes.ask("/naming/v1/services", elsewhere, token=bearer)
    assert "401001" in answer.text, answer.text
    discover = {"type": "INSTANCE", "service": service[0]}
    answer = stage.nodes.ask("/v1/Discover", discover, token=bearer)
    assert answer.status == 200 and answer.json()["code"] == 200000, answer.text
    header, payload, signature = token.split(".")
    bent = "B" if signature[20] == "A" else "A"
    for wrong in (f"{header}.{payload}.{signature[:20]}{bent}{signature[21:]}", f"{header}.{payload}.", f"{token}x"):
        answer = stage.nodes.ask("/auth/v1/user", token=f"Bearer {wrong}")
        assert answer.status == 401 and "401004" in answer.text, answer.text


def the_config_port_takes_the_token_of_a_pipeline(stage):
    token = stage.provider.program_token()
    for node in stage.nodes.indexes():
        url = f"http://{stage.nodes.compat[node]}/configs/pay/shop/application"
        answer = Visitor().ask(url, headers={"Authorization": f"Bearer {token}"})
        assert answer.status == 200 and answer.json()["configurations"] == {"greeting": "hello"}, answer.text
        wrong = Visitor().ask(url, headers={"Authorization": f"Bearer {token[:-6]}AAAAAA"})
        assert wrong.status == 401, f"{wrong.status} {wrong.text}"


def an_id_token_is_no_bearer(stage):
    _, _, tokens = stage.strict.code_flow(
        Visitor(), "ann", CONSOLE, stage.provider.secret, stage.provider.callback
    )
    for name in ("id_token", "access_token"):
        answer = stage.nodes.ask("/auth/v1/user", token=f"Bearer {tokens[name]}")
        # The access token is for the provider's own userinfo, not for this API.
        assert answer.status == 401 and "401004" in answer.text, f"{name}: {answer.text}"
    login = f"/auth/v1/sso/{stage.provider.name}/login"
    nonce = halves(tokens["id_token"])[1]["nonce"]
    body = {"id_token": tokens["id_token"], "nonce": nonce, "access_token": tokens["access_token"]}
    answer = Visitor().call(f"{stage.nodes.public}{login}", body)
    # It was issued to the console, which the command line is not.
    assert answer.status == 401, answer.text


def the_provider_logs_out(stage):
    """Back-channel logout: two sessions of one browser's sign-in end, another person's goes on."""
    ann, bob = Person(stage, "ann").sign_in(), Person(stage, "bob").sign_in()
    assert all(ann.is_in(node) and bob.is_in(node) for node in stage.nodes.indexes())
    stage.provider.sign_out(ann.visitor, "ann")
    stage.ends_everywhere("a session that the provider logs out", ann.is_in)
    assert all(bob.is_in(node) for node in stage.nodes.indexes()), "another person was signed out"


def sign_out_at_the_console(stage):
    """Leads to the provider, which ends its session too."""
    ann = Person(stage, "ann").sign_in()
    home = ann.visitor.visit(f"{stage.nodes.public}/ui/account")
    form = next(form for form in home.forms() if form.action.endswith("/ui/sign-out"))
    page = ann.visitor.submit(form, {})
    stage.ends_everywhere("a session that signs out", ann.is_in)
    leads_to = page.headers.get("Refresh", "").partition("url=")[2]
    assert leads_to.startswith(stage.strict.metadata["end_session_endpoint"]), page.text[:1500]
    page = stage.provider.confirm_sign_out(ann.visitor, leads_to)
    assert page.status == 200, f"{page.status} {page.text[:1500]}"
    start = ann.visitor.ask(f"{stage.nodes.public}/ui/sso/{stage.provider.name}/start")
    assert stage.provider.asks_for_a_password(ann.visitor, start.location), "the provider's session goes on"


def groups_are_those_of_the_last_sign_in(stage):
    bob = Person(stage, "bob").sign_in()
    stage.provider.set_groups("bob", ["visitors"])
    try:
        again = Person(stage, "bob")
        page = again.come_back(again.callback())
        assert "no binding gives it a right" in page.text, refusal(page)
        # The claims of a session are those of its sign-in.
        assert bob.is_in(0)
    finally:
        stage.provider.set_groups("bob", ["dev-shop"])
    Person(stage, "bob").sign_in()


def a_removed_binding_ends_rights_at_once(stage):
    token = f"Bearer {stage.provider.program_token()}"
    before = stage.provider.document()["bindings"]
    without = [binding for binding in before if binding["value"] != PIPELINE]
    may = {"namespace": "shop", "name": f"bound-{stage.provider.name}"}

    def edits(node):
        answer = stage.nodes.ask("/naming/v1/services", [may], token=token, node=node)
        # It exists already from the second time on.
        return any(f'"code":{code}' in answer.text for code in (200000, 400201))

    assert edits(0)
    stage.update(bindings=without)
    try:
        stage.ends_everywhere("a right by a binding that is removed", lambda node: stage.takes(node, token) and edits(node))
    finally:
        stage.update(bindings=before)
    eventually("the binding is back", lambda: edits(0))


def the_provider_is_away_in_the_middle(stage):
    """It hangs: sessions, remembered tokens and local users go on."""
    ann = Person(stage, "ann").sign_in()
    token = f"Bearer {stage.provider.program_token()}"
    assert all(stage.takes(node, token) for node in stage.nodes.indexes())
    stage.provider.send(signal.SIGSTOP)
    try:
        for node in stage.nodes.indexes():
            assert ann.is_in(node) and stage.takes(node, token), f"node {node + 1}"
            assert stage.nodes.log_in(node=node).status == 200
        began = time.monotonic()
        steps = stage.steps()
        took = time.monotonic() - began
        assert any(not ok for ok, _ in steps.values()) and took < AWAY_LIMIT_S, f"{took:.1f} s: {steps}"
        stage.measured["a test of a provider that hangs"] = took
        restart_of_a_node(stage, ann, token)
    finally:
        stage.provider.send(signal.SIGCONT)
    began = time.monotonic()
    # A node remembers a failure for a second.
    eventually("all nodes take the token", lambda: all(takes_again(stage, node, token) for node in stage.nodes.indexes()))
    stage.measured["tokens after the provider is back, on every node"] = time.monotonic() - began
    Person(stage, "ann").sign_in()


def takes_again(stage, node, token):
    return stage.nodes.ask("/auth/v1/user", token=token, node=node).status == 200


def restart_of_a_node(stage, person, token):
    """A node starts while the provider is away: it knows sessions and local users, and no keys yet."""
    leader = stage.nodes.clients.index(stage.nodes.leader())
    node = next(index for index in stage.nodes.indexes() if index != leader)
    stage.nodes.kill(node)
    stage.nodes.heal(node)
    assert person.is_in(node), "the restarted node does not know the session"
    assert stage.nodes.log_in(node=node).status == 200
    answer = stage.nodes.ask("/auth/v1/user", token=token, node=node)
    assert answer.status == 503 and "503007" in answer.text, f"{answer.status} {answer.text}"


def a_disabled_provider_ends_everything(stage):
    if stage.provider.takes_any_port:
        stage.log_in_by_browser("ann")
    ann = Person(stage, "ann").sign_in()
    token = f"Bearer {stage.provider.program_token()}"
    assert all(ann.is_in(node) and stage.takes(node, token) for node in stage.nodes.indexes())
    stage.update(disabled=True)
    try:
        stage.ends_everywhere("a session of a disabled provider", ann.is_in)
        stage.ends_everywhere("a bearer token of a disabled provider", lambda node: stage.takes(node, token))
        page = Visitor().visit(f"{stage.nodes.public}/ui/sign-in")
        assert f"/ui/sso/{stage.provider.name}/start" not in page.text, "it is offered on the sign-in page"
        if stage.provider.takes_any_port:
            status, printed = stage.run("whoami")
            assert status == 3 and f"thuban login --sso {stage.provider.name}" in printed, f"{status}: {printed}"
    finally:
        stage.update(disabled=False)
    eventually("every node offers it again", lambda: all(stage.is_offered(node) for node in stage.nodes.indexes()))
    Person(stage, "ann").sign_in()


def a_test_shows_what_a_token_gives(stage):
    token = stage.provider.program_token()
    file = os.path.join(stage.directory, "token")
    with open(file, "w", encoding="ascii") as out:
        out.write(token)
    status, printed = stage.run("sso", "test", stage.provider.name, "--token", file, token=stage.nodes.token)
    assert status == 0 and "✓" in printed and "✗" not in printed, printed
    assert "editor" in printed and "shop" in printed, printed
    status, printed = stage.run("sso", "list")
    assert status == 0 and stage.provider.issuer in printed, printed


def keys_are_rotated(stage):
    """A restart has new keys, which nodes fetch at once: no token with an unknown key came within the last 30 s."""
    if not stage.provider.rotates:
        return "its keys stay at a restart"
    before = halves(stage.provider.program_token())[0]["kid"]
    stage.provider.stop()
    stage.measured["restart of the provider"] = stage.provider.start()
    token = stage.provider.program_token()
    assert halves(token)[0]["kid"] != before
    began = time.monotonic()
    for node in stage.nodes.indexes():
        assert stage.takes(node, f"Bearer {token}"), f"node {node + 1}"
    stage.measured["bearer: first sight of a new key on three nodes"] = time.monotonic() - began
    Person(stage, "ann").sign_in()
    return None


def an_identity_that_is_deleted_is_new_again(stage):
    ann = Person(stage, "ann").sign_in()
    listed = stage.nodes.ask(f"/auth/v1/identities?provider={stage.provider.name}").json()["data"]
    sub = next(row["sub"] for row in listed if json.dumps(row).find(ann.holder) >= 0)
    stage.nodes.write("/auth/v1/identities/delete", [{"provider": stage.provider.name, "sub": sub}])
    stage.ends_everywhere("a session of a deleted identity", ann.is_in)
    Person(stage, "ann").sign_in()


def a_deleted_provider_ends_everything(stage):
    ann = Person(stage, "ann").sign_in()
    token = f"Bearer {stage.provider.program_token()}"
    assert all(ann.is_in(node) and stage.takes(node, token) for node in stage.nodes.indexes())
    stage.nodes.write("/auth/v1/providers/delete", [{"name": stage.provider.name}])
    stage.ends_everywhere("a session of a deleted provider", ann.is_in)
    stage.ends_everywhere("a bearer token of a deleted provider", lambda node: stage.takes(node, token))


CASES = [
    sign_in_at_the_console,
    keys_are_rotated,
    the_leader_dies_between_redirect_and_callback,
    a_callback_is_used_once_by_its_browser,
    a_person_without_a_binding_is_refused,
    log_in_in_a_terminal_by_the_device_flow,
    ctrl_c_ends_a_login,
    log_in_in_a_terminal_by_a_browser,
    a_pipeline_brings_its_own_token,
    the_config_port_takes_the_token_of_a_pipeline,
    an_id_token_is_no_bearer,
    the_provider_logs_out,
    sign_out_at_the_console,
    groups_are_those_of_the_last_sign_in,
    a_removed_binding_ends_rights_at_once,
    the_provider_is_away_in_the_middle,
    a_disabled_provider_ends_everything,
    a_test_shows_what_a_token_gives,
    an_identity_that_is_deleted_is_new_again,
    a_deleted_provider_ends_everything,
]
