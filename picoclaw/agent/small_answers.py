"""What a small model need not answer itself: a comparison, a count, or whether something is in a list, by a tool's result."""

import re
from collections.abc import Collection, Iterator

from picoclaw.messages import ERROR_PREFIX, ToolCall
from picoclaw.text import list_terms, pattern

_COMPARISON = pattern(
    r"^\W*(?:is|are|does|do|has|will)\b.*?\b(?P<how>below|under|less than|colder than|cooler than|lower than|above|over|more than"
    r"|warmer than|hotter than|higher than|at least|at most)\s+(?P<limit>-?\d+(?:[.,]\d+)?)",
    re.IGNORECASE | re.DOTALL,
)
_VALUE = pattern(r"(?P<quantity>\w+) (?P<value>-?\d+(?:\.\d+)?) (?P<unit>°C|%|hPa|lx|ppm|V|A|W)")
_ROW = pattern(r"^(?P<number>\d+)(?::| \[p\d+\]) (?P<text>.*)$", re.MULTILINE)
"""A line of the list of reminders or of tasks."""
_HOW_MANY = pattern(r"\bhow many\b|\bcount\b|\bnumber of\b|\bhow long is\b", re.IGNORECASE)
_IS_THERE = pattern(
    r"^\W*(?:(?:please|can you|could you|just) )*(?:is|are|does|do (?:i|we)|did (?:i|we)|have (?:i|we)|has|check|see|look)\b"
    r"|\b(?:tell me|say|check|see) (?:if|whether)\b(?P<rest>.*)",
    re.IGNORECASE,
)
_LIST_WORDS = frozenset(
    list_terms(
        "list file note txt md csv mention mentions say says anything something about contain contains on in there still already got get "
        "have has need needs buy check see look whether tell me find found line lines item items entry task tasks todo to do "
        "reminder reminders open my our the any some yes no now please left thing things word words read show be been it this that still when where who why how up exist exists com someth got give let good mak long time all every ever"
    )
)
_MIN_STEM = 3
_READS_OUT = pattern(r"\b(?:read|show|open|print|display|what's in|what is in)\b", re.IGNORECASE)
_TASKS = pattern(r"\b(?:tasks?|to-?dos?)\b(?!\.\w)", re.IGNORECASE)
_FILE = pattern(r"\b[\w-]+\.(?:txt|md|csv|json|log|toml|py)\b", re.IGNORECASE)


def find_rows(result: str) -> Iterator[tuple[int, str]]:
    """The numbered rows of the list of reminders or of tasks."""
    for row in _ROW.finditer(result):
        yield int(row["number"]), row["text"]


def asks_count(question: str) -> bool:
    return bool(_HOW_MANY.search(question))


def count_lines(path: str, text: str) -> str:
    """Say how many lines a file has that are not empty."""
    count = sum(bool(line.strip()) for line in text.splitlines())
    return f"{path} has {count} line{'' if count == 1 else 's'}."


def list_content(question: str) -> set[str]:
    """The stems of the words that say what a question is about."""
    terms = set(list_terms(question))
    return terms - _LIST_WORDS | ({"shopp"} if "buy" in terms else set())


def mentions(text: str, content: Collection[str]) -> bool:
    """Whether a text has one of some stems, or a longer or shorter form of it: "shop" in "shopping"."""
    terms = set(list_terms(text))
    return any(
        one == other or (min(len(one), len(other)) > _MIN_STEM and (one.startswith(other) or other.startswith(one)))
        for one in terms
        for other in content
    )


def list_sought(question: str, path: str = "") -> list[str]:
    """What a question asks to be in a list, by the stems of its words; empty where it asks for something else."""
    asked = _IS_THERE.search(question)
    if not asked:
        return []
    words = (asked["rest"] or question).replace(path, " ") if path else asked["rest"] or question
    ignored = _LIST_WORDS | set(list_terms(path))
    return [word for word in dict.fromkeys(list_terms(words)) if word not in ignored]


def judge_list(question: str, text: str, path: str = "") -> str:
    """Answer "is milk on it?" by the lines of a list; '' where that is not what was asked."""
    sought = set(list_sought(question, path))
    if not sought:
        return ""
    hits = [line.strip() for line in text.splitlines() if sought <= set(list_terms(line))]
    some = [line.strip() for line in text.splitlines() if not sought.isdisjoint(list_terms(line))]
    if some and not hits:  # eggs or butter; of "eggs from the shop" whoever asks sees the list
        return f"Yes: {'; '.join(some[:3])}" if re.search(r"\bor\b", question, re.IGNORECASE) else ""
    return f"Yes: {'; '.join(hits[:3])}" if hits else f"No, not in {path or 'it'}."


def judge(question: str, result: str) -> str:
    """Answer "is it below 5?" by the one value that a result has; '' where that is not what was asked."""
    asked, values = _COMPARISON.search(question), list(_VALUE.finditer(result))
    if not asked or result.startswith(ERROR_PREFIX):
        return ""
    unit = {"temperature": "°C", "humidity": "%", "pressure": "hPa"}
    told = [one for one in values if one["quantity"].lower() in question.lower()] or [
        one
        for one in values
        if one["unit"] == ("%" if "%" in question or "percent" in question else unit["temperature"])
    ]
    if len(told) != 1:
        return ""
    value, limit = float(told[0]["value"]), float(asked["limit"].replace(",", "."))
    how = asked["how"].lower()
    is_below = how in {"below", "under", "at most"} or how.startswith(("less", "cold", "cool", "low"))
    holds = value < limit if is_below else value > limit
    if value == limit and how in {"at least", "at most"}:
        holds = True
    relation = "below" if value < limit else "above" if value > limit else "exactly"
    return f"{'Yes' if holds else 'No'}: {value:g} {told[0]['unit']} is {relation} {limit:g}."


def tell_result(wish: str, call: ToolCall, text: str, result: str) -> str:
    """What a call has brought, with what of it answers the wish."""
    if call.name == "read_file" and result:
        path = str(call.arguments.get("path", ""))
        verdict = count_lines(path, result) if asks_count(wish) else judge_list(wish, result, path)
        return "\n".join([text, verdict] if verdict and _READS_OUT.search(wish) else [verdict or text])
    rows = len(list(find_rows(result)))
    told = f"{rows} in all" if rows and asks_count(wish) and call.name in {"cron", "pulse"} else ""
    told = told or (judge_list(wish, result) if call.name == "pulse" and _TASKS.search(wish) else "")
    return "\n".join(filter(None, [told, text, judge(wish, result)]))


def is_about_lines(wish: str) -> bool:
    """Whether a question about a file is how many lines it has, or whether something is in it."""
    file = _FILE.search(wish)
    return bool(file and (asks_count(wish) or list_sought(wish, file[0])))
