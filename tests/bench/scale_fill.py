"""Fills a shared store with agents, people, notes and conversations, for scale.py: by COPY, behind its migrations.

Texts are of the shipped table's words, as rare as those of a language, 10 lines of 14 words to a chunk; their vectors
are the table's own. `POOL` different chunks come again and again, so that a word is as common everywhere.
"""

import random
import sys
from datetime import date, timedelta
from itertools import accumulate
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import psycopg  # noqa: E402
from memory_search import WORDS, list_words, load_table  # noqa: E402

from picoclaw.agents import agent_id  # noqa: E402
from picoclaw.records import NamedTuple  # noqa: E402
from picoclaw.shared_store.postgres import _write_vector  # noqa: E402
from picoclaw.shared_store.store import TABLES, complete_row, index_words, make_id, open_shared_store  # noqa: E402

POOL, CHUNKS_A_PAGE, TURNS_A_CHUNK = 4000, 6, 0.25
LAST_DAY = date(2026, 11, 25)
ARCHIVE, EVERYBODYS = "archive", "everybody"
"""The agent that has a tenth of all chunks, and the one that every board has."""


class Size(NamedTuple):
    """How much there is of everything."""

    boards: int
    agents: int
    people: int
    chunks: int

    def chunks_by_agent(self):
        """The agents by their keys, and how many chunks each has."""
        archive = self.chunks // 10
        others = [f"agent{number}" for number in range(self.agents - 2)]
        each = (self.chunks - archive) // max(1, len(others))
        return {ARCHIVE: archive, EVERYBODYS: CHUNKS_A_PAGE, **dict.fromkeys(others, each)}

    def people_of(self, key):
        """The people who have notes of their own with an agent."""
        each = max(1, self.people // self.agents)
        place = list(self.chunks_by_agent()).index(key)
        return [f"person{number}" for number in range(place * each, (place + 1) * each)]

    def agents_of(self, board):
        """The agents that a board has: one of its own, one that four boards have, and everybody's."""
        others = [key for key in self.chunks_by_agent() if key not in {ARCHIVE, EVERYBODYS}]
        return list(dict.fromkeys([others[board % len(others)], others[(board * 7 + 3) % len(others)], EVERYBODYS]))


def fill(url, size, say=print):
    """Fill an empty database; everything but the rows is as the migrations make it."""
    open_shared_store(url).close()
    chance = random.Random(5)
    with psycopg.connect(url) as connection:
        pool = make_pool(connection, chance)
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'picoclaw' AND indexname NOT LIKE '%_pkey'"
            " AND tablename IN ('chunks', 'documents', 'turns')"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX picoclaw.{name}")
        pages = list(list_pages(size, chance))
        copy_rows(connection, "documents", (make_page(page, pool) for page in pages))
        say(f"{len(pages)} pages")
        copy_lines(
            connection,
            'chunks (document_id, agent_id, person, path, start, "end", heading, text, words, model, vector)',
            (line for page in pages for line in make_chunks(page, pool)),
        )
        say("chunks")
        copy_rows(connection, "user_context_files", make_own_pages(size))
        copy_conversations(connection, size, chance, pool)
        for _, definition in indexes:
            connection.execute(definition)
        say("indexes")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")


def make_pool(connection, chance):
    """Chunks as text, as COPY wants them: text, words and vector."""
    table = load_table()
    words = list_words(table)
    weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))
    found = []
    for _ in range(POOL):
        lines = [f"- {' '.join(chance.choices(words, cum_weights=weights, k=14))}" for _ in range(10)]
        text = "\n".join(lines)
        terms = connection.execute("SELECT to_tsvector('simple', %s)::text", (index_words("", text),)).fetchone()[0]
        (vector,) = table.embed([text])
        signed = [max(-127, min(127, round(float(value) * 127))) for value in vector]
        found.append((text, escape(text), escape(terms), f"{table.name}\t{_write_vector(signed)}"))
    return found


def list_pages(size, chance):
    """Give (id, agent, person, path, numbers of the pool) of each page."""
    for key, chunks in size.chunks_by_agent().items():
        agent, whose = agent_id(key), ["", *size.people_of(key)] if key != EVERYBODYS else [""]
        for number in range(chunks // CHUNKS_A_PAGE):
            person = whose[number % len(whose)]
            day = LAST_DAY - timedelta(days=number // len(whose))
            path = f"memory/{day:%Y%m}/{day:%Y%m%d}.md"
            parts = [chance.randrange(POOL) for _ in range(CHUNKS_A_PAGE)]
            yield make_id("documents", agent, person, path), agent, person, path, parts


def make_page(page, pool):
    number, agent, person, path, parts = page
    content = "\n\n".join(pool[part][0] for part in parts) + "\n"
    return {
        "id": number,
        "agent_id": agent,
        "at": 1.79e9,
        "person": person,
        "path": path,
        "content": content,
        "version": 1,
    }


def make_chunks(page, pool):
    number, agent, person, path, parts = page
    for place, part in enumerate(parts):
        _, text, terms, vector = pool[part]
        start = 1 + place * 11
        yield f"{number}\t{agent}\t{person}\t{path}\t{start}\t{start + 9}\t\t{text}\t{terms}\t{vector}\n"


def make_own_pages(size):
    for key in size.chunks_by_agent():
        for person in size.people_of(key):
            page = {"agent_id": agent_id(key), "at": 1.79e9, "person": person, "path": "USER.md", "version": 1}
            number = make_id("user_context_files", agent_id(key), person, "USER.md")
            yield page | {"id": number, "content": f"# {person}\n\nLikes short answers.\n"}


def copy_conversations(connection, size, chance, pool):
    """Ten turns a conversation, of the boards in turn, and half a year of sums."""
    count, sessions = int(size.chunks * TURNS_A_CHUNK), {}
    for number in range(max(1, count // 10)):
        board = number % size.boards
        sessions[number] = (make_id("session", number), agent_id(size.agents_of(board)[0]), f"board{board}")
    empty = {"person": "", "key": "telegram:1", "begun": "2026-01-01T08:00:00", "ended": "2026-01-01T09:00:00"}
    rows = (
        empty | {"id": one, "agent_id": agent, "board": board, "at": 1.79e9, "number": number}
        for number, (one, agent, board) in sessions.items()
    )
    copy_rows(connection, "sessions", rows)
    turn = {"at": 1.79e9, "said_at": "2026-01-01T08:00:00", "provider": "m", "steps": 2, "prompt_tokens": 900}
    turn |= {"completion_tokens": 60, "stopped": "", "undone": False, "heard": "[]", "asked_by": ""}

    def make_turns():
        for number in range(count):
            session, agent, board = sessions[number // 10 % len(sessions)]
            said = f'[["user", "{number}", "", ""], ["assistant", "{" ".join(pool[number % POOL][0].split())[:600]}", "", ""]]'
            yield turn | {
                "id": make_id("turn", number), "agent_id": agent, "board": board, "session_id": session,
                "number": number, "messages": said,
            }  # fmt: skip

    copy_rows(connection, "turns", make_turns())
    names = ("requests", "prompt_tokens", "completion_tokens", "estimated", "cached", "reasoning")

    def make_sums():
        for board in range(size.boards):
            for days in range(1, 180):
                day = str(LAST_DAY - timedelta(days=days))
                about = {"day": day, "model": "m", "cause": "chat", "channel": "telegram", "money": 0.01, "at": 1.79e9}
                key = {"agent_id": agent_id(size.agents_of(board)[0]), "board": f"board{board}"}
                yield about | key | dict.fromkeys(names, 9) | {"id": make_id("ledger", f"board{board}", day)}

    copy_rows(connection, "ledger", make_sums())


def copy_rows(connection, table, rows):
    names = list(TABLES[table].all_columns)
    empty = {name: {"text": "", "bool": False}.get(kind, 0) for name, kind in TABLES[table].columns.items()}

    def lines():
        for row in rows:
            done = complete_row(table, empty | row, "filler")
            yield "\t".join(escape(str(done[name])) for name in names) + "\n"

    copy_lines(connection, f"{table} ({', '.join(names)})", lines())


def copy_lines(connection, target, lines):
    with connection.cursor() as cursor, cursor.copy(f"COPY picoclaw.{target} FROM STDIN") as copy:
        held, length = [], 0
        for line in lines:
            held.append(line)
            length += len(line)
            if length > 1_000_000:
                copy.write("".join(held))
                held, length = [], 0
        copy.write("".join(held))


def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
