"""Holds Kubernetes manifests to the schemas of Kubernetes' own API, and prints all of them as one list in JSON.

Arguments: the versions of Kubernetes, separated by commas, and the files. What a schema does not know is an error.
"""

import json
import sys

import kubernetes_validate
import yaml

versions, files = sys.argv[1].split(","), sys.argv[2:]
documents = []
for file in files:
    with open(file, encoding="utf-8") as text:
        documents += [document for document in yaml.safe_load_all(text) if document is not None]
for document in documents:
    # What only the client reads is not in the API.
    if not document["apiVersion"].startswith("kustomize."):
        for version in versions:
            kubernetes_validate.validate(document, version, strict=True)
print(json.dumps(documents))
