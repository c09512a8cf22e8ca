"""What is compiled of the matcher's data and of the shipped skills is compiled once for all homes that a process makes.

A first answer in a new home costs 0.02 s of a processor then instead of 0.2 s. The home gets the file that it would have written itself.
"""

import functools
import marshal
import tomllib
from contextlib import suppress

from picoclaw.files import find_shipped
from picoclaw.intents import frames, grammar, matcher, topics
from picoclaw.skills import frontmatter


@functools.cache
def load_shipped(language="en"):
    """The data of a language, parsed once for all tests, which leave it as it is."""
    return tomllib.loads((find_shipped("templates") / f"intents/{language}.toml").read_text("utf-8"))


def refusals(language="en"):
    """What is said to what nobody understood: to a question, to what may be an order, to anything else."""
    say = load_shipped(language)["say"]
    return say["no_model"], say["undone"], say["unknown"]


def share_grammars():
    """Have this process, and those that are forked off it, remember what was compiled and read."""
    load_grammar, begin = grammar.load_grammar, matcher.IntentMatcher.__init__
    files_kept, tables_kept = {}, {}

    def stamp(file):
        found = file.stat()
        return str(file), found.st_mtime_ns, found.st_size, found.st_ino

    @functools.wraps(load_grammar)  # a test of the cache itself unwraps it
    def load_once(files, cache, read, *, translated=False):
        key = None
        with suppress(OSError):
            key = (translated, *map(stamp, files))
        if key in files_kept:
            content, found = files_kept[key]
            with suppress(OSError):
                if not cache.exists():
                    grammar.write_atomic(cache, content)
                if cache.read_bytes() == content:
                    return found
        found = load_grammar(files, cache, read, translated=translated)
        if key and key not in files_kept:
            with suppress(OSError):
                files_kept[key] = cache.read_bytes(), found
        return found

    def begin_once(self, data, sources=()):
        key = None
        with suppress(ValueError):  # a date
            key = isinstance(data, grammar.Grammar) or marshal.dumps((list(data), list(sources)), 2)
        if key in tables_kept:
            data = tables_kept[key]
        begin(self, data, sources)
        if isinstance(key, bytes):
            tables_kept[key] = self._book

    def read_once(read):
        kept = {}

        @functools.wraps(read)
        def wrapped(file):
            key = stamp(file)
            if key not in kept:
                kept[key] = read(file)
            return kept[key]

        return wrapped

    read_frames, frames_kept = frames.read_frames, {}

    def read_frames_once(book):
        if id(book) not in frames_kept:
            frames_kept[id(book)] = book, read_frames(book)
        return frames_kept[id(book)][1]

    grammar.load_grammar, matcher.IntentMatcher.__init__ = load_once, begin_once
    frames.read_frames = read_frames_once
    grammar.read_marks, topics.load_topics = read_once(grammar.read_marks), read_once(topics.load_topics)


def share_skills():
    """Have this process, and those that are forked off it, remember what the shipped skills say: 0.02 s for each home."""
    parse, shipped = frontmatter.parse_skill, find_shipped("templates") / "skills"
    parse_once = functools.cache(parse)

    @functools.wraps(parse)
    def parse_shipped_once(text, folder):
        return (parse_once if folder.parent == shipped else parse)(text, folder)

    frontmatter.parse_skill = parse_shipped_once
