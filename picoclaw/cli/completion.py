"""`picoclaw completion`: a script for bash or zsh, made from what every command declares."""

from collections.abc import Iterable, Iterator, Mapping

from picoclaw.cli import VERBS, load_verb
from picoclaw.cli.arguments import Argument, Options, Parser

_BASH = """\
# Tab completion of picoclaw for bash, made by `picoclaw completion bash`.
_picoclaw() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} place= part offered=
    for part in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
        case " {places} " in *" ${{place:+$place/}}$part "*) place=${{place:+$place/}}$part ;; esac
    done
    case "$place $before" in
{values}
    *)
        case $place in
{words}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$offered" -- "$current"))
}}
complete -o default -F _picoclaw picoclaw
"""
_ZSH = """\
#compdef picoclaw
# Tab completion of picoclaw for zsh, made by `picoclaw completion zsh`.
_picoclaw() {{
    local place= part
    local -a offered
    for part in "${{(@)words[2,CURRENT-1]}}"; do
        case " {places} " in *" ${{place:+$place/}}$part "*) place=${{place:+$place/}}$part ;; esac
    done
    case "$place ${{words[CURRENT-1]}}" in
{values}
    *)
        case $place in
{words}
        esac ;;
    esac
    _describe picoclaw offered || _files
}}
if [ "$funcstack[1]" = _picoclaw ]; then _picoclaw "$@"; else compdef _picoclaw picoclaw; fi
"""


def options(parser: Parser) -> None:
    parser.add_argument("shell bash|zsh", choices=("bash", "zsh"))


def run(given: Options) -> int:
    taken: dict[str, list[Argument]] = {}
    offered = {"": {verb: purpose for verb, (purpose, _) in VERBS.items()}}
    for verb in VERBS:
        parser = Parser(verb)
        load_verb(verb)[0](parser)
        taken[verb] = parser.list_arguments()
        offered[verb] = {name: word.purpose for name, word in parser.words.items()}
        taken |= {f"{verb}/{name}": parser.list_arguments(name) for name in parser.words}
    values: dict[tuple[str, tuple[str, ...]], list[str]] = {}  # places by option and its values
    for place, arguments in taken.items():
        offered[place] = offered.get(place, {}) | dict(_list_offered(arguments))
        for one in arguments:
            for name in one.names if one.choices else ():
                values.setdefault((name, tuple(one.choices)), []).append(place)
    names = [name for name, _ in values]
    cases = {
        "|".join(
            [f'*" {name}"'] if names.count(name) == 1 else [f'"{place} {name}"' for place in dict.fromkeys(places)]
        ): choices
        for (name, choices), places in sorted(values.items())
    }
    quote = _quote_zsh if given.shell == "zsh" else _quote_bash
    print(
        (_ZSH if given.shell == "zsh" else _BASH).format(
            places=" ".join(taken),
            values="\n".join(f"    {case}) {quote(dict.fromkeys(choices, ''))} ;;" for case, choices in cases.items()),
            words="\n".join(f"        {place or repr('')}) {quote(words)} ;;" for place, words in offered.items()),
        ),
        end="",
    )
    return 0


def _list_offered(arguments: Iterable[Argument]) -> Iterator[tuple[str, str]]:
    for one in arguments:
        yield from ((choice, "") for choice in one.choices if not one.names)
        yield from ((name, one.help) for name in one.names if name.startswith("--") or len(one.names) == 1)


def _quote_bash(words: Mapping[str, str]) -> str:
    return f'offered="{" ".join(words)}"'


def _quote_zsh(words: Mapping[str, str]) -> str:
    shown = (f"{word}:{text}".replace("'", "'\\''") if text else word for word, text in words.items())
    return "offered=({})".format(" ".join(f"'{one}'" for one in shown))
