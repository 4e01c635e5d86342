#!/usr/bin/env python3
"""Prints the rate limits of a service at each change, and reports that it has applied them.

Usage: follow_rules.py API NAMESPACE SERVICE TOKEN_FILE [LABEL=VALUE ...]
"""

import json
import sys
import time
import urllib.request

api, namespace, service, token_file, *labels = sys.argv[1:]
client = {"labels": dict(label.split("=", 1) for label in labels)}
with open(token_file, encoding="utf-8") as token:
    head = {"Authorization": token.read().strip()}


def post(path, body):
    """Returns the answer, or None for an empty one."""
    request = urllib.request.Request(api + path, json.dumps(body).encode(), head)
    with urllib.request.urlopen(request, timeout=70) as answer:
        text = answer.read()
    return json.loads(text) if text else None


revision = ""
while True:
    asked = {
        "type": "RATE_LIMIT",
        "service": {"namespace": namespace, "name": service, "revision": revision},
        "filter": {"caller": client},
        "timeout_ms": 30000,
    }
    try:
        # The node holds the request until something newer is live for this client.
        found = post("/v1/Discover", asked)
        if found["code"] == 200001:
            continue
        revision = found["service"]["revision"]
        for rule in found["rateLimit"]["rules"]:
            amounts = [amount["maxAmount"] for quota in rule["rules"] for amount in quota["amounts"]]
            print(rule["name"], "amounts", amounts, flush=True)
            # Here a program enforces the rule. Then it reports that it has done so, or why not.
            report = {"type": "RATE_LIMIT", "namespace": namespace, "name": rule["name"], "ok": True}
            post("/v1/Applied", report | {"client": client})
    except OSError as error:
        print("no answer, trying again:", error, flush=True)
        time.sleep(1)
