"""An Envoy, as it is published: proxy.py BOOTSTRAP DIRECTORY [--sotw]

BOOTSTRAP is one that `thuban xds bootstrap envoy` wrote; with --sotw its streams are those of the state of the world.
The log is left in DIRECTORY. It is driven by lines, see driven.py:

    {"op": "call", "port": P, "host": "pay.shop", "times": 20, "method": "GET", "path": "/a?b=c", "headers": {"k": "v"}}
    {"op": "flow", "name": N, "port": P, …}, {"op": "seen", "name": N}, {"op": "stop", "name": N}
    {"op": "state"}                   /ready, names and versions of its resources, and faults of refused ones
    {"op": "stats", "filter": REGEX}  counters and gauges
    {"op": "endpoints"}               per cluster and address: health, priority, weight
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from driven import Flows, Tally, ends_with_parent, serve

START_LIMIT_S = 30


class Envoy:
    def __init__(self, bootstrap, directory, is_sotw):
        with open(bootstrap, encoding="utf-8") as file:
            text = file.read()
        if is_sotw:
            assert "DELTA_GRPC" in text, "the bootstrap asks for no delta streams"
            text = text.replace("DELTA_GRPC", "GRPC")
        suffix = "json" if text.lstrip().startswith("{") else "yaml"
        config, admin = os.path.join(directory, f"envoy.{suffix}"), os.path.join(directory, "admin")
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        if os.path.exists(admin):
            os.remove(admin)
        with open(os.path.join(directory, "envoy.log"), "wb") as log:
            command = [os.path.join(os.path.dirname(sys.executable), "envoy"), "-c", config, "--admin-address-path"]
            command += [admin, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "info"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=ends_with_parent)
        self.admin = self.address(admin)
        self.connections, self.flows = {}, Flows(self.once)

    def address(self, file):
        """Envoy writes where it is administered once it listens there."""
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise SystemExit(f"Envoy ended with {self.process.returncode}")
            if os.path.exists(file) and os.path.getsize(file):
                with open(file, encoding="utf-8") as text:
                    return text.read().strip()
            time.sleep(0.01)
        raise SystemExit("Envoy tells no address of its administration")

    def ask(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=20) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def connection(self, flow, port):
        key = (flow, port)
        if key not in self.connections:
            self.connections[key] = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        return self.connections[key]

    def once(self, tally, port, host, method="GET", path="/", headers=None, flow=None):
        connection = self.connection(flow, port)
        try:
            connection.request(method, path, headers={"Host": host, **(headers or {})})
            answer = connection.getresponse()
            body = answer.read().decode()
            if answer.status == 200:
                tally.answered(body)
            else:
                tally.failed(str(answer.status), body)
        except (OSError, http.client.HTTPException) as error:
            tally.failed(type(error).__name__, str(error))
            connection.close()

    def call(self, times=1, **what):
        tally = Tally()
        for _ in range(times):
            self.once(tally, **what)
        return tally.told()

    def flow(self, name, **what):
        self.flows.start(name, flow=name, **what)

    def state(self):
        dump = json.loads(self.ask("/config_dump?include_eds"))
        resources, faults = [], []
        for part in dump.get("configs", []):
            for key, kept in part.items():
                if isinstance(kept, list) and key.startswith("dynamic"):
                    for one in kept:
                        read(key, one, resources, faults)
        return {"ready": self.ask("/ready").strip(), "resources": resources, "faults": faults}

    def stats(self, **what):
        asked = urllib.parse.quote(what["filter"])
        lines = self.ask(f"/stats?format=json&filter={asked}")
        return {one["name"]: one["value"] for one in json.loads(lines)["stats"] if "value" in one}

    def endpoints(self):
        told = {}
        for cluster in json.loads(self.ask("/clusters?format=json")).get("cluster_statuses", []):
            rows = told.setdefault(cluster["name"], {})
            for host in cluster.get("host_statuses", []):
                at = host["address"]["socket_address"]
                rows[f"{at['address']}:{at['port_value']}"] = {
                    "health": host.get("health_status", {}),
                    "priority": host.get("priority", 0),
                    "weight": host.get("weight", 0),
                }
        return told


def read(key, one, resources, faults):
    """A row of /config_dump: a listener has its states inside."""
    if "error_state" in one:
        faults.append(one["error_state"].get("details", ""))
    held = one.get("active_state", one)
    content = next((held[part] for part in ("cluster", "listener", "route_config", "endpoint_config") if part in held), None)
    if content is not None:
        name = content.get("name") or content.get("cluster_name", "")
        state = "warming" if "warming" in key or "warming_state" in one else "active"
        row = {"type": content.get("@type", "").rsplit(".", 1)[-1], "name": name, "state": state}
        resources.append({**row, "version": held.get("version_info", ""), "content": content})


def main(options):
    envoy = Envoy(options.bootstrap, options.directory, options.sotw)
    serve(
        {
            "call": envoy.call,
            "flow": envoy.flow,
            "seen": envoy.flows.seen,
            "stop": envoy.flows.stop,
            "state": envoy.state,
            "stats": envoy.stats,
            "endpoints": envoy.endpoints,
        }
    )
    envoy.process.kill()
    envoy.process.wait()


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser()
    PARSER.add_argument("bootstrap")
    PARSER.add_argument("directory")
    PARSER.add_argument("--sotw", action="store_true")
    main(PARSER.parse_args())
