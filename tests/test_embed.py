"""Embeddings from a server over a real socket, and vectors in few bytes."""

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import Answer, ModelServer, drip, drop, page, raw, refusal, silence, status, truncated_body
from rows import each_row

from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig, ModelConfig
from picoclaw.errors import KeyRefused, NotServed, ProviderError, Refused, Unavailable
from picoclaw.memory.embedding import RemoteEmbedder, make_embedder, quantise

KEY = "sk-secret-of-the-owner"
TEXTS = ["warm", "cold", "ferns"]
GOOD = [[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]]


def entries(vectors: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]


def told(data: Any) -> Answer:
    """An answer with these entries; Python's JSON writes NaN as servers in Python do."""
    return raw(json.dumps({"object": "list", "model": "small", "data": data}).encode())


def lengths(body: Any) -> Answer:
    """Embeds a text as how many letters it has, and its place: a direction of its own for each length."""
    return told(entries([[float(len(text)), 1.0] for text in body["input"]]))


def asked(*script: Answer, texts: Sequence[str] = TEXTS, seconds: float = 5.0) -> tuple[Any, ModelServer]:
    with ModelServer(script) as server, closing(RemoteEmbedder(server.url, "small", KEY, seconds)) as remote:
        return remote.embed(texts), server


def test_sends_the_texts_and_reads_the_vectors() -> None:
    vectors, server = asked(told(entries(GOOD)))
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 1], [-1, 0]]
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "small", "input": TEXTS}
    assert request.headers["authorization"] == f"Bearer {KEY}"


ORDERS: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "shuffled": lambda data: random.Random(3).sample(data, len(data)),
    "reversed": lambda data: data[::-1],
    "numbered in text": lambda data: [entry | {"index": str(entry["index"])} for entry in data[::-1]],
    "not numbered": lambda data: [{"embedding": entry["embedding"]} for entry in data],
}


@each_row("order", ORDERS.values(), ids=ORDERS)
def test_order_is_that_of_the_index(order: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    assert asked(told(order(entries(GOOD))))[0].tolist() == asked(told(entries(GOOD)))[0].tolist()


def test_many_texts_go_in_batches_over_one_connection() -> None:
    texts = ["x" * (1 + number) for number in range(150)]
    with ModelServer(lengths) as server, closing(RemoteEmbedder(server.url, "small")) as remote:
        vectors = remote.embed(texts)
    assert [len(request.body["input"]) for request in server.requests] == [64, 64, 22]
    assert server.connections == 1
    assert "authorization" not in server.requests[0].headers
    ratios = vectors[:, 0] / vectors[:, 1]
    assert np.allclose(ratios, [len(text) for text in texts], rtol=1e-5)
    assert remote.dims == 2


def test_blank_texts_are_not_sent_and_long_ones_cut() -> None:
    with ModelServer(lengths) as server, closing(RemoteEmbedder(server.url, "small")) as remote:
        assert remote.embed([]).shape == (0, 0)
        assert remote.embed(["", " \n"]).shape == (2, 0)
        assert not server.requests
        vectors = remote.embed(["", "y" * 10_000, "\t", "half \ud83d"])
        assert remote.embed([" "]).tolist() == [[0, 0]]
    assert [len(text) for text in server.requests[0].body["input"]] == [2000, 6]
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([0, 1, 0, 1])


WRONG: dict[str, tuple[Answer, type[ProviderError], str]] = {
    "too few": (told(entries(GOOD[:2])), Unavailable, "3 texts with 2 vectors"),
    "too many": (told(entries([*GOOD, [1.0, 1.0]])), Unavailable, "3 texts with 4 vectors"),
    "none": (told([]), Unavailable, "3 texts with 0 vectors"),
    "one number twice": (told([*entries(GOOD)[:2], entries(GOOD)[0]]), Unavailable, "numbered them wrongly"),
    "number of a flag": (told([e | {"index": bool(e["index"])} for e in entries(GOOD)]), Unavailable, "wrongly"),
    "unequal": (told(entries([[1.0, 2.0], [1.0], [1.0, 2.0]])), Unavailable, "unequal length"),
    "empty vectors": (told(entries([[], [], []])), Unavailable, "unequal length"),
    "base64": (told(entries(["AACAPwAAAEA="] * 3)), Unavailable, "lists of numbers"),
    "nested": (told(entries([[[1.0]]] * 3)), Unavailable, "lists of numbers"),
    "words": (told(entries([["much", "little"]] * 3)), Unavailable, "lists of numbers"),
    "objects": (told(entries([[{}]] * 3)), Unavailable, "lists of numbers"),
    "no embedding": (told([{"index": i} for i in range(3)]), Unavailable, "lists of numbers"),
    "NaN": (told(entries([[1.0, float("nan")], *GOOD[1:]])), Unavailable, "NaN"),
    "infinity": (told(entries([[1.0, float("inf")], *GOOD[1:]])), Unavailable, "NaN"),
    "null": (told(entries([[1.0, None], *GOOD[1:]])), Unavailable, "NaN"),
    "beyond floats": (raw(b'{"data": [%s]}' % b", ".join([b'{"embedding": [1e999]}'] * 3)), Unavailable, "NaN"),
    "endless integer": (told(entries([[10**400], [1], [1]])), Unavailable, "numbers"),
    "too long to square": (told(entries([[1e300, 1e300], *GOOD[1:]])), Unavailable, "NaN"),
    "list of lists": (raw(json.dumps(GOOD).encode()), Unavailable, "no list of vectors"),
    "data of numbers": (told([1, 2, 3]), Unavailable, "no list of vectors"),
    "not JSON": (raw(b"vectors: 3"), Unavailable, "not JSON"),
    "nothing": (raw(b""), Unavailable, "empty answer"),
    "torn": (truncated_body(), Unavailable, "broke off"),
    "hangs up": (drop(), Unavailable, "broke off"),
    "web page": (page(), Unavailable, "captive portal"),
    "error in a good answer": (raw(b'{"error": {"message": "loading model"}}'), Unavailable, "loading model"),
    "key": (refusal(401, f"bad key {KEY}"), KeyRefused, "check PICOCLAW_API_KEY"),
    "no such path": (refusal(404, "not found"), NotServed, "check base_url"),
    "not enabled": (refusal(501, "start with --embeddings"), Unavailable, "start with --embeddings"),
    "too long": (refusal(400, "input is too long"), Refused, "input is too long"),
    "elsewhere": (status(308, "", location="http://127.0.0.1/v2"), Refused, "redirects to http://127.0.0.1/v2"),
    "overloaded": (refusal(429, "slow down", retry_after="7"), Unavailable, "slow down"),
    "broken": (status(500, b"\xff\x00", kind="text/plain"), Unavailable, "(500)"),
}  # fmt: skip


@each_row(("answer", "kind", "words"), WRONG.values(), ids=WRONG)
def test_what_a_server_does_wrong_is_named(answer: Answer, kind: type[ProviderError], words: str) -> None:
    with pytest.raises(kind) as caught:
        asked(answer)
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_says_how_long_an_overloaded_server_wants_to_be_left_alone() -> None:
    with pytest.raises(Unavailable) as caught:
        asked(refusal(429, "slow down", retry_after="7"))
    assert caught.value.retry_after == 7


@each_row("answer", [silence(), drip(b" ")], ids=["silence", "drip"])
def test_a_slow_server_is_left_in_time(answer: Answer) -> None:
    with pytest.raises(Unavailable, match=r"0\.3 s"):
        asked(answer, seconds=0.3)


def test_nobody_there() -> None:
    with ModelServer([]) as server:
        pass
    with (
        closing(RemoteEmbedder(server.url, "small", KEY)) as remote,
        pytest.raises(Unavailable, match="cannot be reached"),
    ):
        remote.embed(TEXTS)


def test_another_dimension_than_before_is_refused_and_the_first_kept() -> None:
    script = [told(entries(GOOD)), told(entries([[1.0, 2.0, 3.0]])), told(entries([[0.0, 1.0]]))]
    with ModelServer(script) as server, closing(RemoteEmbedder(server.url, "small")) as remote:
        remote.embed(TEXTS)
        with pytest.raises(Refused, match="3 numbers for a text instead of 2"):
            remote.embed(["warm"])
        assert remote.embed(["warm"]).tolist() == [[0, 1]]


def test_a_failed_batch_keeps_nothing_and_the_next_call_works() -> None:
    script: Iterator[Answer] = iter([refusal(500, "once"), told(entries(GOOD))])
    with ModelServer(script) as server, closing(RemoteEmbedder(server.url, "small")) as remote:
        with pytest.raises(Unavailable):
            remote.embed(TEXTS)
        assert remote.embed(TEXTS).shape == (3, 2)


def test_a_key_that_no_server_takes_is_refused() -> None:
    with (
        closing(RemoteEmbedder("http://127.0.0.1:9/v1", "small", "two\nlines")) as remote,
        pytest.raises(Refused, match="key"),
    ):
        remote.embed(TEXTS)


def test_without_numpy_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ProviderError, match="libopenblas0"):
        RemoteEmbedder("http://127.0.0.1:9/v1", "small")


def test_quantised_vectors_point_where_they_did() -> None:
    vectors = np.random.default_rng(5).normal(size=(50, 128)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kept = quantise(vectors)
    back = np.array([np.frombuffer(row, np.int8).astype(float) for row in kept])
    assert all(len(row) == 128 and max(np.abs(np.frombuffer(row, np.int8))) == 127 for row in kept)
    assert (np.sum(back * vectors, axis=1) / np.linalg.norm(back, axis=1) > 0.9999).all()
    assert quantise(np.zeros((1, 4), np.float32)) == [bytes(4)]
    assert quantise(np.zeros((0, 4), np.float32)) == []


# Ollama's own format


def given(vectors: Any) -> Answer:
    counted = {"total_duration": 14143917, "load_duration": 1019500, "prompt_eval_count": 8}
    return raw(json.dumps({"model": "small", "embeddings": vectors} | counted).encode())


def asked_ollama(answer: Answer) -> tuple[Any, ModelServer]:
    with (
        ModelServer([answer]) as server,
        closing(RemoteEmbedder(server.url.removesuffix("/v1") + "/api", "small")) as remote,
    ):
        return remote.embed(TEXTS), server


def test_ollama_is_asked_in_its_own_words() -> None:
    vectors, server = asked_ollama(given(GOOD))
    assert vectors.tolist() == asked(told(entries(GOOD)))[0].tolist()
    (request,) = server.requests
    assert (request.path, request.body) == ("/api/embed", {"model": "small", "input": TEXTS, "truncate": True})


@each_row(
    ("answer", "kind", "words"),
    [
        (given(GOOD[:2]), Unavailable, "3 texts with 2 vectors"),
        (given([]), Unavailable, "3 texts with 0 vectors"),
        (given(None), Unavailable, "/api"),
        (given([[1.0], [1.0, 2.0], [1.0]]), Unavailable, "unequal length"),
        (given([[1.0], [None], [1.0]]), Unavailable, "NaN"),
        (given(["a", "b", "c"]), Unavailable, "lists of numbers"),
        (told(entries(GOOD)), Unavailable, "no list of vectors"),
        (raw(b'{"error": "the input length exceeds the context length"}'), ProviderError, "context length"),
        (status(404, {"error": 'model "small" not found, try pulling it first'}), NotServed, "pulling"),
        (raw(b"[]"), Unavailable, "no list of vectors"),
    ],
    ids=range(10),
)
def test_what_is_no_answer_of_ollamas(answer: Answer, kind: type[ProviderError], words: str) -> None:
    with pytest.raises(kind, match=words):
        asked_ollama(answer)


@each_row(
    ("api", "url", "missing"), [("openai", "", False), ("anthropic", "", True), ("anthropic", "http://x/v1", False)]
)
def test_a_server_without_embeddings_is_not_asked_for_them(api: Any, url: str, missing: bool) -> None:
    memory = MemoryConfig(embeddings="server", embedding_model="small", embedding_url=url)
    config = Config(Path("/nowhere"), ModelConfig(base_url="http://127.0.0.1:9/v1", api=api), memory=memory)
    if missing:
        with pytest.raises(ProviderError, match="embedding_url"):
            make_embedder(config)
    else:
        assert make_embedder(config)
