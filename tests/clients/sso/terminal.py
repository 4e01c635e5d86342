"""A command in a terminal of its own, read while it runs."""

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time

LIMIT_S = 60
CTRL_C = b"\x03"


def has_terminal():
    """In the child: what is pressed in the terminal becomes its signals."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Command:
    def __init__(self, command, environment):
        master, terminal = pty.openpty()
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            command, stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, **environment}, close_fds=True,
            preexec_fn=has_terminal,
        )
        os.close(terminal)
        self.master = master
        self.printed = ""

    def read(self, deadline):
        """Reads what is there; returns False at the end of the output."""
        ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing more within {LIMIT_S} s: {self.printed}")
        try:
            data = os.read(self.master, 4096)
        except OSError:  # the other end is closed
            return False
        self.printed += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)

    def find(self, pattern):
        """The first match in the output, waited for."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := re.search(pattern, self.printed)):
            if not self.read(deadline):
                raise AssertionError(f"no {pattern!r} in: {self.printed}")
        return found

    def press(self, key):
        os.write(self.master, key)

    def end(self):
        """The exit code and the output."""
        deadline = time.monotonic() + LIMIT_S
        while self.read(deadline):
            pass
        return self.process.wait(LIMIT_S), self.printed

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
