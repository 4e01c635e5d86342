#!/usr/bin/env python3
"""Registers an instance, sends a heartbeat every second, and deregisters at SIGTERM.

Usage: heartbeat.py API NAMESPACE SERVICE HOST:PORT TOKEN_FILE
"""

import json
import signal
import sys
import time
import urllib.error
import urllib.request

api, namespace, service, address, token_file = sys.argv[1:]
host, port = address.rsplit(":", 1)
name = {"namespace": namespace, "service": service, "host": host, "port": int(port)}
more = {"protocol": "http", "health_check": {"heartbeat": {"ttl": 1}}}


def call(path, body):
    """Returns the code of the answer."""
    # Read each time, so that a new token counts at once.
    with open(token_file, encoding="utf-8") as file:
        head = {"Authorization": file.read().strip()}
    request = urllib.request.Request(api + path, json.dumps(body).encode(), head)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)["code"]
    except urllib.error.HTTPError as refusal:
        return json.load(refusal)["code"]


signal.signal(signal.SIGTERM, lambda *_: sys.exit(call("/v1/DeregisterInstance", name) != 200000))
while True:
    try:
        # 400202: the node does not know the instance. That is the first start, or it was deleted.
        if call("/v1/Heartbeat", name) == 400202:
            print("registered, code", call("/v1/RegisterInstance", name | more), flush=True)
    except (OSError, ValueError) as error:
        print("no answer, trying again:", error, flush=True)
    time.sleep(1)
