"""Tokens in the shape of GitHub Actions, GitLab CI and Kubernetes, and the documents of docs/single-sign-on-pipelines.md.

The page's documents are applied as they are there, with the issuer of a provider on this machine.
"""

import os
import re
import time

from .oidc_provider import OidcProvider
from .provider import PIPELINE
from .visitor import Visitor

PAGE = "docs/single-sign-on-pipelines.md"
# By the documentation of each issuer. What a job asks for is the audience.
SHAPES = {
    "github": {
        "issuer": "https://token.actions.githubusercontent.com",
        "header": {"typ": "JWT", "x5t": "38826b17-6a30-5f9b-b169-8beb8202f723"},
        "payload": {
            "sub": "repo:acme/shop:ref:refs/heads/main", "ref": "refs/heads/main", "ref_type": "branch", "ref_protected": "true",
            "sha": "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e", "repository": "acme/shop", "repository_owner": "acme",
            "repository_owner_id": "65", "repository_id": "74", "repository_visibility": "private", "actor": "octocat",
            "actor_id": "12", "workflow": "release", "head_ref": "", "base_ref": "", "event_name": "push", "run_id": "6111",
            "run_number": "10", "run_attempt": "2", "runner_environment": "github-hosted", "client_id": None,
            "workflow_ref": "acme/shop/.github/workflows/release.yml@refs/heads/main",
            "job_workflow_ref": "acme/shop/.github/workflows/release.yml@refs/heads/main",
        },
        # What another repository, and another branch, have instead.
        "others": [
            {"sub": "repo:evil/shop:ref:refs/heads/main", "repository": "evil/shop", "repository_owner": "evil"},
            {"sub": "repo:acme/shop:ref:refs/heads/mine", "ref": "refs/heads/mine"},
        ],
        "name": "github:acme/shop",
    },
    "gitlab": {
        "issuer": "https://gitlab.com",
        "header": {"typ": "JWT"},
        "payload": {
            "sub": "project_path:acme/shop:ref_type:branch:ref:main", "namespace_id": "72", "namespace_path": "acme",
            "project_id": "20", "project_path": "acme/shop", "user_id": "1", "user_login": "ann", "user_access_level": "owner",
            "user_email": "ann@example.com", "pipeline_id": "574", "pipeline_source": "push", "job_id": "302", "ref": "main",
            "ref_type": "branch", "ref_path": "refs/heads/main", "ref_protected": "true", "runner_id": 1,
            "runner_environment": "gitlab-hosted", "sha": "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e",
            "project_visibility": "private", "ci_config_ref_uri": "gitlab.com/acme/shop//.gitlab-ci.yml@refs/heads/main",
            "client_id": None,
        },
        "others": [
            {"project_path": "evil/shop", "namespace_path": "evil"},
            {"ref": "mine", "ref_protected": "false", "ref_path": "refs/heads/mine"},
        ],
        "name": "gitlab:acme/shop",
    },
    "kubernetes": {
        "issuer": "https://kubernetes.default.svc.cluster.local",
        "header": {"typ": None},
        "payload": {
            "sub": "system:serviceaccount:shop:deployer", "client_id": None,
            "kubernetes.io": {
                "namespace": "shop", "node": {"name": "n1", "uid": "517eb86e-b863-451b-bf70-86cb61439a3a"},
                "pod": {"name": "release-7d8f", "uid": "0d8b260e-ef0e-45fb-be8e-ff44f97722e8"},
                "serviceaccount": {"name": "deployer", "uid": "e6a8680e-d103-4cce-80ea-03acbbeacf7d"},
                "warnafter": 1717674962,
            },
        },
        "others": [
            {
                "sub": "system:serviceaccount:other:deployer",
                "kubernetes.io": {"namespace": "other", "serviceaccount": {"name": "deployer"}},
            },
            {
                "sub": "system:serviceaccount:shop:default",
                "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "default"}},
            },
        ],
        "name": "kubernetes:system:serviceaccount:shop:deployer",
    },
}


class Pipelines(OidcProvider):
    """An oidc-provider that issues tokens in one of these shapes."""

    def __init__(self, name, *arguments):
        self.name = name
        super().__init__(*arguments)
        self.shape = SHAPES[name]
        self.audience = ""

    def document_of_the_page(self, root):
        """The document of the page that has the issuer of this shape, with the issuer of this machine instead."""
        with open(os.path.join(root, PAGE), encoding="utf-8") as page:
            blocks = re.findall(r"<<'END'\n(.*?)^END$", page.read(), re.M | re.S)
        found = [block for block in blocks if f"issuer: {self.shape['issuer']}\n" in block]
        assert len(found) == 1, f"{PAGE}: {len(found)} documents of {self.shape['issuer']}"
        self.audience = re.search(r"audiences: \[(.*?)\]", found[0]).group(1)
        return found[0].replace(self.shape["issuer"], self.issuer)

    def token(self, **changes):
        now = int(time.time())
        payload = {**self.shape["payload"], "aud": self.audience, "nbf": now - 5, "scope": None, **changes}
        self.bend({PIPELINE: {"header": self.shape["header"], "payload": payload}})
        return f"Bearer {self.program_token()}"


def pipelines_of(stage, root):
    """The document of the page gives its rights to the pipeline that it names, and to no other."""
    provider = stage.provider
    file = os.path.join(stage.directory, "provider.yaml")
    with open(file, "w", encoding="utf-8") as out:
        out.write(provider.document_of_the_page(root))
    status, printed = stage.run("apply", "-f", file, "--yes", token=stage.nodes.token)
    assert status == 0, printed
    page = Visitor().visit(f"{stage.nodes.public}/ui/sign-in")
    assert f"/ui/sso/{provider.name}/start" not in page.text, "people are led to an issuer of pipelines"
    token = provider.token()
    status, printed = stage.run("whoami", token=token)
    assert status == 0 and provider.shape["name"] in printed and "releaser" in printed, printed
    service = {"namespace": "shop", "name": f"of-{provider.name}"}
    answer = stage.nodes.ask("/naming/v1/services", [service], token=token)
    assert answer.status == 200, answer.text
    for other in provider.shape["others"]:
        answer = stage.nodes.ask("/naming/v1/services", [{**service, "name": "foreign"}], token=provider.token(**other))
        assert answer.status in (401, 403) and "401001" in answer.text, f"{other}: {answer.text}"
    answer = stage.nodes.ask("/auth/v1/user", token=provider.token(aud="https://another.example.com"))
    assert answer.status == 401 and "401004" in answer.text, answer.text
