"""The shipped table of word vectors: what it finds alike, and that damage is named."""

import hashlib
import importlib.util
import json
import math
import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rows import each_row

from picoclaw.errors import ProviderError
from picoclaw.files import find_shipped
from picoclaw.memory.embedding import StaticEmbedder

FOLDER = find_shipped("templates") / "embeddings"
SCRIPT = Path(__file__).resolve().parents[1] / "tools/embeddings/distil.py"


@pytest.fixture(scope="module")
def table() -> StaticEmbedder:
    return StaticEmbedder(FOLDER)


@pytest.fixture(scope="module")
def distil() -> ModuleType:
    spec = importlib.util.spec_from_file_location("distil", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NEARER = [
    ("how warm is it", "the temperature in the room", "the invoice of the dentist"),
    ("heating", "the boiler lost pressure and the radiators are cold", "my sister's birthday is in May"),
    ("What does the dog eat?", "feed the puppy twice a day", "the router was restarted"),
    ("cooking", "a recipe for soup with leeks", "the gate's battery is flat"),
    ("plants", "the ferns and orchids were misted", "battery voltage is 12.6 V"),
    ("doctor's appointment", "went to the hospital for a check-up", "soldered the relay board"),
    ("Auto", "the car needs new tyres", "the cake needs sugar"),
]


@each_row(("asked", "near", "far"), NEARER, ids=[row[0] for row in NEARER])
def test_finds_by_meaning_where_no_word_is_shared(table: StaticEmbedder, asked: str, near: str, far: str) -> None:
    query, *notes = table.embed([asked, near, far])
    assert query @ notes[0] > query @ notes[1] + 0.1


def test_vectors_have_unit_length_or_none(table: StaticEmbedder) -> None:
    texts = ["warm", "The ferns were misted.", "", "   ", "\u0f04\u0f05", "q\ua66eq" * 30, "東京", "🔥"]
    vectors = table.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), table.dims)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths.tolist() == pytest.approx([1, 1, 0, 0, 0, 0, 1, 0], abs=1e-6)
    assert table.embed([]).shape == (0, table.dims)


def test_a_text_does_not_depend_on_its_company(table: StaticEmbedder) -> None:
    texts = ["the boiler", "a much longer text about ferns, orchids and the greenhouse"]
    assert (table.embed(texts) == np.concatenate([table.embed([text]) for text in texts])).all()


def test_frequent_words_count_little(table: StaticEmbedder) -> None:
    plain, dressed, hollow = table.embed(["boiler pressure", "the pressure of the boiler", "the house of the man"])
    assert plain @ dressed > 0.8
    assert plain @ hollow < 0.2


def test_the_table_is_what_the_script_makes(table: StaticEmbedder, distil: ModuleType) -> None:
    told = json.loads((FOLDER / "table.json").read_bytes())
    for name, expected in told["files"].items():
        data = (FOLDER / name).read_bytes()
        assert hashlib.sha256(zlib.decompress(data) if name.endswith(".z") else data).hexdigest() == expected
    assert {name: told["files"][name] for name in distil.RESULT} == distil.RESULT
    assert told["source"]["sha256"] == distil.PINNED
    assert told["files"].keys() == distil.RESULT.keys()
    assert table.dims == told["dims"] == distil.DIMS
    assert table.name == told["name"]
    assert told["files"]["rows.int8"].startswith(table.name.rpartition("-")[2])
    assert "Apache License" in (FOLDER / "LICENSE").read_text()


def test_the_script_runs_the_model_as_its_layers_are_defined(distil: ModuleType) -> None:
    x = np.linspace(-12, 12, 4001)
    exact = np.array([value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x])
    assert np.abs(distil.gelu(x) - exact).max() < 1e-13
    weights = {"a.weight": np.array([2.0, 1.0]), "a.bias": np.array([0.5, 0.0])}
    assert distil.normal(weights, "a", np.array([[1.0, 3.0]])) == pytest.approx(np.array([[-1.5, 1.0]]))
    header = json.dumps({"a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}).encode()
    data = len(header).to_bytes(8, "little") + header + np.array([1.5, -2], "<f4").tobytes()
    assert distil.tensors(data)["a"].tolist() == [[1.5, -2.0]]


def test_the_script_refuses_another_source(distil: ModuleType) -> None:
    with pytest.raises(SystemExit, match="not the one that this script knows"):
        distil.checked("wheel", b"PK")


def change(name: str, make: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(make((folder / name).read_bytes()))

    return damage


def described(**more: object) -> Callable[[Path], None]:
    return change("table.json", lambda data: json.dumps(json.loads(data) | more).encode())


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, "no such file or folder"),
    "no description": (lambda folder: (folder / "table.json").unlink(), "no such file"),
    "no vocabulary": (lambda folder: (folder / "vocabulary.z").unlink(), "no such file"),
    "no rows": (lambda folder: (folder / "rows.int8").unlink(), "rows.int8: no such file"),
    "rows are a folder": (lambda folder: [(folder / "rows.int8").unlink(), (folder / "rows.int8").mkdir()], "a folder"),
    "empty rows": (change("rows.int8", lambda _: b""), "damaged"),
    "rows cut short": (change("rows.int8", lambda data: data[:-1]), "damaged"),
    "rows too long": (change("rows.int8", lambda data: data + b"\0"), "damaged"),
    "scales of zeros": (change("scales.z", lambda data: bytes(len(data))), "scales.z is not what"),
    "scales cut short": (change("scales.z", lambda data: data[:-4]), "scales.z is not what"),
    "vocabulary of zeros": (change("vocabulary.z", lambda data: bytes(len(data))), "vocabulary.z is not what"),
    "empty description": (change("table.json", lambda _: b""), "damaged"),
    "description of zeros": (change("table.json", lambda data: bytes(len(data))), "damaged"),
    "description is a list": (change("table.json", lambda _: b"[]"), "damaged"),
    "deep description": (change("table.json", lambda _: b"[" * 100_000), "damaged"),
    "no dims": (described(dims=None), "damaged"),
    "other dims": (described(dims=256), "damaged"),
    "negative dims": (described(dims=-128), "damaged"),
    "no hashes": (described(files={}), "damaged"),
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "embeddings"))


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named(copy: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(copy)
    with pytest.raises(ProviderError) as caught:
        StaticEmbedder(copy)
    assert str(copy) in str(caught.value)
    assert words in str(caught.value)
    assert "install picoclaw again" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_page_of_zeros_among_the_rows_is_found_when_it_is_needed(copy: Path) -> None:
    table = StaticEmbedder(copy)
    (boiler,) = table.pieces.tokens("boiler")
    with (copy / "rows.int8").open("r+b") as file:
        file.seek(boiler * table.dims // 4096 * 4096)
        file.write(bytes(4096))
    assert table.embed(["ferns"]).any()
    with pytest.raises(ProviderError, match=r"rows\.int8 is damaged"):
        table.embed(["the boiler"])


def test_without_numpy_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ProviderError, match="numpy cannot be loaded"):
        StaticEmbedder(FOLDER)
