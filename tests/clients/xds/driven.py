"""Conversation of a test with a program that it drives: a line of JSON asks, a line of JSON answers.

The program ends when nobody asks any more, and whatever it has started ends with it.
"""

import ctypes
import json
import signal
import sys
import threading
from collections import Counter

PR_SET_PDEATHSIG = 1


def serve(operations):
    """Answers each line by the operation that its `op` names; an exception is an answer too."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = operations[asked.pop("op")](**asked) or {}
        except Exception as error:  # pylint: disable=broad-exception-caught
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def ends_with_parent():
    """For the child of a program that may be killed: it gets SIGKILL then."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Tally:
    """Results of calls: how many each server answered, and how many failed how."""

    def __init__(self):
        self.answers, self.errors, self.texts = Counter(), Counter(), {}

    def answered(self, by):
        self.answers[by] += 1

    def failed(self, kind, text):
        self.errors[kind] += 1
        self.texts[kind] = text

    def told(self):
        return {"answers": dict(self.answers), "errors": dict(self.errors), "texts": self.texts}


class Flows:
    """Calls that go on in threads of their own until they are stopped."""

    def __init__(self, call):
        self.call, self.running = call, {}

    def start(self, name, pause_s=0.005, **what):
        ends, tally = threading.Event(), Tally()

        def run():
            while not ends.wait(pause_s):
                self.call(tally, **what)

        thread = threading.Thread(target=run, daemon=True)
        self.running[name] = (thread, ends, tally)
        thread.start()

    def stop(self, name):
        thread, ends, tally = self.running.pop(name)
        ends.set()
        thread.join()
        return tally.told()

    def seen(self, name):
        """Results so far."""
        return self.running[name][2].told()
