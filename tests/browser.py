"""A headless Chromium, led by its debugging protocol over a pipe: https://chromedevtools.github.io/devtools-protocol/."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class Browser:
    """One tab. `troubles` are what it has complained of since."""

    def __init__(self, profile):
        heard, write = os.pipe()
        read, said = os.pipe()
        self._in, self._out = write, read

        def hand_over():
            spare = os.dup(heard), os.dup(said)
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        name = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
        self._process = subprocess.Popen(
            [name, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=hand_over,  # noqa: PLW1509 - to be made before any thread is
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(heard)
        os.close(said)
        self._numbers, self._rest, self._tab, self.troubles = itertools.count(1), b"", {}, []
        tabs = self.do("Target.getTargets")["targetInfos"]
        target = next(tab["targetId"] for tab in tabs if tab["type"] == "page")
        self._tab = {"sessionId": self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for room in ("Page", "Runtime", "Log"):
            self.do(f"{room}.enable")

    def do(self, method, **given):
        number = next(self._numbers)
        os.write(self._in, json.dumps({"id": number, "method": method, "params": given} | self._tab).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            if answer.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.troubles.append(json.dumps(answer["params"]))
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self):
        while b"\0" not in self._rest:
            assert select.select([self._out], [], [], 30)[0], "the browser is silent"
            self._rest += os.read(self._out, 1 << 20)
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def js(self, code):
        answer = self.do("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, code, seconds=10):
        end = time.monotonic() + seconds
        while not self.js(f"!!({code})"):
            assert time.monotonic() < end, code
            time.sleep(0.05)

    def click(self, selector):
        """Click where it is, as a finger does; what covers it gets the click."""
        spot = f"document.querySelector({json.dumps(selector)})"
        self.js(f"{spot}.scrollIntoView({{block: 'center'}})")
        x, y = self.js(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({spot}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def write(self, text):
        self.do("Input.insertText", text=text)

    def screen(self, width, height, scheme, scale=1):
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        time.sleep(0.3)
        shot = self.do("Page.captureScreenshot", format="webp", quality=80)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self._process.terminate()
        self._process.wait()
