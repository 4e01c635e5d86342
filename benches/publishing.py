"""A steady load of large publishes and small updates on a cluster, and what became of each write."""

import http.client
import json
import os
import threading
import time

CONTENT_BYTES = 100_000
REQUEST_LIMIT_S = 15


class Connection:
    """One kept connection to a surface; opened anew when it broke."""

    def __init__(self, address, token=None):
        self.address = address
        self.token = token
        self.http = None

    def send(self, method, path, body=None):
        """Status and decoded body; `None` and the error where there was no answer."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = self.token
        try:
            if self.http is None:
                self.http = http.client.HTTPConnection(self.address, timeout=REQUEST_LIMIT_S)
            self.http.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self.http.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return None, str(error)
        try:
            return answer.status, json.loads(text) if text else {}
        except ValueError:
            return answer.status, text

    def close(self):
        if self.http is not None:
            self.http.close()
            self.http = None


def content():
    """Text that no compression makes smaller by much."""
    return os.urandom(CONTENT_BYTES // 2).hex()


def publish(connection, file):
    """The business code of writing a file and publishing it at once; 0 without an answer."""
    body = {"namespace": "default", "group": "large", "file_name": file, "content": content()}
    _, answer = connection.send("POST", "/config/v1/configfiles/createandpub", body)
    return answer.get("code", 0) if isinstance(answer, dict) else 0


def update(connection, number):
    """The business code of changing one of the cluster's services."""
    body = [{"namespace": "bench", "name": f"service-{number}", "comment": os.urandom(20).hex()}]
    _, answer = connection.send("PUT", "/naming/v1/services", body)
    return answer.get("code", 0) if isinstance(answer, dict) else 0


class Load:
    """Workers that each repeat `work(connection, number)` at a pace, and count the codes that came."""

    def __init__(self):
        self.codes = {}
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.threads = []

    def add(self, addresses, token, pause_s, work):
        thread = threading.Thread(target=self.run, args=(addresses, token, pause_s, work), daemon=True)
        thread.start()
        self.threads.append(thread)

    def run(self, addresses, token, pause_s, work):
        connections = [Connection(address, token) for address in addresses]
        number = 0
        due = time.monotonic()
        while not self.stopped.wait(max(0, due - time.monotonic())):
            due = max(due + pause_s, time.monotonic() - pause_s)
            code = work(connections[number % len(connections)], number)
            number += 1
            with self.lock:
                self.codes[code] = self.codes.get(code, 0) + 1
        for connection in connections:
            connection.close()

    def counted(self):
        with self.lock:
            return dict(self.codes)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        return self.counted()
