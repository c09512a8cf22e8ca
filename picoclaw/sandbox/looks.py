"""Programs that only look, and have to see more than the walls show: the host's network, its processes, its firmware.

By exact words: a program of the system's own, its name alone, with nothing but arguments that are named here.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Sight(NamedTuple):
    """What a program is shown beyond the walls; it can change nothing of it."""

    network: bool = False
    processes: bool = False
    devices: tuple[str, ...] = ()


_INTERFACE = r"(?:lo|(?:eth|wlan|en|wl|ww|usb|br|docker|tun|tap|wg|can|bond|vlan)[a-zA-Z0-9@.:_-]{0,14})"
_NETWORK = Sight(network=True)
_PROCESSES = Sight(processes=True)
_WORD = r"[A-Za-z0-9_.,:@%+=-]{1,64}"
_WORDS = rf"(?:{_WORD}(?: {_WORD})*)?"  # read in one way only: what can be in many takes for ever
_PATTERNS = r"[!-~]{1,200}(?: [!-~]{1,200})*"

_FIRMWARE = (
    r"(?:measure_temp|measure_volts|measure_clock|get_throttled|get_mem|get_config|get_camera|get_rsts|version"
    r"|bootloader_version|bootloader_config|codec_enabled|mem_oom|mem_reloc_stats|read_ring_osc|pmic_read_adc"
    r"|hdmi_timings|otp_dump|commands)(?: [A-Za-z0-9_]{1,32})?"
)
_ROUTES = (
    r"(?:-(?:4|6|br|brief|s|stats|j|json|p|pretty|o|oneline|d|details|c|color=never) ){0,6}"
    rf"(?:a|addr|address|l|link|r|route|n|neigh)(?: (?:show|list|ls))?(?: (?:dev )?{_INTERFACE})?(?: up)?"
    r"|(?:r|route) get [0-9a-f.:]{2,39}"
)

_KNOWN: Mapping[str, tuple[Sight, str]] = {
    "vcgencmd": (Sight(devices=("/dev/vcio",)), _FIRMWARE),
    "ip": (_NETWORK, _ROUTES),
    "ss": (_NETWORK, r"(?:-[tuwxlnpaeimos46]{1,12} ?)*"),
    "hostname": (_NETWORK, r"(?:-[IisfdA]|--all-ip-addresses)?"),
    "ifconfig": (_NETWORK, rf"(?:-a|{_INTERFACE})?"),
    "iwgetid": (_NETWORK, rf"(?:{_INTERFACE})?(?: ?-r| ?--raw)?"),
    "iwconfig": (_NETWORK, rf"(?:{_INTERFACE})?"),
    "iw": (_NETWORK, rf"dev(?: {_INTERFACE} (?:link|info|station dump))?"),
    "netstat": (_NETWORK, r"-i|(?=.*n)-[tuwxlnpaeiosr46]{1,12}(?: -[tuwxlnpaeiosr46]{1,12})*"),
    "route": (_NETWORK, r"(?=.*n)-[ne46]{1,4}"),
    "arp": (_NETWORK, r"(?=.*n)-[aen]{1,3}"),
    "cat": (_NETWORK, r"/proc/net/[a-z0-9_]{1,20}"),
    "ps": (_PROCESSES, _WORDS),
    "pgrep": (_PROCESSES, _PATTERNS),
    "pidof": (_PROCESSES, _PATTERNS),
    "pstree": (_PROCESSES, _WORDS),
    "top": (_PROCESSES, rf"(?=(?:.* )?-[a-zA-Z]*b){_WORDS}"),
}


_PATHS = r"(?:/[A-Za-z0-9_./-]{0,100}(?: /[A-Za-z0-9_./-]{0,100})*)?"
_OPTIONS = r"(?:-[A-Za-z0-9]{1,6}|--[a-z-]{1,20})"
_SYSTEMS_OWN: Mapping[str, str] = {
    **dict.fromkeys(
        ("uptime", "uname", "arch", "nproc", "id", "whoami", "pwd", "cal", "free", "lscpu", "vmstat", "locale"),
        rf"(?:{_OPTIONS}(?: |$))*(?:\d{{1,4}} ?){{0,2}}",
    ),
    "date": r"(?:-u|-R|-I[a-z]*|--utc)?(?: ?\+[^ ]{1,100})?",
    "df": rf"(?:{_OPTIONS}(?: |$))*{_PATHS}",
    "getconf": r"[A-Z_a-z]{1,40}",
    "cat": r"/proc/(?:cpuinfo|meminfo|loadavg|uptime|version|stat|vmstat|modules|device-tree/model|net/[a-z0-9_]{1,20})"
    r"|/etc/(?:os-release|debian_version|hostname|timezone)",
    **{name: _KNOWN[name][1] for name in ("vcgencmd", "ip", "hostname", "ifconfig", "netstat", "route", "arp")},
    "ss": r"(?:-[tuwxlnaeimos46]{1,12} ?)*",
}
"""Of what programs say that only look, nobody but the system is the author: no file's content, no names of others."""


_TAR = r"[cxtzjJvfpkC]+"
_LOADS_NOTHING: Mapping[str, str] = {
    **dict.fromkeys(("mkdir", "rmdir"), r"-[pv]+|--parents|--verbose"),
    **dict.fromkeys(
        ("rm", "cp", "mv", "ln", "chmod", "touch"), r"-[aAcdDfHiLmnpPrRsTuv]+|--(?:recursive|force|verbose)"
    ),
    **dict.fromkeys(("ls", "cat", "head", "tail", "wc", "stat", "du", "cut", "uniq"), r"-[A-Za-z0-9]+"),
    **dict.fromkeys(("truncate", "tee", "sha256sum", "md5sum", "gzip", "gunzip"), r"-[A-Za-z0-9]+"),
    "sort": r"-[bdfghinMRruVkto0-9,.]+",
    "tar": rf"-{_TAR}|--(?:gzip|create|extract|list|verbose|file)",
    "git": r"-[aAbdmMqsu]+|--(?:short|all|amend|stat|message|quiet)",
}
"""Programs that run no code out of a folder they work in, with options of theirs that have them run no other program.

Hooks and settings of git are such code; nothing else beside them is.
"""
_GIT = frozenset(
    {"status", "add", "commit", "branch", "tag", "init", "mv", "rm", "log", "restore", "switch", "checkout"}
)


def loads_nothing(argv: Sequence[str]) -> bool:
    """Tell whether a command runs no code from files that it does not name, whatever lies around it."""
    options = _LOADS_NOTHING.get(argv[0])
    if options is None or (argv[0] == "git" and (len(argv) < 2 or argv[1] not in _GIT)):
        return False
    if argv[0] == "tar" and not (len(argv) > 1 and re.fullmatch(rf"-?{_TAR}|--[a-z]+", argv[1])):
        return False  # its first word is options, also without a dash
    return all(not word.startswith("-") or word == "--" or re.fullmatch(options, word) for word in argv[1:])


def is_systems_own(argv: Sequence[str]) -> bool:
    """Tell whether what a command prints is the system's own words, whatever somebody may have written anywhere."""
    found = _SYSTEMS_OWN.get(argv[0])
    return bool(found and re.fullmatch(found, " ".join(argv[1:])))


def sight(argv: Sequence[str]) -> Sight:
    """Tell what a command is shown; nothing more than the walls do for one that is not in the table."""
    found = _KNOWN.get(argv[0])
    if found and re.fullmatch(found[1], " ".join(argv[1:])):
        return found[0]
    return Sight()
