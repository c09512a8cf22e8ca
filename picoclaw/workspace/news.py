"""What is new in a template, brought into the page that its owner has made of an older one."""

from collections.abc import Mapping, Sequence

_NO_END = b"\n\\ No newline at end of file\n"


def merged(page: bytes, old: bytes, new: bytes) -> bytes:
    """Bring into a page what a template has gained, and take out of it what the template has lost.

    Lines of the owner's own stay, also where the template says something else now, and blank ones; what the page has
    already is not added. So the result is the page itself when there is nothing to bring.
    """
    from difflib import SequenceMatcher

    mine = _lines(page)
    plain, before, after = ([line.rstrip(b"\r") for line in _lines(text)] for text in (page, old, new))
    found = SequenceMatcher(None, before, plain).get_matching_blocks()
    place = {block.a + i: block.b + i for block in found for i in range(block.size)}
    lost, gained = set[int](), dict[int, list[bytes]]()
    for tag, start, end, first, last in SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            lost |= {place[i] for i in range(start, end) if i in place and before[i].strip()}
            if not _holds(plain, after[first:last]):
                gained.setdefault(_spot(place, start, end, len(mine)), []).extend(after[first:last])
    carriage = b"\r" if b"\r\n" in page else b""
    kept: list[bytes] = []
    for i in range(len(mine) + 1):
        kept += [line + carriage for line in gained.get(i, [])]
        kept += mine[i : i + 1] if i not in lost else []
    return b"\n".join(kept) + (b"\n" if kept and (page.endswith(b"\n") or not page) else b"")


def difference(name: str, before: bytes, after: bytes) -> bytes:
    """Show the way from one text to another, as `patch -p0` takes it."""
    import difflib

    shown = difflib.diff_bytes(difflib.unified_diff, _ended(before), _ended(after), name.encode(), name.encode())
    return b"".join(line if line.endswith(b"\n") else line + _NO_END for line in shown)


def _ended(text: bytes) -> list[bytes]:
    """The lines, each but perhaps the last with its end."""
    lines = [line + b"\n" for line in _lines(text)]
    return lines if text.endswith(b"\n") or not text else [*lines[:-1], lines[-1][:-1]]


def _spot(place: Mapping[int, int], start: int, end: int, length: int) -> int:
    """Where in the page that stands which is at `start` in the template, by the lines of the template that it has."""
    if start in place and start < end:
        return place[start]
    if start - 1 in place:
        return place[start - 1] + 1
    if end in place:
        return place[end]
    earlier = [place[i] + 1 for i in range(start) if i in place]
    return earlier[-1] if earlier else 0 if place else length


def _holds(lines: Sequence[bytes], part: Sequence[bytes]) -> bool:
    """Whether the lines of a part follow each other somewhere."""
    return b"".join(b"\n" + line for line in [*part, b""]) in b"".join(b"\n" + line for line in [*lines, b""])


def _lines(text: bytes) -> list[bytes]:
    """The lines as patch counts them, by nothing but line feeds."""
    return text.removesuffix(b"\n").split(b"\n") if text else []
