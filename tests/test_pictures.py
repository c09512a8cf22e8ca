"""Pictures that came with a message: few, none too large, from the workspace alone, and only in that turn."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from anthropic_server import AnthropicServer, said
from model_server import ModelServer, refusal, reply
from rows import each_row

from picoclaw.agent.conversation import MAX_PICTURE_BYTES, MAX_PICTURES, Pictures, detect_media_type, read_pictures
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.errors import Unavailable
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Image, Inbound, Message, Request
from picoclaw.providers.model import ModelProvider
from picoclaw.providers.sanitize import sanitize_history

JPEG = b"\xff\xd8\xff\xe0 a lamp"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace/inbox").mkdir(parents=True)
    return tmp_path / "workspace"


@each_row(
    ("head", "kind"),
    [
        (JPEG, "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"GIF89a......", "image/gif"),
        (b"RIFF....WEBPVP8 ", "image/webp"),
        (b"RIFF....WAVEfmt ", ""),
        (b"%PDF-1.7", ""),
        (b"<svg xmlns=", ""),
        (b"\xff\xd8", ""),
        (b"", ""),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(head: bytes, kind: str) -> None:
    assert detect_media_type(head) == kind


def test_pictures_are_read_and_other_files_are_not(workspace: Path) -> None:
    (workspace / "inbox/a.bin").write_bytes(JPEG)
    (workspace / "inbox/b.jpg").write_bytes(b"no picture")
    found = read_pictures(workspace, ["inbox/a.bin", "inbox/b.jpg"])
    assert found == Pictures((Image("image/jpeg", JPEG),), ("inbox/a.bin",))


@pytest.mark.parametrize(
    ("size", "shown"), [(MAX_PICTURE_BYTES, True), (MAX_PICTURE_BYTES + 1, False), (3 * MAX_PICTURE_BYTES, False)]
)
def test_a_picture_that_is_too_large_is_not_shown_and_that_is_said(workspace: Path, size: int, shown: bool) -> None:
    (workspace / "inbox/a.jpg").write_bytes(JPEG + b"x" * (size - len(JPEG)))
    found = read_pictures(workspace, ["inbox/a.jpg"])
    assert bool(found.images) is shown
    assert [("3.5 MB" in problem and "inbox/a.jpg" in problem) for problem in found.problems] == [True] * (not shown)


def test_of_many_pictures_the_first_are_shown(workspace: Path) -> None:
    names = [f"inbox/{n}.jpg" for n in range(MAX_PICTURES + 2)]
    for name in names:
        (workspace / name).write_bytes(JPEG)
    found = read_pictures(workspace, names)
    assert found.names == tuple(names[:MAX_PICTURES])
    assert [problem.split()[0] for problem in found.problems] == names[MAX_PICTURES:]


def outside(workspace: Path) -> Iterator[str]:
    (workspace.parent / "secret.jpg").write_bytes(JPEG)
    (workspace / "inbox/link.jpg").symlink_to(workspace.parent / "secret.jpg")
    os.mkfifo(workspace / "inbox/pipe.jpg")
    yield from ("../secret.jpg", "inbox/link.jpg", "inbox/pipe.jpg", "inbox", "inbox/none.jpg", "inbox/\0.jpg")


def test_nothing_else_is_opened(workspace: Path) -> None:
    names = list(outside(workspace))
    found = read_pictures(workspace, names)
    assert found.images == ()
    assert len(found.problems) == len(names)


def test_a_mended_conversation_keeps_its_pictures() -> None:
    image = Image("image/jpeg", JPEG)
    said = sanitize_history([Message("user", "what is it?", images=(image,)), Message("user", "Quick.")])
    assert [message.images for message in said] == [(image,)]


# Through the door


def ask(server: ModelServer, home: Path, **model: Any) -> Any:
    """A turn with a picture, and one after it; the bodies that were sent, and what the owner was told."""
    (home / "workspace/inbox/a.jpg").write_bytes(JPEG)
    config = Config(home, ModelConfig(base_url=server.url, name="m", retries=0, **model))
    text = "what is it?\nAttached, in the workspace: inbox/a.jpg"
    with closing(App(config, SimBoard())) as app:
        first = app.dispatcher.answer(Inbound("telegram:1", text, attachments=("inbox/a.jpg",)))
        app.dispatcher.answer(Inbound("telegram:1", "sure?"))
    return [json.dumps(request.body["messages"]) for request in server.requests], first


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_picture_is_shown_in_its_own_turn_and_named_in_later_ones(workspace: Path, api: str) -> None:
    server: ModelServer
    if api == "openai":
        server = ModelServer([reply("A lamp."), reply("Sure.")])
    else:
        server = AnthropicServer([said("A lamp."), said("Sure.")])
    with server:
        bodies, first = ask(server, workspace.parent, api=api, images=True)
    assert first.reply == "A lamp."
    assert first.taints == ("inbox/a.jpg",)
    assert all(not message.images for message in first.messages)
    assert ["base64" in body for body in bodies] == [True, False]
    assert ["inbox/a.jpg" in body for body in bodies] == [True, True]


def test_a_blind_model_is_told_the_name(workspace: Path) -> None:
    with ModelServer([reply("A lamp?"), reply("No.")]) as server:
        bodies, first = ask(server, workspace.parent)
    assert ["base64" in body for body in bodies] == [False, False]
    assert "inbox/a.jpg" in bodies[0]
    assert first.taints == ()


@each_row(
    ("status", "told", "shown"),
    [
        (400, "image input is not supported", [True, False]),
        (500, "image input is not supported - hint: you may need to provide the mmproj", [True, False]),
        (429, "too many images in this minute", [True]),
        (503, "no vision worker is free", [True]),
    ],
)
def test_a_picture_is_left_out_only_when_it_is_refused(status: int, told: str, shown: list[bool]) -> None:
    def sees(body: Any) -> bool:
        return "image_url" in json.dumps(body)

    asked = Message("user", "what is it?", images=(Image("image/png", b"\x89PNG"),))
    with ModelServer(lambda body: refusal(status, told) if sees(body) else reply("a wall")) as server:
        model = ModelConfig(base_url=server.url, name="m", images=True)
        with closing(ModelProvider(model)) as provider, suppress(Unavailable):
            list(provider.events(Request("", (asked,), (), 100, time.monotonic() + 9)))
        assert [sees(request.body) for request in server.requests] == shown
