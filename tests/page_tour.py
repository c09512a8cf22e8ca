"""Clicks through the page in Chromium, on a simulated board, and keeps pictures: `python tests/page_tour.py FOLDER`.

`make browser` runs it where there is a Chromium. It ends with an error when a click does nothing,
when something runs over the edge of the screen, or when the browser has complained. With AXE=axe.min.js in the environment
(https://www.npmjs.com/package/axe-core) each view is checked by it too, and ends the tour with what it finds.
"""

import math
import os
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue

from browser import Browser

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.automation.clock import boottime, read_boot_id
from picoclaw.channels.dashboard.channel import DashboardChannel
from picoclaw.channels.dashboard.login import make_code
from picoclaw.config import load_config
from picoclaw.config.tables import BoardConfig
from picoclaw.daemon import status
from picoclaw.daemon.dashboard import DaemonBackend
from picoclaw.hw import detect
from picoclaw.messages import Inbound
from picoclaw.outputs import config as outputs_config
from picoclaw.records import replace
from picoclaw.store.inbox_outbox import OutboxMessage
from picoclaw.store.samples import ClockReading, SampleBlock, Samples, Series

OUTPUTS = """
[outputs.pump]
line = "GPIO17"
kind = "pump"
longest_on_s = 600
confirm = false

[outputs.grow_light]
line = "GPIO27"
kind = "light"
longest_on_s = 36000
confirm = false

[outputs.valve1]
line = "GPIO22"
kind = "valve"
longest_on_s = 600
"""
RULES = """
[rules.hot]
when = "greenhouse.temperature > 35 for 10 minutes"
notify = "The greenhouse is too hot"

[rules.water]
when = "every day at 6:00"
output = "valve1"
lasts = "5 minutes"
"""


def furnished(home):
    """An app on the simulated board with outputs, rules and two days of history."""
    os.environ["PICOCLAW_HOME"] = str(home)
    workspace.prepare_home(home)
    (home / "outputs.toml").write_text(OUTPUTS)
    (home / "rules.toml").write_text(RULES)
    (home / "workspace/memory/2026-11-20.md").write_text("# 2026-11-20\n\n- The pump's fuse is 5 A.\n")
    found = outputs_config.load_outputs(home / "outputs.toml").outputs
    outputs_config.save_armed(home, {name: found[name].digest for name in ("grow_light", "valve1")})
    config = replace(load_config(), board=BoardConfig("sim"))
    return App(config, detect.choose_board("sim", config))


def remember(app, values):
    """Write down two days that end with the values."""
    mono = boottime()
    blocks = []
    for number, value in enumerate(values):
        wave = [(n, math.sin(n / 144 * math.tau + number) + 0.12 * math.sin(n * 1.7)) for n in range(-282, 1)]
        points = [(mono + n * 600, value.value + (value.value * 0.05 + 0.2) * (y - wave[-1][1])) for n, y in wave]
        blocks.append(SampleBlock(Series(value.sensor, value.quantity), points))
    Samples(app.stores.history_database).keep(ClockReading(read_boot_id(), mono, datetime.now().astimezone()), blocks)


def answering(app, page, posted):
    """A desk of few words."""
    while arrived := posted.get():
        turn = app.dispatcher.answer(
            Inbound(arrived.key, arrived.text, arrived.origin, who=arrived.who), page.around(arrived)
        )
        page.answered(arrived, turn, turn.reply)


PHONE = (390, 844, "light", 2)
SAID = "document.querySelector('#said').textContent"


def check(browser, view):
    """Have axe look at what is shown, light and dark, at the size of a phone and of a desktop."""
    if not (path := os.environ.get("AXE")):
        return
    browser.js(f"{Path(path).read_text()}; 0")
    for width, height in ((390, 844), (1280, 800)):
        for scheme in ("light", "dark"):
            browser.screen(width, height, scheme)
            time.sleep(0.3)  # colours change slowly
            axe, passed, found = browser.js(
                "axe.run().then(f => [axe.version, f.passes.length, f.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 160))])])"
            )
            print(f"axe {axe}, {view}, {width}x{height} {scheme}: {passed} rules passed, {len(found)} violated", *found)
            FINDINGS.extend((view, width, scheme, *one) for one in found)
    browser.screen(*PHONE)


FINDINGS = []
OVERLAPS = """(boxes => boxes.some((box, n) => n && box.left < boxes[n - 1].right))(
    [...document.querySelectorAll("#past svg text[text-anchor=middle]")].map(text => text.getBoundingClientRect()))"""


def toured(browser, page, home, folder, back):
    """Do all that a person can; `back` has the page come back that was away."""
    enter(browser, page, home, folder)
    talk(browser, page, folder)
    look(browser, folder)
    switch(browser)
    assert not browser.troubles, browser.troubles
    browser.click("[data-go=chat]")
    page.stop()
    browser.until("document.querySelector('#line').textContent.startsWith('no connection')")
    check(browser, "away")
    back()
    browser.until("document.querySelector('#line').textContent == 'live'", 30)
    check(browser, "back")
    browser.troubles.clear()  # it complains of what did not answer
    browser.click("[data-go=plans]")
    browser.click("#logout")
    browser.until("!document.querySelector('#door').hidden")
    assert not browser.troubles, browser.troubles
    assert not FINDINGS, "\n".join(map(str, FINDINGS))


def enter(browser, page, home, folder):
    browser.screen(*PHONE)
    browser.do("Page.navigate", url=f"http://localhost:{page.port}/")
    browser.until("document.activeElement?.id == 'code'")
    browser.picture(folder / "login.webp")
    check(browser, "login")
    browser.write("wrong")
    browser.press("Enter", 13)
    browser.until("document.querySelector('#login-problem').textContent.includes('page code')")
    browser.js("document.querySelector('#code').value = ''")
    browser.write(make_code(home).lower())
    browser.press("Enter", 13)
    browser.until("document.querySelector('#line').textContent == 'live'")
    browser.troubles.clear()  # it complains of the answers 401 and 403


def talk(browser, page, folder):
    for text, answer in (
        ("how warm is it in the greenhouse?", "read just now"),
        ("what was the highest temperature in the greenhouse in the last 24 hours?", "max "),
        ("turn on the grow light for 2 hours", "grow_light is on"),
    ):
        browser.click("#text")
        browser.write(text)
        browser.click("#send")
        browser.until(f"{SAID}.includes('{answer}')")
    browser.click("#text")
    browser.write("chart of the temperature in the greenhouse in the last 24 hours")
    browser.click("#send")
    browser.until("document.querySelector('#said svg .mean')")
    assert browser.js("document.querySelector('#said svg').getBoundingClientRect().width > 200")
    browser.screen(*PHONE[:2], "dark", 2)
    browser.picture(folder / "chart-phone-dark.webp")
    browser.screen(*PHONE)
    check(browser, "chart")
    page.send(OutboxMessage(1, "page:home", "Reminder: look at the tank.", time.time()))
    browser.until(f"{SAID}.includes('Reminder: ')")
    browser.picture(folder / "chat-phone-light.webp")
    browser.click("#text")
    browser.write("open valve1 for 2 minutes")
    browser.click("#send")
    browser.until("document.querySelector('.question .main')")
    browser.picture(folder / "leave-phone-light.webp")
    check(browser, "question")
    browser.click(".question .main")
    browser.until(f"{SAID}.includes('valve1 is on')")
    browser.until("document.querySelector('.outcome')?.textContent.includes(': done')")
    browser.until("!document.querySelector('.question')")
    browser.do("Page.reload")
    browser.until("document.querySelector('.outcome')?.textContent.includes(': done')")
    browser.until("document.querySelector('#line').textContent == 'live'")
    assert not browser.js("document.querySelector('.question')")


def look(browser, folder):
    browser.click("[data-go=board]")
    browser.until("document.querySelector('#sensors svg')")
    check(browser, "board")
    browser.click("[data-key='on pump']")
    browser.until("document.querySelector('#switch').open")
    browser.picture(folder / "switch-phone-light.webp")
    check(browser, "switch")
    browser.click("#switch-form button")
    browser.until("document.querySelector('.notice.good')")
    browser.screen(*PHONE[:2], "dark", 2)
    browser.picture(folder / "board-phone-dark.webp")
    browser.click("[data-go=plans]")
    browser.click("[aria-label='Pause rule water']")
    browser.until("document.querySelector('[aria-label=\"Resume rule water\"]')")
    browser.until("!document.querySelector('.notice.good')", 12)
    browser.picture(folder / "plans-phone-dark.webp")
    browser.js("document.querySelectorAll('details.new').forEach(one => one.open = true)")
    browser.click("#find-notes input")
    browser.write("fuse")
    browser.press("Enter", 13)
    browser.until("document.querySelector('#notes li')")
    for kind, name in (("person", "ada"), ("agent", "garden")):
        browser.until(f"document.querySelector('[data-key=\"Add {kind}\"]')")
        browser.click(f"[data-key='Add {kind}']")
        browser.until("document.querySelector('#entry').open")
        browser.js(f"document.querySelector('#entry-form input').value = '{name}'")
        check(browser, f"add {kind}")
        browser.picture(folder / f"{kind}-phone-light.webp")
        browser.click("#entry-form button")
        browser.until(f"document.querySelector('[data-key=\"Edit {kind} {name}\"]')")
    check(browser, "plans")
    browser.js("document.querySelector('#household').scrollIntoView()")
    browser.picture(folder / "people-phone-light.webp")
    browser.click("#notes button")
    browser.until("document.querySelector('#note').open")
    check(browser, "note")
    browser.press("Escape", 27)
    browser.screen(*PHONE[:2], "dark", 2)
    browser.js("document.querySelector('#new-rule').scrollIntoView()")
    browser.picture(folder / "forms-phone-dark.webp")
    browser.js("document.querySelectorAll('details.new').forEach(one => one.open = false)")
    browser.screen(1280, 800, "dark")
    browser.picture(folder / "desktop-dark.webp")
    browser.screen(1280, 800, "light")
    browser.picture(folder / "desktop-light.webp")
    browser.click("#sensors button")
    browser.until("document.querySelector('#past svg')")
    browser.click("[data-hours='168']")
    browser.until("document.querySelector('#past .band')")
    browser.picture(folder / "past-desktop-light.webp")
    browser.js("document.querySelector('#past-other').value = 'cpu temperature'")
    browser.js("document.querySelector('#past-other').dispatchEvent(new Event('change'))")
    browser.until("document.querySelector('#past .other')")
    check(browser, "past")
    browser.screen(1280, 800, "light")
    browser.click("#past-earlier")
    browser.until("document.querySelector('#past-figures').textContent.includes('Nothing was measured')")
    browser.click("#past-later")
    browser.until("document.querySelector('#past-later').disabled")
    browser.screen(1280, 800, "light")
    browser.screen(320, 568, "light")
    for hours in (1, 24, 168, 720, 8760, 17520):
        browser.click(f"[data-hours='{hours}']")
        browser.until("document.querySelector('#past-figures').textContent != '…'")
        assert not browser.js(OVERLAPS), hours
    browser.screen(1280, 800, "light")
    browser.press("Escape", 27)
    browser.until("!document.querySelector('#past').open")


def switch(browser):
    browser.click("[aria-label='Switch grow_light off']")
    browser.until("!document.querySelector('[aria-label=\"Switch grow_light off\"]')")
    browser.click("#stop")
    browser.until("document.querySelector('.stopped')")
    check(browser, "stopped")
    browser.js("window.confirm = () => true")
    browser.click(".stopped button")
    browser.until("!document.querySelector('.stopped')")
    for view in ("chat", "board", "plans"):
        browser.screen(320, 568, "light")
        browser.click(f"[data-go={view}]")
        assert browser.js("document.documentElement.scrollWidth") == 320, view
        assert browser.js("document.documentElement.scrollHeight") == 568, view
        assert not browser.js(
            "[...document.querySelectorAll('button')].filter(one => one.offsetParent && one.offsetHeight < 44).length"
        )


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        app = furnished(home)
        app.changed = lambda approval: page.changed(approval)  # noqa: PLW0108 - there is no page yet
        house = DaemonBackend(
            app.config,
            app.wiring,
            app.context_builder.zone,
            app.mark,
            lambda: status.merge_status(
                {}, status.collect_offline_status(app.board, home, app.stores.database, app.now())
            ),
        )
        remember(app, house.readings())
        app.dispatcher.answer(Inbound("terminal", "remind me in 40 minutes to water the tomatoes"))
        app.dispatcher.answer(Inbound("terminal", "every day at 7:30 remind me to look at the tank"))
        browser = Browser(Path(place) / "profile")
        page, posted = DashboardChannel(house, home, "127.0.0.1", 0), SimpleQueue()
        page.start(posted.put)
        threading.Thread(target=answering, args=(app, page, posted), daemon=True).start()

        port = page.port

        def back():
            nonlocal page
            page = DashboardChannel(house, home, "127.0.0.1", port)
            page.start(posted.put)

        try:
            toured(browser, page, home, folder, back)
        finally:
            browser.close()
            page.stop()
            house.close()
    print("\n".join(f"{path.name} {path.stat().st_size // 1024} KB" for path in sorted(folder.glob("*.webp"))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
