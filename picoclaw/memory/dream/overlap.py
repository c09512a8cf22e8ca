"""Skills that say they are for the same: by their triggers and by the words of their descriptions. No model. Pure."""

from collections.abc import Iterable
from itertools import combinations

from picoclaw.ranking import folded, words
from picoclaw.skills.library import BUILT_IN
from picoclaw.skills.skill import Skill

ALIKE = 0.5
_FEWEST_WORDS = 3


def overlaps(skills: Iterable[Skill]) -> list[str]:
    """Name the pairs that overlap, and in what; two that picoclaw brings along are its own matter."""
    ordered = sorted(skills, key=lambda skill: skill.name)
    said = {skill.name: _words(skill) for skill in ordered}
    found = []
    for one, other in combinations(ordered, 2):
        if one.tier == other.tier == BUILT_IN:
            continue
        both = [trigger for trigger in one.triggers if folded(trigger) in set(map(folded, other.triggers))]
        alike = _alike(said[one.name], said[other.name])
        if both:
            found.append(f"{one.name} and {other.name} have the trigger {both[0]!r}")
        elif alike >= ALIKE:
            found.append(f"{one.name} and {other.name} are described alike ({alike:.0%} of their words)")
    return found


def _words(skill: Skill) -> frozenset[str]:
    return frozenset(words(f"{skill.description} {' '.join(skill.triggers)}"))


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of common words, 0 where there are too few to tell."""
    return len(one & other) / len(one | other) if min(len(one), len(other)) >= _FEWEST_WORDS else 0.0
