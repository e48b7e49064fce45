"""A headless Chromium, driven over its DevTools protocol; for tests and for `benchmarks/board.py`."""

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *("--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--enable-precise-memory-info", "--js-flags=--expose-gc"),
)


def find_chromium() -> str | None:
    """The program, or None; the variable CHROMIUM names another."""
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in a browser of its own.

    Attributes:
        messages: what the page wrote to its console, and exceptions that nobody caught.
        dialogs: texts of alerts that the page opened.
    """

    def __init__(self, width: int = 1280, height: int = 900, dark: bool = False, patience: float = 60.0) -> None:
        """Starts the browser.

        Args:
            width: of the page in pixels.
            height: of the page in pixels.
            dark: whether the user prefers dark pages.
            patience: seconds to wait for anything.
        """
        from websockets.sync.client import connect

        self._stack = contextlib.ExitStack()
        self._folder = tempfile.TemporaryDirectory(prefix="rein-browser-")
        self._patience = patience
        program = find_chromium()
        assert program is not None
        self.process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._numbers = itertools.count(1)
        self.messages: list[str] = []
        self.dialogs: list[str] = []
        try:
            port, path = self._address()
            self._socket = self._stack.enter_context(connect(f"ws://127.0.0.1:{port}{path}", max_size=None))
            self._session: str | None = None
            target = next(one for one in self._call("Target.getTargets")["targetInfos"] if one["type"] == "page")
            attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Performance"):
                self._call(f"{domain}.enable")
            self.resize(width, height)
            preference = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            self._call("Emulation.setEmulatedMedia", features=[preference])
        except BaseException:
            self.close()
            raise

    def _address(self) -> list[str]:
        end = time.monotonic() + self._patience
        file = Path(self._folder.name) / "DevToolsActivePort"
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                lines = file.read_text().split("\n")
                if len(lines) == 2:
                    return lines
            time.sleep(0.05)
        raise TimeoutError("the browser did not start")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the browser."""
        with contextlib.suppress(Exception):
            self._session = None
            self._call("Browser.close")
            self._stack.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for _ in range(20):  # Its helpers may still write.
            with contextlib.suppress(OSError):
                self._folder.cleanup()
                return
            time.sleep(0.1)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=self._patience))
            self._note(answer)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["message"])
            closing = {"id": next(self._numbers), "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
            self._socket.send(json.dumps({**closing, "sessionId": self._session}))
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.messages.append(parameters["entry"]["text"])

    def resize(self, width: int, height: int) -> None:
        """Changes the size of the page."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def open(self, url: str) -> None:
        """Goes to an address."""
        self._call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, or of what it promises."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of an expression once it is true."""
        end = time.monotonic() + self._patience
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):  # The page may be on its way to another.
                value = self.evaluate(script)
                if value:
                    return value
            time.sleep(0.05)
        raise TimeoutError(f"{script} did not become true; the page says {self.messages}")

    def press(self, key: str) -> None:
        """Presses a key."""
        text = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def move_pointer(self, x: float, y: float) -> None:
        """Moves the pointer over the page."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Writes a picture of what is seen, or of the whole page."""
        options: dict[str, Any] = {"captureBeyondViewport": True} if whole else {}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png", **options)["data"]))

    def metrics(self) -> dict[str, float]:
        """What the browser measures of the page, such as JSHeapUsedSize in bytes and Nodes."""
        self._call("HeapProfiler.collectGarbage")
        return {one["name"]: one["value"] for one in self._call("Performance.getMetrics")["metrics"]}
