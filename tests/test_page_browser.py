"""The page in a real Chromium, where there is one: what is sent while the board is away, and how questions end."""

import shutil
import time
from datetime import UTC

import pytest
from browser import Browser
from daemon_kit import until
from page_house import PaperHouse

from picoclaw.channels.dashboard.channel import DashboardChannel
from picoclaw.channels.dashboard.live import ChatEntry, ListRow, make_question
from picoclaw.channels.dashboard.login import make_code
from picoclaw.config import load_config
from picoclaw.config.tables import AgentConfig, PersonConfig
from picoclaw.daemon.dashboard import DaemonBackend
from picoclaw.messages import Notice, ToolCall, Turn, Usage
from picoclaw.store.approvals import Approval
from picoclaw.workspace import prepare_home

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        not (shutil.which("chromium") or shutil.which("chromium-browser")), reason="there is no Chromium here"
    ),
]
CALL = ToolCall("1", "exec", {"argv": ["reboot"]})
ASKED = ("page:home", "page:home", "web", "page:1", CALL, "exec", "exec.tainted = ask", "it is told to", "", {}, "", ())
KEPT = Approval(3, "a1b2c3d4e5f6", *ASKED, "exec\n  command: reboot", 1.0, 2e9)
TURN = Turn("", (), 0, (), Usage(), "", "command", Notice(""))
SAID = "document.querySelector('#said')?.textContent"
LIVE = "document.querySelector('#line')?.textContent == 'live'"


class Board:
    """A page that can go away and come back at its port, with a browser in front of it."""

    def __init__(self, home, browser):
        self.home, self.browser, self.house, self.posted, self.port = home, browser, PaperHouse(), [], 0
        self.back()

    def back(self):
        self.page = DashboardChannel(self.house, self.home, "127.0.0.1", self.port)
        self.page.start(self._post)
        self.port = self.page.port

    def _post(self, arrived):
        if arrived.external not in {one.external for one in self.posted}:
            self.posted.append(arrived)
            self.house.lines.append(ChatEntry("user", arrived.text, time.time()))

    def enter(self):
        self.browser.do("Page.navigate", url=f"http://localhost:{self.port}/")
        self.browser.until("document.activeElement?.id == 'code'")
        self.browser.write(make_code(self.home))
        self.browser.press("Enter", 13)
        self.browser.until(LIVE)

    def types(self, text):
        self.browser.click("#text")
        self.browser.write(text)
        self.browser.click("#send")

    def texts(self):
        return [one.text for one in self.posted]


@pytest.fixture
def board(tmp_path):
    browser = Browser(tmp_path / "profile")
    made = Board(tmp_path, browser)
    try:
        made.enter()
        yield made
    finally:
        made.page.stop()
        browser.close()


@pytest.mark.parametrize("reloads", [False, True])
def test_a_message_that_was_sent_while_the_board_was_away_arrives_once(board, reloads):
    browser = board.browser
    board.types("before")
    browser.until(f"{SAID}.includes('before')")
    board.page.stop()
    browser.until("document.querySelector('#line')?.textContent.startsWith('no connection')")
    board.types("water the figs")
    browser.until("document.querySelector('.failed button')?.textContent == 'Send again'")
    board.back()
    if reloads:
        browser.do("Page.reload")
    browser.until(f"{LIVE} && !document.querySelector('.failed')", 20)
    assert board.texts() == ["before", "water the figs"]
    browser.do("Page.reload")
    browser.until(LIVE)
    assert browser.js(f"{SAID}.split('water the figs').length") == 2
    assert board.texts() == ["before", "water the figs"]


def test_a_message_that_the_board_refuses_stays_until_it_is_sent_or_discarded(board):
    browser = board.browser
    board.page.stop()
    browser.until("document.querySelector('#line')?.textContent.startsWith('no connection')")
    board.types("never mind")
    browser.until("document.querySelectorAll('.failed button').length == 2")
    browser.click(".failed button:last-of-type")
    browser.until("!document.querySelector('.failed')")
    board.back()
    browser.until(LIVE, 20)
    assert board.texts() == []


def test_a_question_that_was_answered_stands_in_the_conversation_and_comes_up_no_more(board):
    browser = board.browser
    board.house.asked = [make_question(KEPT)]
    board.page.changed(KEPT)
    browser.until("document.querySelector('.question')")
    done = KEPT._replace(state="done", answered_by="telegram:7")
    board.house.asked = [make_question(done)]
    board.page.changed(done)
    for _ in range(2):
        browser.until("!document.querySelector('.question')")
        browser.until("document.querySelector('.outcome')?.textContent.includes('Number 3: done')")
        browser.do("Page.reload")
        browser.until(LIVE)
    assert browser.js("document.querySelectorAll('.outcome').length") == 1


def test_a_question_is_asked_in_plain_words_and_what_it_changes_is_shown_at_once(board):
    browser = board.browser
    asked = KEPT._replace(means="hot: when the greenhouse is above 35 °C: tell you", chat="terminal")
    board.house.asked = [make_question(asked)]
    board.page.changed(asked)
    browser.until("document.querySelector('.question p')?.textContent.startsWith('exec · hot: when')")
    assert not browser.js("document.querySelector('.question pre').checkVisibility()")
    assert "asked in a terminal" in browser.js("document.querySelector('.question').textContent")
    board.house.followed = [ListRow("new", "when the greenhouse is above 35 °C", command="/rule")]
    done = asked._replace(state="done", answered_by="terminal 520b4f7d.3")
    board.house.asked = []
    board.page.changed(done)
    browser.until("document.querySelector('.outcome')?.textContent.includes('done (answered at a terminal)')")
    browser.until("document.querySelector('#rules').textContent.includes('new')", 3)


def test_enter_sends_also_where_there_is_no_mouse(board):
    browser = board.browser
    assert not browser.js("matchMedia('(pointer: fine)').matches")
    browser.js("document.querySelector('#text').focus()")
    browser.write("how warm is it?")
    browser.press("Enter", 13)
    until(lambda: board.texts() == ["how warm is it?"])


def test_an_output_is_switched_for_a_time_as_a_command_of_the_chat_and_never_later(board):
    browser = board.browser
    board.house.away.clear()
    browser.screen(390, 844, "light")
    browser.click("[data-go=board]")
    browser.until("document.querySelector('[data-key=\"on pump\"]')", 15)
    assert "days ago" in browser.js("document.querySelector('#sensors .stale').textContent")
    browser.click("[data-key='on pump']")
    browser.until("document.querySelector('#switch').open")
    assert browser.js("document.querySelector('#switch-level').hidden")
    browser.js("document.querySelector('#switch-form').elements.time.value = '300s'")
    browser.click("#switch-form button")
    browser.until("!document.querySelector('#switch').open")
    until(lambda: board.texts() == ["/set pump on 300s"])
    board.page.around(board.posted[0])
    board.page.answered(board.posted[0], TURN, "pump is on for 5 min")
    browser.until("document.querySelector('.notice.good')?.textContent == 'pump is on for 5 min'")
    board.page.stop()
    browser.until("document.querySelector('#line')?.textContent.startsWith('no connection')")
    browser.click("[data-key='on pump']")
    browser.click("#switch-form button")
    browser.until("document.querySelector('.notice.bad')")
    board.back()
    browser.until(LIVE, 20)
    assert board.texts() == ["/set pump on 300s"]


def test_plans_are_paused_deleted_and_made(board):
    browser = board.browser
    browser.screen(390, 844, "light")
    browser.js("window.confirm = () => true")
    browser.click("[data-go=plans]")
    for label in ("Pause number 1", "Delete number 1", "Resume rule hot", "Delete rule hot"):
        browser.click(f"[aria-label='{label}']")
    until(lambda: len(board.posted) == 4)
    assert board.texts() == ["/job pause 1", "/job remove 1", "/rule resume hot", "/rule remove hot"]
    for when, field, value in (
        ("in", "minutes", "40"),
        ("tomorrow at", "time", "07:30"),
        ("every monday at", "time", "18:00"),
    ):
        browser.click("[data-go=plans]")
        form = "document.querySelector('#new-job')"
        browser.js(f"{form}.closest('details').open = true")
        browser.js(f"{form}.elements.what.value = 'look at the tank'")
        browser.js(f"{form}.elements.when.value = '{when}'; {form}.elements.when.dispatchEvent(new Event('change'))")
        browser.js(f"{form}.elements.{field}.value = '{value}'")
        browser.click("#new-job button")
        browser.until("document.body.dataset.view == 'chat'")
    browser.click("[data-go=plans]")
    form = "document.querySelector('#new-rule')"
    browser.js(f"{form}.closest('details').open = true")
    browser.js(f"{form}.elements.value.value = '30'; {form}.elements.minutes.value = '10'")
    browser.click("#new-rule button")
    until(lambda: len(board.posted) == 8)
    assert board.texts()[4:] == [
        "remind me in 40 minutes to look at the tank",
        "remind me tomorrow at 07:30 to look at the tank",
        "every monday at 18:00 remind me to look at the tank",
        "tell me when the porch temperature is above 30 for 10 minutes",
    ]


def test_another_agent_is_chosen(board):
    browser = board.browser
    browser.screen(390, 844, "light")
    browser.click("[data-go=plans]")
    assert "this board's own agent" in browser.js("document.querySelector('#agents').textContent")
    assert "answers in the chat" in browser.js("document.querySelector('#agents li').textContent")
    browser.click("[aria-label='Talk to garden']")
    until(lambda: board.texts() == ["/agent garden"])


def test_people_and_agents_are_added_changed_and_removed_with_the_keyboard(board, tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "home"))
    prepare_home(tmp_path / "home")
    real = DaemonBackend(load_config(), None, lambda: UTC, "", dict)
    board.house.list_household, board.house.change_household = real.list_household, real.change_household
    browser, focused = board.browser, "document.activeElement.dataset.key"

    def press(key):
        browser.js(f"document.querySelector('[data-key=\"{key}\"]').focus()")
        browser.press("Enter", 13)

    def fills(name, **values):
        browser.until(
            f"document.querySelector('#entry').open && document.querySelector('#entry-title').textContent == '{name}'"
        )
        for label, value in values.items():
            found = f"[...document.querySelectorAll('#entry label')].find(one => one.textContent.startsWith('{label}')).lastChild"
            browser.js(f"{found}.value = {value!r}")
        browser.js("document.querySelector('#entry-form button').focus()")
        browser.press("Enter", 13)

    browser.screen(390, 844, "light")
    browser.click("[data-go=plans]")
    browser.click("#household summary")
    browser.until("document.querySelector('[data-key=\"Add person\"]')")
    press("Add person")
    fills("Add person", its="Bob")
    browser.until("document.querySelector('#entry-said').textContent.includes('a name is small letters')")
    assert browser.js("document.querySelector('#entry').open")
    fills("Add person", its="bob", role="guest")
    browser.until("document.querySelector('#household-said').textContent.startsWith('bob is a guest')")
    assert browser.js(f"{focused} == 'Add person' && !document.querySelector('#entry').open")
    press("Edit person bob")
    browser.until("document.querySelector('#entry').open")
    assert browser.js("document.querySelector('#entry input').disabled")
    fills("Edit person bob", role="member", time="Asia/Tokyo")
    browser.until(
        f"{focused} == 'Edit person bob' && document.querySelector('#household').textContent.includes('bob member')"
    )
    assert load_config().people == {"bob": PersonConfig(time_zone="Asia/Tokyo")}
    press("Add agent")
    fills("Add agent", its="garden", people="bob")
    browser.until("document.querySelector('[data-key=\"Edit agent garden\"]')")
    assert load_config().agents == {"garden": AgentConfig(people=["bob"])}
    press("Edit person bob")
    fills("Edit person bob", agent="garden")
    browser.until(f"{focused} == 'Edit person bob' && !document.querySelector('#entry').open")
    browser.js("window.confirm = () => true")
    press("Remove agent garden")
    browser.until("document.querySelector('#household-said.bad')?.textContent.includes('bob')")
    press("Remove person bob")
    browser.until("document.querySelector('#household-said').textContent.startsWith('bob was removed')")
    assert (load_config().people, load_config().agents) == ({}, {"garden": AgentConfig(people=[])})
    press("Remove agent garden")
    browser.until("document.querySelector('#household-said').textContent.startsWith('garden was removed')")
    assert browser.js(f"{focused} == 'Add agent'")
    real.close()


def test_the_page_opens_without_the_board_and_says_so(board):
    browser = board.browser
    browser.until("navigator.serviceWorker.controller", 20)
    board.page.stop()
    browser.do("Page.reload")
    browser.until("document.querySelector('#line')?.textContent.startsWith('no connection')", 20)
    assert browser.js("document.querySelector('#name').textContent") == "shed"
    assert "cannot be reached" in browser.js(SAID)
    board.types("water the figs")
    board.back()
    browser.until(f"{LIVE} && !document.querySelector('.failed')", 20)
    assert board.texts() == ["water the figs"]


def test_a_keyboard_reaches_an_output_and_comes_back_to_it(board):
    browser = board.browser
    focused = "document.activeElement.dataset.key"
    board.house.away.clear()
    browser.screen(1280, 800, "light")
    browser.until("document.querySelector('[data-key=\"on pump\"]')", 15)
    for _ in range(12):
        if browser.js(focused) == "on pump":
            break
        browser.press("Tab", 9)
    browser.press("Enter", 13)
    browser.until("document.querySelector('#switch').contains(document.activeElement)")
    browser.press("Escape", 27)
    browser.until(f"{focused} == 'on pump'")
    browser.press("Enter", 13)
    while browser.js("document.activeElement.className") != "main":
        browser.press("Tab", 9)
    browser.press("Enter", 13)
    until(lambda: board.texts() == ["/set pump on 600s"])
    board.house.away["pump"] = 300.0
    browser.until(f"{focused} == 'off pump'", 20)


def test_a_chart_of_blocks_is_a_picture_in_the_conversation_and_other_code_is_not(board):
    rows = "  18.2 ┤ ▂█\n       ┤▁█  ▃\n  16.0 ┤██  ██\n        03:08  04:08"
    board.house.lines.append(ChatEntry("assistant", f"The day:\n```\n{rows}\n```\nand\n```\n1 ┤ x\n```", time.time()))
    browser = board.browser
    browser.troubles.clear()  # it complains of what was asked before the login
    browser.do("Page.reload")
    browser.until("document.querySelector('#said svg')")
    label = "Chart, 16 to 18.2, 03:08 to 04:08"
    assert browser.js("document.querySelector('#said svg').getAttribute('aria-label')") == label
    points = browser.js("document.querySelector('#said svg .mean').getAttribute('points')").split()
    assert len(points) + browser.js("[...document.querySelectorAll('#said svg .mean')].length") >= 5
    assert browser.js("[...document.querySelectorAll('#said pre')].map(one => one.textContent)") == ["1 ┤ x"]
    texts = browser.js("[...document.querySelectorAll('#said svg text')].map(one => one.textContent)")
    assert texts[-2:] == ["03:08", "04:08"]
    assert not browser.troubles


def test_notes_are_found_and_opened(board):
    browser = board.browser
    browser.click("[data-go=plans]")
    browser.click("#find-notes input")
    browser.write("fuse")
    browser.press("Enter", 13)
    browser.until("document.querySelector('#notes li')?.textContent.includes('2026-11-20')")
    assert browser.js("document.querySelector('#notes-found').textContent") == "1 found"
    browser.click("#notes button")
    browser.until("document.querySelector('#note').open")
    assert "5 A" in browser.js("document.querySelector('#note-text').textContent")
