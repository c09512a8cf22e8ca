"""Chooses, by the settings, who gives notes their vectors; whatever is wrong with that, words alone find them."""

from typing import NamedTuple

from picoclaw.config import Config
from picoclaw.errors import ProviderError
from picoclaw.memory.embedding import Embedder, Remote
from picoclaw.memory.word_vectors import StaticTable
from picoclaw.resources import shipped

_TRIAL = "the boiler's pressure"


class Chosen(NamedTuple):
    """Who it is; nobody where that was chosen, or where the problem says why not."""

    embedder: Embedder | None
    problem: str = ""


def choose(config: Config) -> Chosen:
    """Make the embedder that [memory] asks for. Imports numpy; connects to nothing yet."""
    memory = config.memory
    if memory.embeddings == "off":
        return Chosen(None)
    try:
        if memory.embeddings == "local":
            return Chosen(StaticTable(shipped("templates") / "embeddings"))
        if missing := _missing(config):
            return Chosen(None, f'embeddings = "server" needs {missing} under [memory] in config.toml')
        return Chosen(
            Remote(memory.embedding_url or config.model.base_url, memory.embedding_model, config.embedding_key)
        )
    except ProviderError as error:
        return Chosen(None, str(error))


def _missing(config: Config) -> str:
    if not config.memory.embedding_model:
        return "embedding_model, the model's name at that server,"
    embeds = config.model.base_url and config.model.api != "anthropic"  # which has no such thing
    return "" if config.memory.embedding_url or embeds else "embedding_url, the server's address,"


def trial(config: Config) -> str:
    """Embed a few words; says who did it. Raises ProviderError."""
    embedder, problem = choose(config)
    if problem:
        raise ProviderError(problem)
    if embedder is None:
        return "off: words alone find notes"
    embedder.embed([_TRIAL])
    return f"{embedder.name}, {embedder.dims} numbers a text"
