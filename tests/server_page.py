"""Helpers for tests of the server's page in a browser."""

import json
from urllib.parse import urlencode

import pytest

import browser

IN_BROWSER = [
    pytest.mark.more,
    pytest.mark.skipif(
        browser.CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
    ),
]


def assert_no_errors(tab, port):
    """Checks that there were no requests to other hosts, script errors or policy violations."""
    for name, event in tab.events:
        if name == "Network.requestWillBeSent":
            assert event["request"]["url"].startswith(f"http://127.0.0.1:{port}/")
        assert name not in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")
        assert name != "Runtime.consoleAPICalled"
        if name == "Log.entryAdded":  # The browser logs error answers too.
            assert event["entry"]["source"] == "network"
    tab.events.clear()


class Page:
    """The page in a tab: a user's actions, and the visible texts."""

    def __init__(self, tab, port):
        self.tab = tab
        self.address = f"http://127.0.0.1:{port}/"

    def open(self, **state):
        self.tab.open(self.address + (f"#{urlencode(state)}" if state else ""))
        self.wait()

    def wait(self):
        self.tab.wait_for("document.body?.ariaBusy === 'false'")

    def enter(self, ctrl=False, **texts):
        """Types into the fields of the form and presses Enter, or Ctrl and Enter."""
        for name, text in texts.items():
            self.tab.click(f"document.querySelector('#{name}')")
            self.tab.evaluate("document.activeElement.select()")
            self.tab.press("Backspace")
            self.tab.type(text)
        self.tab.press("Enter", ctrl)
        self.wait()

    def texts(self, selector):
        query = f"document.querySelectorAll({json.dumps(selector)})"
        return self.tab.evaluate(f"[...{query}].map((one) => one.textContent)")

    def message(self):
        return self.tab.evaluate("document.querySelector('#message:not([hidden])')?.textContent")
