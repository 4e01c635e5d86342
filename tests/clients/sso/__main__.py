"""Runs the cases against each provider: python -m sso [--self-test] [--only PROVIDER,…] [--case WORD] [--no-browser].

THUBAN_BIN is the binary. Status 1 if a case failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from nodes import eventually, free_ports

from . import cases, pipelines
from .cluster import Nodes
from .glewlwyd import Glewlwyd
from .keycloak import Keycloak
from .oidc_provider import OidcProvider
from .provider import CLI, CONSOLE
from .stage import Stage
from .strict import Strict
from .visitor import Visitor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
# Keycloak takes longest to start, so the others have their turn before it.
PROVIDERS = [OidcProvider, Glewlwyd, Keycloak]
NO_ANSWER = 75
WIDTH = 62


class Report:
    def __init__(self):
        self.failed = []

    def run(self, provider, name, case):
        """Runs a case and prints a line about it."""
        began = time.monotonic()
        label = f"{provider}: {name.replace('_', ' ')}"
        try:
            skipped = case()
        except (Exception, SystemExit):  # pylint: disable=broad-except
            self.failed.append(label)
            print(f"{label:{WIDTH}} FAILED after {time.monotonic() - began:.2f} s\n{traceback.format_exc()}", flush=True)
            return False
        word = f"not run: {skipped}" if isinstance(skipped, str) else f"ok {time.monotonic() - began:6.2f} s"
        print(f"{label:{WIDTH}} {word}", flush=True)
        return True


def installed(name):
    """The directory of a provider; nothing where its registry does not answer."""
    done = subprocess.run(
        [os.path.join(ROOT, "tests/clients/sso/install"), name], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == NO_ANSWER:
        return None
    if done.returncode:
        raise SystemExit(f"{name} is not installed: status {done.returncode}")
    return done.stdout.strip()


def works(provider):
    """The provider itself, by a strict client of our own."""
    strict = Strict(provider)
    visitor = Visitor()
    _, person, _ = strict.code_flow(visitor, "ann", CONSOLE, provider.secret, provider.callback)
    assert person["preferred_username"] == "ann" and sorted(person["groups"]) == ["dev-shop", "platform"], person
    if provider.takes_any_port:
        strict.code_flow(Visitor(), "ann", CLI, None, f"http://127.0.0.1:{free_ports(1)[0]}/callback")
    _, (_, person, _) = strict.device_flow("bob", CLI)
    assert person["preferred_username"] == "bob", person
    assert provider.program_token().count(".") == 2
    provider.sign_out(visitor, "ann")


def prepare(nodes):
    """What the cases act on."""
    nodes.write("/naming/v1/namespaces", [{"name": "shop"}])
    file = {"namespace": "shop", "group": "pay", "file_name": "application.properties", "content": "greeting=hello\n"}
    nodes.write("/config/v1/configfiles/createandpub", file)


def away_at_the_start(stage):
    """A provider that nobody hears: it is stored, local users sign in, its sign-in says what is wrong."""
    stage.nodes.write("/auth/v1/providers", [stage.provider.document()])
    for node in stage.nodes.indexes():
        assert stage.nodes.log_in(node=node).status == 200
    page = Visitor().visit(f"{stage.nodes.public}/ui/sso/{stage.provider.name}/start")
    assert page.status == 503 and f"identity provider {stage.provider.name} does not answer" in page.text, page.text[:2000]
    assert any(not ok for ok, _ in stage.steps().values())


def in_a_real_browser(stage):
    if not stage.provider.has_pages:
        return "its package lacks scripts of its pages"
    from browser import Browser, pictured  # pylint: disable=import-outside-toplevel

    browser = Browser(stage.nodes.public)
    with pictured([browser], os.path.join(stage.directory, "browser.png")):
        browser.open("/ui/config")
        browser.go_on(f"a[href^='/ui/sso/{stage.provider.name}/start']")
        stage.provider.browse(browser, "ann")
        browser.expect(f"{stage.provider.name}:ann")
        assert browser.page.current_url == f"{stage.nodes.public}/ui/config", browser.page.current_url
    return None


def play(report, stage, options):
    """All cases of one provider, which is up."""
    provider = stage.provider
    report.run(provider.name, "works", lambda: works(provider))
    stage.strict = Strict(provider)
    # A node remembers for a second that the provider was away.
    eventually("every node reaches the provider", lambda: all(stage.leads_on(node) for node in stage.nodes.indexes()))
    chosen = [case for case in cases.CASES if not options.case or options.case in case.__name__]
    if options.browser:
        chosen.insert(1, in_a_real_browser)
    for case in chosen:
        report.run(provider.name, case.__name__, lambda case=case: case(stage))
    for what, seconds in stage.measured.items():
        print(f"    measured: {provider.name}: {what}: {seconds * 1000:.1f} ms", flush=True)


def play_pipelines(report, nodes, home, directory):
    for name in pipelines.SHAPES:
        provider = pipelines.Pipelines(name, home, directory, nodes.public, free_ports(2))
        stage = Stage(nodes, provider, directory)
        try:
            provider.start()
            report.run(name, "a pipeline by the book", lambda stage=stage: pipelines.pipelines_of(stage, ROOT))
        finally:
            provider.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="only the providers, without thuban")
    parser.add_argument("--only", default=",".join(kind.name for kind in PROVIDERS), help="providers")
    parser.add_argument("--case", default="", help="only the cases with this word in their names")
    parser.add_argument("--no-browser", dest="browser", action="store_false")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    kinds = [kind for kind in PROVIDERS if kind.name in options.only.split(",")]
    homes = {}
    for kind in kinds:
        homes[kind.name] = installed(kind.name)
        if homes[kind.name] is None:
            print(f"{kind.name} is left out: its registry does not answer", flush=True)
    kinds = [kind for kind in kinds if homes[kind.name]]
    report = Report()
    directory = tempfile.mkdtemp(prefix="thuban-sso-")
    print(f"in {directory}", flush=True)
    if options.self_test:
        run_self_test(report, kinds, homes, directory)
    else:
        run(report, kinds, homes, directory, options)
    if not report.failed and not options.keep:
        subprocess.run(["rm", "-rf", directory], check=True)
    for label in report.failed:
        print(f"failed: {label}", file=sys.stderr)
    return 1 if report.failed else 0


def run_self_test(report, kinds, homes, directory):
    # Logouts arrive nowhere.
    for kind in kinds:
        provider = kind(homes[kind.name], directory, f"http://127.0.0.1:{free_ports(1)[0]}", free_ports(2))
        try:
            print(f"{kind.name}: started in {provider.start():.2f} s", flush=True)
            report.run(kind.name, "works", lambda provider=provider: works(provider))
        finally:
            provider.stop()


def run(report, kinds, homes, directory, options):
    with Nodes(os.environ["THUBAN_BIN"], directory) as nodes, ThreadPoolExecutor(len(kinds)) as starter:
        prepare(nodes)
        providers = [kind(homes[kind.name], directory, nodes.public, free_ports(2)) for kind in kinds]
        stages = [Stage(nodes, provider, directory) for provider in providers]
        try:
            for stage in stages:
                report.run(stage.provider.name, "away at the start", lambda stage=stage: away_at_the_start(stage))
            started = [starter.submit(provider.start) for provider in providers]
            for stage, start in zip(stages, started):
                stage.measured["start of the provider"] = start.result()
                play(report, stage, options)
            if homes.get(OidcProvider.name) and not options.case:
                play_pipelines(report, nodes, homes[OidcProvider.name], directory)
        finally:
            for provider in providers:
                provider.stop()


if __name__ == "__main__":
    sys.exit(main())
