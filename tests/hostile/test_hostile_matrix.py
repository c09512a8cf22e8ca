"""Guests and strangers in a Matrix room who want to be taken for the owner, or to write where nothing of theirs belongs."""

import json

from attacks import MATRIX
from matrix_kit import Board
from matrix_server import ANN, BOB, EVE, ME, TOKEN, MatrixServer
from tally import Tally

MENTION = {"m.mentions": {"user_ids": [ME]}}
HEARD = sum(map(len, MATRIX.values())) - 2
"""All but those that say nothing: lists for texts, and a state event."""


def test_nobody_in_a_room_is_taken_for_the_owner(tmp_path, record_property):
    """What a guest sends is a guest's, under their own name, in a session of the room; what a stranger sends is nothing."""
    tally = Tally(record_property)
    with MatrixServer() as server:
        server.media["m"] = b"data"
        room = server.make_room(ANN)
        for user in (BOB, EVE):
            server.joins(room, user)
        with Board(tmp_path / "home", server.url, TOKEN, allow=[BOB], owner=ANN) as board:
            server.wait(server.is_read)
            asked = server.says(room, ANN, "how warm is it?", **MENTION)
            server.wait(lambda: board.posted)
            before = list_files(board.home)
            for kind, rows in MATRIX.items():
                for name, row in rows.items():
                    came = len(board.posted)
                    text = json.dumps(row).replace("@owner@", ANN).replace("@said@", asked).replace("@room@", room)
                    for user in (EVE, BOB):
                        send(server, room, user, json.loads(text))
                    server.says(room, ANN, f"that was {name}", **MENTION)
                    server.wait(lambda name=name: any(f"that was {name}" in one.text for one in board.posted))
                    wrong = list(judge(board.posted[came:], room))
                    wrong += [f"wrote {path}" for path in list_files(board.home) - before if not is_inbox(path)]
                    tally.attack(kind, name, wrong)
    came = [one for one in board.posted if one.who == f"matrix:{BOB}"]
    assert (len(came), sum(bool(one.attachments) for one in came)) == (HEARD, len(MATRIX["Matrix: files"]))
    tally.judge()


def send(server, room, user, content):
    if "display_name" in content:
        server.joins(room, user, content.pop("display_name"))
    more = {"state_key": content.pop("state_key")} if "state_key" in content else {}
    if "m.new_content" in content:
        content["m.new_content"] |= MENTION
    server.event(room, user, {"msgtype": "m.text"} | MENTION | content, **more)


def judge(posted, room):
    for one in posted:
        if (one.origin, one.who) == ("owner", f"matrix:{ANN}") and "that was" in one.text:
            continue
        head = one.text.split("\n", 1)[0]
        if (one.origin, one.who) != ("guest", f"matrix:{BOB}") or not one.key.startswith(f"matrix:{room}"):
            yield f"{one.origin} {one.who} in {one.key}: {one.text[:80]!r}"
        elif not one.text.startswith("/") and not (head.startswith("[from ") and BOB in head and head.endswith("]")):
            yield f"without its sender: {one.text[:80]!r}"
        elif len(one.text) > 21_000 or any(sign in one.text for sign in "\u202e\u200b\ufeff"):
            yield f"with signs that are not seen: {one.text[:80]!a}"


def list_files(home):
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def is_inbox(path):
    name = path.removeprefix("workspace/inbox/")
    return name != path and "/" not in name and name.isprintable() and not name.startswith(".")
