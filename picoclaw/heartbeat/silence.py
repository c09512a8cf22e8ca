"""Whether an answer says only that all is well. What a person would want to be told is never taken for politeness.

An answer is silence when it says HEARTBEAT_OK and, besides, nothing but courtesies and assurances. Each clause of it is
judged by itself: it is calm if it is made of calm words alone, or gives an assurance without a word of alarm. So a fact
that nobody has called good is told, at the price of telling one now and then that was not worth it.
"""

import re
import unicodedata

from picoclaw.markdown import seen

LONGEST = 300
"""Characters beside the word."""

_WORD = re.compile(r"\bheart[ -]?beat ?(?:is )?o[ .]?k(?:ay)?\b\.?")
_CRON_WORD = re.compile(r"\bno\\?_reply\b")  # the words without their line are news: "No reply."
_FENCE = re.compile(r"^[^\S\n]*(?:```|~~~)\w*[^\S\n]*$", re.MULTILINE)
_MARKUP = re.compile(r"</?\w{1,10}/?>|[`*~_\\\"“”«»>#|\[\]{}()^=+]+")
_APART = re.compile(
    r"[.!?;:\n]+(?=\s|$)|\n|\s[-–—]+\s|[–—]|,(?!\d)(?!\s*(?:which|well within|within)\b)|\band\b|\bso\b"
)
_PUNCTUATION = re.compile(r"[^\w\s%°']+")

_NO_TROUBLE = re.compile(
    r"\b(?:no|without|nor|or)(?: (?:new|further|other|urgent|immediate|unusual|any|active|open))*"
    r" (?:issues?|problems?|alerts?|alarms?|warnings?|errors?|concerns?|anomal(?:y|ies)|changes?|actions?|updates?"
    r"|news|attention|intervention)(?: (?:is|are|was|were))?"
    r"(?: (?:found|detected|needed|required|necessary|reported|pending|due|observed|open))?"
    r"|\bno (?:items?|tasks?|reminders?)(?: are| is)? (?:due|pending|needed|(?:needs?|requires?) (?:attention|action))"
    r"|\bnothing(?: (?:new|else|urgent|unusual|special|important|wrong|abnormal))?"
    r"(?: (?:(?:needs?|requires?)(?: your)? (?:attention|action)|to (?:report|tell|do|add|flag|mention|note)"
    r"|has changed|is (?:due|wrong|pending|needed)|(?:is )?out of (?:range|the ordinary))|(?=\s*(?:[.!,;]|$)))"
    r"|\bnot?(?:hing)? need(?:ed)? (?:to|for)(?: \w+)? (?:worry|do anything|attention|act|action)"
    r"|\bnothing that (?:needs?|requires?)(?: your| any)? (?:action|attention)"
    r"|\bnothing to tell you\b|\bno open items\b"
    r"|\bdon't worry\b|\bnot to worry\b|\bno worries\b|\bnothing to worry about\b"
    r"|\blet me know if you need (?:anything|me|help)(?: else)?\b|\bi(?:'ve| have)? (?:gone|went) through\b"
    r"|\bkeep(?:ing)? an eye on (?:things|it|everything)\b|\bhope you(?:'re| are) having\b"
)
_NAMED = re.compile(
    r"\b((?:hi|hello|hey|dear|bye|thanks|thank you"
    r"|(?:good|nice|great|lovely) (?:morning|evening|afternoon|night|day)),?)"
    r" (?!but\b)\w+(?=\s*(?:[.!,\n]|$))"
)
_ASSURANCE = re.compile(
    r"(?:^|\b(?:is|are|was|were|be|looks?|seems?|appears?|remains?|stays?|went|runs?|running|works?|working|going|doing|all"
    r"|everything)(?: (?:all|very|quite|just|perfectly|completely|still|also|both))*) ?"
    r"\b(?:fine|good|great|well|normal(?:ly)?|okay|ok|nominal|healthy|stable|clear|smoothly|perfect|in order)"
    r"(?= (?:in|at|here|now|right now|as|within)\b|$)"
    r"|\buntroubled\b(?= (?:in|at|here|now|right now|with|by|from|on|today)\b|$)"
    r"|\b(?:as (?:expected|usual|planned)|within(?: \w+){0,3} (?:range|ranges|limits|bounds)|in range)$"
)
_ALARM = re.compile(
    r"\b(?:but|however|except\w*|although|though|despite|unless|until|yet|still|only|beware|careful|caution|warn\w*"
    r"|alarm\w*|alert\w*|errors?|fail\w*|fault\w*|no|not|nothing|nobody|never|none|cannot|\w+n't|unable|without|nearly|almost|barely"
    r"|low\w*|high\w*|above|below|over|under|exceed\w*|outside|beyond|hot\w*|cold\w*|dry\w*|wet\w*|leak\w*|flood\w*|fire"
    r"|smok\w*|burn\w*|broke\w*|damag\w*|missing|lost|offline|down|dead|stuck|stopp\w*|stale|unavailable|unreachable"
    r"|unknown|unclear|unsure|uncertain|odd|strange|unusual|unexpected|abnormal|wrong|bad|worse|worst|critical|urgent\w*"
    r"|danger\w*|emergency|problem\w*|issue\w*|concern\w*|trouble\w*|please|must|should|need\w*|required?|want\w*|ask\w*"
    r"|remember|remind\w*|tomorrow|due|empty|full|overdue|late|ill|sick|died|die|dying|rot\w*|mould\w*|mold\w*|pest\w*"
    r"|rain\w*|frost\w*|storm\w*|freez\w*|rising|falling|dropp\w*|increas\w*|decreas\w*|chang\w*|would|could|might|may|if"
    r"|good luck|good thing|well (?:above|below|over|under|beyond)|wish\w*)\b"
)
_SMILES = frozenset("✅☑✔👍👌🙂😊😀😃😄☺🌱🌿🍀🪴🌞☀🎉✨💚🟢🙏👋💤😴🤖💓💗❤🫡")
_CALM = frozenset(
    """
    a all already am an answer are as at boss bye calm care certainly check checked checking checklist checks cheers
    complete completed confirmed day done each enjoy evening every everyone everything fine finished for friend
    gardening good goodbye great greetings happy has have having heartbeat hello here hey hi i i'll i'm i've in is it
    it's items just keep later let list looked looking lovely madam moment monitor monitoring morning my next nice
    night now of on one online operational our passed peaceful pleasant quiet quietly readings report reported
    reporting response rest running safe see sensors sir sleep soon status stay sure system systems take talk thank
    thanks that that's the there this through time to today's understood untroubled upon was watch watching we we'll
    weekend welcome well were what will with wonderful worked yes you you're your yours
    """.split()  # noqa: SIM905 - a list of a hundred words is read like this
)


def is_ok(text: str, wanted: str = "") -> bool:
    """Tell whether an answer need not be told; `wanted` is what the owner has chosen to be answered then."""
    words = _plain(text)
    if wanted and _PUNCTUATION.sub(" ", words).split() == _PUNCTUATION.sub(" ", _plain(wanted)).split():
        return True
    rest, found = _WORD.subn(" . ", words)
    if not found or len(" ".join(rest.split())) > LONGEST:
        return False
    rest = _NAMED.sub(r"\1", _NO_TROUBLE.sub(" untroubled ", rest))
    return all(_is_calm(clause) for clause in _APART.split(rest))


def _plain(text: str) -> str:
    """Small letters without what is not seen, marks of Markdown, and the many forms of a letter."""
    text = unicodedata.normalize("NFKC", seen(text)).replace("’", "'").casefold()
    text = _CRON_WORD.sub("heartbeat ok", _FENCE.sub(" ", text)).replace("everything's", "everything is")
    text = "".join(_shown(char) for char in text)
    text = re.sub(r"(?<=t)[\s_.:*`~\\–—-]+(?=o)", " ", _MARKUP.sub(" ", text))
    return re.sub(r"[^\S\n]+", " ", text)


def _shown(char: str) -> str:
    """A character as it counts: a picture that is no smile stands for something that a person should see."""
    if unicodedata.category(char) == "So":
        return " " if char in _SMILES else " picture "
    return "" if unicodedata.category(char) in {"Cf", "Sk", "Mn"} else char


def _is_calm(clause: str) -> bool:
    words = " ".join(_PUNCTUATION.sub(" ", clause).split())
    if not words or set(words.split()) <= _CALM:
        return True
    return bool(_ASSURANCE.search(words)) and not _ALARM.search(words)
