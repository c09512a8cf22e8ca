"""Which skills a turn is shown: a listing of all, those whose trigger was said, or the best of a search. Pure."""

from collections.abc import Callable, Iterable, Sequence

from picoclaw.prompts import count_bytes, estimate_tokens
from picoclaw.skills.skill import Skill
from picoclaw.text import bm25, fold_case

MAX_LISTING_BYTES = 30_720
MAX_LISTED = 20
MAX_LISTING_TOKENS = 3_500
MAX_TRIGGERED = 3
WORDS_SHARE, MEANING_SHARE = 0.3, 0.7
TEXT_WEIGHT = 0.3

_FIRST_UNSPACED_CHAR = "\u2e80"  # from here on are scripts that do not put spaces between words


def format_listing(skills: Iterable[Skill]) -> str:
    """List the skills a line each, as many as go into 30 KB."""
    lines: list[str] = []
    room = MAX_LISTING_BYTES
    for skill in _filter_listed(skills):
        line = _format_line(skill)
        room -= count_bytes(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _filter_listed(skills: Iterable[Skill]) -> list[Skill]:
    return [skill for skill in skills if skill.listed]


def _format_line(skill: Skill) -> str:
    return f"- {skill.name}: {skill.description}"


def fits_prompt(skills: Sequence[Skill], bytes_a_token: float) -> bool:
    """Tell whether the listing may stand in the prompt; otherwise skills are searched for."""
    lines = [_format_line(skill) for skill in _filter_listed(skills)]
    whole = sum(count_bytes(line) + 1 for line in lines)
    return (
        len(lines) <= MAX_LISTED
        and whole <= MAX_LISTING_BYTES
        and estimate_tokens(whole, bytes_a_token) <= MAX_LISTING_TOKENS
    )


def find_triggered(skills: Iterable[Skill], text: str) -> list[Skill]:
    """Find the skills of which a trigger is in the text in whole words; the longest trigger first, at most 3."""
    said = _fold_text(text)
    found = {skill: length for skill in skills if (length := _measure_longest_trigger(skill, said))}
    return sorted(found, key=lambda skill: (-found[skill], skill.name))[:MAX_TRIGGERED]


def _measure_longest_trigger(skill: Skill, said: str) -> int:
    return max((len(trigger) for trigger in skill.triggers if _has_phrase(_fold_text(trigger), said)), default=0)


def _fold_text(text: str) -> str:
    return " ".join(fold_case(text).split())


def _has_phrase(trigger: str, text: str) -> bool:
    at = text.find(trigger) if trigger else -1
    while at >= 0:
        end = at + len(trigger)
        if not _is_one_word(text[at - 1 : at], trigger[0]) and not _is_one_word(trigger[-1], text[end : end + 1]):
            return True
        at = text.find(trigger, at + 1)
    return False


def _is_one_word(before: str, after: str) -> bool:
    """Tell whether two neighbouring characters belong to one word."""
    return all(char.isalnum() and char < _FIRST_UNSPACED_CHAR for char in (before, after))


def search_skills(
    skills: Sequence[Skill],
    query: str,
    most: int = 5,
    alike: Callable[[str, Sequence[str]], Sequence[float]] | None = None,
) -> list[tuple[Skill, float]]:
    """Find the listed skills that fit a query, the best first, with their scores.

    The words of a skill's text count for 0.3 of those of its name, description and triggers. `alike` tells how near in
    meaning the query is to each of some texts, from 0 to 1, where embeddings exist. The score is then 0.3 of the words'
    (the best is 1) and 0.7 of the meaning's.
    """
    skills = _filter_listed(skills)
    texts = [f"{skill.name} {skill.description} {' '.join(skill.triggers)}" for skill in skills]
    inside = bm25(query, [skill.keywords for skill in skills])
    scores = [head + TEXT_WEIGHT * text for head, text in zip(bm25(query, texts), inside, strict=True)]
    if alike:
        best = max(scores, default=0.0) or 1.0
        near = alike(query, texts)
        scores = [WORDS_SHARE * s / best + MEANING_SHARE * max(0.0, n) for s, n in zip(scores, near, strict=True)]
    ranked = sorted(zip(skills, scores, strict=True), key=lambda pair: (-pair[1], pair[0].name))
    return [pair for pair in ranked if pair[1] > 0][:most]
