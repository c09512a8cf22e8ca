"""How servers are asked for vectors: OpenAI's /v1/embeddings and Ollama's /api/embed. Pure translation.

Sources: https://platform.openai.com/docs/api-reference/embeddings and https://docs.ollama.com/api/embed.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from picoclaw.errors import Unavailable
from picoclaw.providers.retry import failure, status_within

LONGEST = 2000
"""Characters of one text; what is more would not fit a small model's window."""


class Format(NamedTuple):
    """One way of asking: where, in which words, and how the answer's vectors are put in the order of the texts.

    `rows` gives as many as there are texts, whatever they hold; it raises ProviderError.
    """

    path: str
    body: Callable[[str, Sequence[str]], dict[str, Any]]
    rows: Callable[[Any, int], list[Any]]


def format_of(base_url: str) -> Format:
    """Choose by the address, which at Ollama ends in /api, and in /v1 where it speaks the other format as well."""
    return OLLAMA if base_url.endswith("/api") else OPENAI


def _openai_body(model: str, texts: Sequence[str]) -> dict[str, Any]:
    return {"model": model, "input": [text[:LONGEST] for text in texts]}


def _ollama_body(model: str, texts: Sequence[str]) -> dict[str, Any]:
    return _openai_body(model, texts) | {"truncate": True}


def _openai_rows(answer: Any, count: int) -> list[Any]:
    """By their `index`; where a server leaves that out, as they came."""
    data = _refused(answer).get("data")
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise Unavailable("the embedding server sent no list of vectors; is its model one for embeddings?")
    places = {str(entry.get("index", place)): entry.get("embedding") for place, entry in enumerate(data)}
    if len(data) != count or places.keys() != set(map(str, range(count))):
        raise _miscounted(count, len(data))
    return [places[str(place)] for place in range(count)]


def _ollama_rows(answer: Any, count: int) -> list[Any]:
    rows = _refused(answer).get("embeddings")
    if not isinstance(rows, list):
        raise Unavailable("the embedding server sent no list of vectors; is embedding_url that of Ollama's /api?")
    if len(rows) != count:
        raise _miscounted(count, len(rows))
    return rows


def _miscounted(count: int, found: int) -> Unavailable:
    return Unavailable(f"the embedding server answered {count} texts with {found} vectors, or numbered them wrongly")


def _refused(answer: Any) -> dict[str, Any]:
    """Raise what an answer says that is an error in spite of its status."""
    if isinstance(answer, dict) and answer.get("error"):
        raise failure(status_within(answer["error"]), answer)
    return answer if isinstance(answer, dict) else {}


OPENAI = Format("/embeddings", _openai_body, _openai_rows)
OLLAMA = Format("/embed", _ollama_body, _ollama_rows)
