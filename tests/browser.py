"""Drives a headless Chromium through its DevTools protocol, over a pair of pipes."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium")


class Browser:
    """One tab. Events of the protocol are collected in `events`, as (name, parameters)."""

    def __init__(self, send_to, receive_from):
        self.events = []
        self._send_to, self._receive_from = send_to, receive_from
        self._num_sent = 0
        self._received = b""
        self._session = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Sends a command; returns the browser's answer."""
        self._num_sent += 1
        message = {"id": self._num_sent, "method": method, "params": parameters, **self._session}
        os.write(self._send_to, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._num_sent:
            self.events.append((answer["method"], answer["params"]))
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self, timeout=30):
        while b"\0" not in self._received:
            if not select.select([self._receive_from], [], [], timeout)[0]:
                raise TimeoutError(f"The browser has been silent for {timeout} s.")
            chunk = os.read(self._receive_from, 1 << 20)
            if not chunk:
                raise EOFError("The browser has closed.")
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def open(self, url):
        """Opens a page; reloads it even if only the hash of the address changes."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def wait_for(self, expression, timeout=30):
        """Returns the value of the expression as soon as it is true."""
        deadline = time.monotonic() + timeout
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} has not become true.")
            time.sleep(0.02)
        return value

    def type(self, text):
        """Types into the focused element."""
        self.call("Input.insertText", text=text)

    def click(self, element):
        """Clicks on an element, which is given as a JavaScript expression."""
        self.evaluate(f"({element}).scrollIntoView({{block: 'center', inline: 'center'}})")
        box = self.evaluate(f"({element}).getBoundingClientRect().toJSON()")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            mouse = {"type": kind, "button": "left", "clickCount": 1, **place}
            self.call("Input.dispatchMouseEvent", **mouse)


@contextlib.contextmanager
def running(profile):
    """Yields a `Browser` with its files in the folder `profile`; closes it afterwards."""
    to_read, send_to = os.pipe()
    receive_from, to_write = os.pipe()
    # Chromium reads commands from descriptor 3, and writes answers to 4.
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += ["--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    redirected = f'exec "$0" "$@" 3</dev/fd/{to_read} 4>/dev/fd/{to_write}'
    process = subprocess.Popen(
        ["sh", "-c", redirected, CHROMIUM, *options],
        pass_fds=[to_read, to_write],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(to_write)
    try:
        yield Browser(send_to, receive_from)
    finally:
        os.close(send_to)  # Chromium exits when this pipe is closed.
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(receive_from)
