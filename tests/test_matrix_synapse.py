"""The Matrix channel against a real homeserver; `make matrix` installs one, elsewhere these are skipped."""

import itertools
import re
import time
from contextlib import closing

import pytest
from daemon_kit import until
from matrix_kit import Board
from synapse_server import LIMITS, PYTHON, SynapseServer, quote

from picoclaw.channels import matrix as matrix_channel
from picoclaw.channels.matrix import ENCRYPTED, HOW_TO_ANSWER, NOT_FOR_YOU
from picoclaw.channels.pairing import Pairing
from picoclaw.channels.polled import Timing
from picoclaw.messages import Text, ToolCall
from picoclaw.store.approvals import Approval

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(not PYTHON.exists(), reason="no Synapse here: make matrix installs one"),
]
TIMING = Timing(hold=1, grace=10, first=0.05, longest=0.3, wait=20, between=0, in_groups=0)
NUMBERS = itertools.count(1)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with SynapseServer(tmp_path_factory.mktemp("synapse")) as running:
        running.ann, running.bob, running.eve = (running.register(name) for name in ("ann", "bob", "eve"))
        yield running


@pytest.fixture
def pico(server):
    """An account of its own: Synapse answers the first look of one for two minutes from memory."""
    return server.register(f"pico{next(NUMBERS)}")


@pytest.fixture
def board(tmp_path, server, pico):
    with Board(tmp_path / "home", server.url, pico.token, [server.bob.user], server.ann.user, TIMING) as made:
        until(lambda: made.channel.status().up)
        yield made


def is_text(text):
    return lambda event: event["sender"].startswith("@pico") and event["content"].get("body") == text


def make_room(person, pico, *others, **more):
    room = person.create_room([pico.user, *(one.user for one in others)], **more)
    for one in others:
        one.call("POST", f"join/{quote(room)}", {})
    person.wait(room, lambda event: event.get("state_key") == pico.user and event["content"]["membership"] == "join")
    return room


def test_text_both_ways_with_pairing(tmp_path, server, pico):
    ann = server.ann
    with (
        Board(tmp_path / "home", server.url, pico.token, timing=TIMING) as board,
        closing(Pairing("matrix", board.home)) as people,
    ):
        board.reply = "answer to {}.".format
        until(lambda: board.channel.status().up)
        code = people.offer()
        room = make_room(ann, pico, is_direct=True)
        ann.say(room, code)
        ann.wait(room, is_text("Paired. What you write here goes to this board."))
        event = ann.say(room, "how warm is it?")
        ann.wait(room, is_text("answer to how warm is it?."))
        (came,) = board.posted
        assert (came.key, came.text, came.who, came.origin, came.external) == (
            f"matrix:{room}",
            "how warm is it?",
            f"matrix:{ann.user}",
            "owner",
            event,
        )
        assert board.channel.owner_chat() == f"matrix:{room}"
        assert people.people() == {ann.user: f"ann ({ann.user})"}
        board.put(f"matrix:{room}", "**bold** & `x<y`\n\n- [a](https://example.org)")
        found = ann.wait(room, lambda one: one["content"].get("format") == "org.matrix.custom.html")
        html = '<strong>bold</strong> &amp; <code>x&lt;y</code><br><br>• <a href="https://example.org">a</a>'
        assert found["content"]["formatted_body"] == html
        until(
            lambda: any(
                pico.user in one.get(event, {}).get("m.read", {}) for one in find_ephemeral(ann, room, "m.receipt")
            )
        )


def find_ephemeral(person, room, kind):
    """Give what a room shows of the moment: read marks, and who types."""
    person.sync()
    return [one["content"] for one in person.ephemeral.get(room, []) if one["type"] == kind]


def test_a_strangers_invitation_is_declined(board, server, pico):
    room = server.eve.create_room([pico.user])
    declined = server.eve.wait(
        room,
        lambda event: event.get("state_key") == pico.user and event["content"]["membership"] == "leave",
    )
    assert declined["content"]["reason"] == NOT_FOR_YOU


def test_threads_edits_replies_and_groups(board, server, pico):
    ann, bob, eve = server.ann, server.bob, server.eve
    board.reply = "answer to {}.".format
    room = make_room(ann, pico, bob, eve)
    mention = {"m.mentions": {"user_ids": [pico.user]}}
    begin = ann.say(room, "please begin", **mention)
    eve.say(room, "pump on", **mention)
    bob.say(room, "pump off", **mention)
    ann.say(room, "just talking")
    thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": begin, "is_falling_back": True}}
    inside = ann.say(room, "in it", **thread, **mention)
    new = {"m.new_content": {"msgtype": "m.text", "body": "in it, edited", **mention}}
    ann.say(room, "* in it, edited", **new, **{"m.relates_to": {"rel_type": "m.replace", "event_id": inside}})
    until(lambda: len(board.posted) == 4)
    first, guest, threaded, edited = board.posted
    assert (guest.origin, guest.text) == ("guest", f"[from bob ({bob.user})]\npump off")
    assert (threaded.key, edited.key) == (f"matrix:{room}:{begin}",) * 2
    assert edited.text == "[edited]\nin it, edited"
    answer = ann.wait(room, is_text("answer to in it."))
    assert answer["content"]["m.relates_to"]["rel_type"] == "m.thread"
    answer = ann.wait(room, is_text("answer to please begin."))
    assert answer["content"]["m.relates_to"] == {"m.in_reply_to": {"event_id": first.external}}
    ann.say(room, "really?", **{"m.relates_to": {"m.in_reply_to": {"event_id": answer["event_id"]}}})
    until(lambda: len(board.posted) == 5)
    assert "answer to please begin." in board.posted[4].text


def test_files_both_ways(board, server, pico):
    ann = server.ann
    room = make_room(ann, pico)
    uploaded = ann.call("POST", "upload?filename=leaf.png", PNG, "/_matrix/media/v3/")
    address = uploaded.decode().split('"')[3]
    ann.send(room, {"msgtype": "m.image", "body": "leaf.png", "url": address, "info": {"size": len(PNG)}})
    until(lambda: board.posted)
    (path,) = board.posted[0].attachments
    assert (board.home / "workspace" / path).read_bytes() == PNG
    board.put(f"matrix:{room}", f"here:\n![the leaf]({path})")
    found = ann.wait(room, lambda event: event["content"].get("msgtype") == "m.image" and event["sender"] == pico.user)
    media = found["content"]["url"].removeprefix("mxc://")
    assert ann.call("GET", f"download/{media}", None, "/_matrix/client/v1/media/") == PNG
    assert found["content"]["body"] == "the leaf"


def test_an_answer_grows_and_a_long_one_is_split(board, server, pico, monkeypatch):
    monkeypatch.setattr(matrix_channel, "_DRAFT_FIRST_S", 0.2)
    monkeypatch.setattr(matrix_channel, "_DRAFT_S", 0.3)
    ann = server.ann
    room = make_room(ann, pico)
    ann.say(room, "tell me")
    until(lambda: board.posted)
    hooks = board.channel.around(board.posted[0])
    until(lambda: {"user_ids": [pico.user]} in find_ephemeral(ann, room, "m.typing"))
    for number in range(4):
        hooks.listen(Text(f"word{number} "))
        ann.wait(room, lambda event, number=number: f"word{number}" in event["content"].get("body", ""))
    words = " ".join(f"{char}{number}" for number in range(1500) for char in "&<日🌡")
    board.answer(board.posted[0], words)
    until(lambda: not board.left())
    event = next(
        event
        for event in ann.seen[room]
        if event["sender"] == pico.user and "word0" in event["content"].get("body", "")
    )
    told = ann.call("GET", f"rooms/{quote(room)}/event/{quote(event['event_id'])}")  # as it is shown, edits applied
    edited = told["unsigned"]["m.relations"]["m.replace"]["content"]["m.new_content"]["body"]
    assert words.startswith(edited)
    shown = [edited, *messages_after(ann, room, event["event_id"], pico.user)]
    assert " ".join(shown).split() == words.split()


def messages_after(person, room, event, sender):
    person.sync()
    names = [one["event_id"] for one in person.seen[room]]
    return [
        one["content"]["body"]
        for one in person.seen[room][names.index(event) + 1 :]
        if one["sender"] == sender and one["type"] == "m.room.message" and "m.relates_to" not in one["content"]
    ]


def test_a_reaction_answers_a_question(tmp_path, server, pico):
    ann, bob, kept = server.ann, server.bob, {}
    with Board(tmp_path / "home", server.url, pico.token, [bob.user], ann.user, TIMING, kept.get) as board:
        room = make_room(ann, pico, bob)
        key = f"matrix:{room}"
        call = (
            key,
            key,
            "owner",
            f"matrix:{ann.user}",
            ToolCall("1", "outputs_set", {}),
            "actuate",
            "",
            "",
            "",
            {},
            "",
            (),
        )
        kept[3] = Approval(3, f"{3:024x}", *call, "switch the pump on?", 1.0, 9e9)
        board.ask(key, "Number 3: switch the pump on?", 3)
        asked = ann.wait(room, is_text(f"Number 3: switch the pump on?\n\n{HOW_TO_ANSWER}"))
        ann.wait(room, lambda event: event["content"].get("m.relates_to", {}).get("key") == "♾️")
        bob.react(room, asked["event_id"], "👍")
        ann.react(room, asked["event_id"], "👍")
        until(lambda: board.posted)
        assert [(came.text, came.who) for came in board.posted] == [(f"/yes 3 {3:024x}", f"matrix:{ann.user}")]
        kept[3] = kept[3]._replace(state="done")
        board.channel.changed(kept[3])
        ended = "Number 3: switch the pump on?\n\nNumber 3: done."
        ann.wait(room, lambda event: event["content"].get("m.new_content", {}).get("body") == ended)


def test_an_encrypted_room_is_told_so(board, server, pico):
    state = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
    room = make_room(server.ann, pico, initial_state=[state])
    server.ann.wait(room, is_text(ENCRYPTED))


def test_what_was_missed_is_read_back_and_a_number_is_sent_once(tmp_path, server, pico):
    ann = server.ann
    words = [f"word {number}" for number in range(130)]
    args = (tmp_path / "home", server.url, pico.token, (), ann.user, TIMING)
    with Board(*args) as board:
        room = make_room(ann, pico)
        ann.say(room, "first")
        until(lambda: board.posted)
        until(lambda: room in board.channel._state.last)
    for word in words:
        ann.say(room, word)
    with Board(*args) as board:
        until(lambda: "word 129" in board.texts)
        assert board.texts == words
        board.put(f"matrix:{room}", "once")
        ann.wait(room, is_text("once"))
        until(lambda: not board.left())
    row = next(event for event in ann.seen[room] if is_text("once")(event))
    found = pico.call("GET", f"rooms/{quote(room)}/event/{quote(row['event_id'])}")
    number, at = found["unsigned"]["transaction_id"].rpartition(".")[0].split("-")
    with Board(*args) as board:  # the same row again, as a crash before it was struck out leaves it
        sql = "INSERT INTO outbox (id, session, text, at, begun) VALUES (?, ?, ?, ?, 'a dead process')"
        with board.boxes.lock, board.database.transaction() as connection:
            connection.execute(sql, (int(number), f"matrix:{room}", "once", float(at)))
        board.worker.wake()
        until(lambda: not board.left())
        board.put(f"matrix:{room}", "another")
        ann.wait(room, is_text("another"))
        assert ann.texts(room, pico.user).count("once") == 1


def test_a_server_that_restarts_and_one_that_logs_us_out(tmp_path, monkeypatch):
    monkeypatch.setattr("picoclaw.channels.polled.BadToken.retry_s", 0.5)
    synapse = SynapseServer(tmp_path / "synapse")
    with synapse:
        pico, ann = synapse.register("pico"), synapse.register("ann")
        with Board(tmp_path / "home", synapse.url, pico.token, owner=ann.user, timing=TIMING) as board:
            board.reply = "answer to {}.".format
            room = make_room(ann, pico)
            synapse.__exit__()
            board.put(f"matrix:{room}", "while it was away")
            until(lambda: not board.channel.status().up)
            synapse.__enter__()
            ann.wait(room, is_text("while it was away"), 60)
            ann.say(room, "back?")
            ann.wait(room, is_text("answer to back?."), 60)
            assert ann.texts(room, pico.user).count("while it was away") == 1
            pico.call("POST", "logout", {})
            until(lambda: "does not know the access token" in board.channel.status().error)


def test_the_usual_rate_limits_only_slow_it_down(tmp_path):
    limits = LIMITS.replace("rc_message: {per_second: 1000, burst_count: 1000}\n", "")
    with SynapseServer(tmp_path / "synapse", limits) as synapse:
        pico, ann = synapse.register("pico"), synapse.register("ann")
        with Board(tmp_path / "home", synapse.url, pico.token, owner=ann.user, timing=TIMING) as board:
            room = make_room(ann, pico)
            begun = time.monotonic()
            for number in range(30):
                board.put(f"matrix:{room}", f"alarm {number}")
            until(lambda: not board.left(), 90)
            ann.sync()
            texts = ann.texts(room, pico.user)
            assert re.findall(r"alarm \d+", "\n".join(texts)) == [f"alarm {number}" for number in range(30)]
            assert 5 < time.monotonic() - begun < 60  # ten at once, then one in five seconds: the rest comes as one
            assert len(texts) < 14
