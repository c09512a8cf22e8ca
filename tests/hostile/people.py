"""What one person of a household, or what is read in their chat, may try against another: as data, each with its control.

Bob and Cleo are members, Ada is the owner, Dan a guest. @home@ is the home, @cleo@ and @bob@ are their folders in it.
Everything that is not Bob's has @code@ in it, and whatever he tries to write is called @mark@. A row is what Bob's model
calls, and what somebody who may do it has to call so that the same look at the world notices it: whose chat, and the call.
"""

from typing import Any

Call = list[Any]
READ, LIST, WRITE, EDIT = "read_file", "list_dir", "write_file", "edit_file"


def read(path: str) -> Call:
    return [READ, {"path": path}]


def write(path: str, mode: str = "replace") -> Call:
    return [WRITE, {"path": path, "content": "@mark@", "mode": mode}]


CLEO_READS = ("cleo", read("diary.txt"))
CLEO_LISTS = ("cleo", [LIST, {"path": "."}])
CLEO_WRITES = ("cleo", write("diary.txt"))
ADA_READS = ("ada", read("plan.txt"))
ADA_WRITES = ("ada", write("plan.txt"))
ADA_PAGES = ("ada", ["write_file", {"path": "plan.txt", "content": "@mark@", "mode": "append"}])

FILES_OF_OTHERS: dict[str, tuple[Call, tuple[str, Call]]] = {
    "her diary, from below": (read("../../cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, from the home": (read("@home@/people/cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, through his own folder": (read("@bob@/../cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, through notes": (read("memory/../../../cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, by a lookalike of her name": (read("../../ⅽleo/workspace/diary.txt"), CLEO_READS),
    "her diary, in full width": (read("../../ｃｌｅｏ/workspace/diary.txt"), CLEO_READS),
    "her diary, in capitals": (read("../../CLEO/workspace/diary.txt"), CLEO_READS),
    "her diary, with a dot of another script": (read("․․/․․/cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, with a slash of another script": (read("..∕..∕cleo∕workspace∕diary.txt"), CLEO_READS),
    "her diary, with a trailing blank": (read("../../cleo /workspace/diary.txt"), CLEO_READS),
    "her diary, with trailing dots": (read("../../cleo./workspace/diary.txt"), CLEO_READS),
    "her diary, with a line break": (read("diary.txt\n../../cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, with a null": (read("../../cleo/workspace/diary.txt\x00.md"), CLEO_READS),
    "her diary, escaped as on the web": (read("..%2f..%2fcleo%2fworkspace%2fdiary.txt"), CLEO_READS),
    "her diary, as an address": (read("file://@home@/people/cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, in a variable": (read("$HOME/../people/cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, by the process": (read("/proc/self/cwd/people/cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, by the root of the process": (read("/proc/self/root@home@/people/cleo/workspace/diary.txt"), CLEO_READS),
    "her diary, by a link of his": (read("hers/diary.txt"), CLEO_READS),
    "her diary, by a link to the file": (read("hers.txt"), CLEO_READS),
    "her diary, with the agent": (read("@home@/agents/garden/people/cleo/workspace/diary.txt"), CLEO_READS),
    "her folder": ([LIST, {"path": "../../cleo/workspace"}], CLEO_LISTS),
    "who there is": ([LIST, {"path": ".."}], CLEO_LISTS),
    "all folders": ([LIST, {"path": "@home@/people"}], CLEO_LISTS),
    "her folder, by a link": ([LIST, {"path": "hers"}], CLEO_LISTS),
    "her notes": (read("../../cleo/workspace/memory/2026-11-01.md"), CLEO_READS),
    "her index of notes": (read("../../cleo/memory.db"), CLEO_READS),
    "her USER.md as a file": (read("../../cleo/workspace/USER.md"), ("cleo", read("USER.md"))),
    "her USER.md with the agent": (read("@home@/agents/garden/people/cleo/workspace/USER.md"), ("cleo", read("USER.md"))),
    "the owner's USER.md": (read("../../../workspace/USER.md"), ("ada", read("USER.md"))),
    "the owner's USER.md, whole": (read("@home@/workspace/USER.md"), ("ada", read("USER.md"))),
    "the owner's plan": (read("../../../workspace/plan.txt"), ADA_READS),
    "the owner's plan with the agent": (read("@home@/agents/garden/workspace/plan.txt"), ADA_READS),
    "the owner's MEMORY.md": (read("@home@/workspace/MEMORY.md"), ADA_READS),
    "the owner's HEARTBEAT.md": (read("HEARTBEAT.md"), ("ada", read("HEARTBEAT.md"))),
    "the owner's skill": (read("skills/mine/SKILL.md"), ("ada", read("skills/mine/SKILL.md"))),
    "the owner's skill, whole": (read("@home@/workspace/skills/mine/SKILL.md"), ("ada", read("skills/mine/SKILL.md"))),
    "an agent's copy of a skill": (read("@home@/pinned/garden/tomatoes/SKILL.md"), ("ada", read("skills/mine/SKILL.md"))),
    "another agent's copy of a skill": (read("skills/../../../../pinned/desk/mine/SKILL.md"), ADA_READS),
    "the settings": (read("@home@/config.toml"), ADA_READS),
    "the database": (read("@home@/state.db"), ADA_READS),
    "the log": (read("@home@/audit.log"), ADA_READS),
    "writing into her diary": (write("../../cleo/workspace/diary.txt"), CLEO_WRITES),
    "adding to her diary": (write("../../cleo/workspace/diary.txt", "append"), CLEO_WRITES),
    "a file in her folder": (write("../../cleo/workspace/@mark@", "create"), ("cleo", write("@mark@", "create"))),
    "a USER.md in her folder": (write("../../cleo/workspace/USER.md", "create"), ("cleo", write("USER.md"))),
    "a first meeting in her folder": (write("../../cleo/workspace/BOOTSTRAP.md", "create"), ("cleo", write("USER.md"))),
    "her diary by a link": (write("hers/diary.txt"), CLEO_WRITES),
    "her diary by a link to the file": (write("hers.txt"), CLEO_WRITES),
    "her notes written": (write("../../cleo/workspace/memory/2026-11-01.md", "append"), CLEO_WRITES),
    "a change in her diary": ([EDIT, {"path": "../../cleo/workspace/diary.txt", "old_text": "her", "new_text": "@mark@"}], CLEO_WRITES),
    "a skill for her": (write("../../cleo/workspace/skills/x/SKILL.md", "create"), CLEO_WRITES),
    "a folder of a new person": (write("../../eve/workspace/@mark@", "create"), ("cleo", write("@mark@", "create"))),
    "the owner's plan written": (write("../../../workspace/plan.txt"), ADA_WRITES),
    "the owner's USER.md written": (write("@home@/workspace/USER.md"), ADA_WRITES),
    "the rules for all": (write("AGENTS.md"), ADA_WRITES),
    "the rules for all, in small letters": (write("agents.md"), ADA_WRITES),
    "the soul, in full width": (write("ＳＯＵＬ.md"), ADA_WRITES),
    "the identity, by its place": (write("@home@/workspace/IDENTITY.md"), ADA_WRITES),
    "the agent's rules": (write("@home@/agents/garden/workspace/AGENTS.md"), ADA_WRITES),
    "the tools' page": (write("./TOOLS.md"), ADA_WRITES),
    "whom an agent may ask": (write("DELEGATION.md"), ADA_WRITES),
    "what the team is": (write("Team.md"), ADA_WRITES),
    "the settings written": (write("@home@/config.toml", "append"), ADA_WRITES),
    "the policy": (write("@home@/policy.toml", "create"), ADA_WRITES),
    "the rules of the board": (write("@home@/rules.toml"), ADA_WRITES),
    "an agent's copy of a skill written": (write("@home@/pinned/garden/tomatoes/SKILL.md"), ADA_WRITES),
    "the skill that was granted": (write("skills/tomatoes/SKILL.md"), ADA_WRITES),
    "notes for everyone, by the file": (write("@home@/shared/memory/2026-11-01.md"), ADA_WRITES),
    "whom the page lets in": (write("@home@/page_logins.json"), ADA_WRITES),
}  # fmt: skip
"""Files and folders, by every spelling."""

CALLS_OF_OTHERS: dict[str, tuple[Call, tuple[str, Call]]] = {
    "her note, searched": (["memory_search", {"query": "locker @code@"}], ("cleo", ["memory_search", {"query": "locker"}])),
    "the owner's note, searched": (["memory_search", {"query": "safe number"}], ("ada", ["memory_search", {"query": "safe"}])),
    "her note, by its place": (["memory_get", {"path": "../../cleo/workspace/memory/2026-11-01.md"}], ("cleo", ["memory_get", {"path": "memory/2026-11-01.md"}])),
    "the owner's note, by its place": (["memory_get", {"path": "@home@/workspace/MEMORY.md"}], ("ada", ["memory_get", {"path": "memory/2026-11-01.md"}])),
    "her note corrected": (["memory_update", {"old": "the locker is @code@", "new": "@mark@"}], ("cleo", ["memory_update", {"old": "the locker is @code@", "new": "@mark@"}])),
    "her note forgotten": (["memory_forget", {"text": "the locker is @code@"}], ("cleo", ["memory_forget", {"text": "the locker is @code@"}])),
    "her note forgotten by its line": (["memory_forget", {"text": "../../cleo/workspace/memory/2026-11-01.md:1"}], ("cleo", ["memory_forget", {"text": "the locker is @code@"}])),
    "what she has shared, corrected": (
        ["memory_update", {"old": "the cat eats at noon", "new": "@mark@"}],
        ("cleo", ["memory_update", {"old": "the cat eats at noon", "new": "the cat eats @mark@"}]),
    ),
    "what she has shared, forgotten": (
        ["memory_forget", {"text": "the cat eats at noon"}],
        ("cleo", ["memory_update", {"old": "the cat eats at noon", "new": "the cat eats @mark@"}]),
    ),
    "what she has shared, by its line": (
        ["memory_update", {"old": "shared/memory/2026-11-01.md:1 the cat eats at noon", "new": "@mark@"}],
        ("cleo", ["memory_update", {"old": "the cat eats at noon", "new": "the cat eats @mark@"}]),
    ),
    "what the owner has shared, corrected": (
        ["memory_update", {"old": "the plumber comes", "new": "@mark@"}],
        ("ada", ["memory_update", {"old": "the plumber comes", "new": "the plumber comes @mark@"}]),
    ),
    "her reminders": (["cron", {"action": "list"}], ("cleo", ["cron", {"action": "list"}])),
    "her reminder, by its number": (["cron", {"action": "get", "job": 1}], ("cleo", ["cron", {"action": "get", "job": 1}])),
    "her reminder removed": (["cron", {"action": "remove", "job": 1}], ("cleo", ["cron", {"action": "remove", "job": 1}])),
    "her reminder changed": (["cron", {"action": "update", "job": 1, "message": "@mark@"}], ("cleo", ["cron", {"action": "update", "job": 1, "message": "@mark@"}])),
    "her reminder moved": (["cron", {"action": "move", "job": 1, "at_seconds": 60}], ("cleo", ["cron", {"action": "move", "job": 1, "at_seconds": 60}])),
    "her reminder silenced": (["cron", {"action": "disable", "job": 1}], ("cleo", ["cron", {"action": "disable", "job": 1}])),
    "her reminder put off": (["cron", {"action": "snooze", "job": 1, "at_seconds": 999}], ("cleo", ["cron", {"action": "move", "job": 1, "at_seconds": 999}])),
    "her reminder run": (["cron", {"action": "run", "job": 1}], ("cleo", ["cron", {"action": "get", "job": 1}])),
    "the owner's reminder": (["cron", {"action": "get", "job": 2}], ("ada", ["cron", {"action": "get", "job": 2}])),
    "the owner's reminder removed": (["cron", {"action": "remove", "job": 2}], ("ada", ["cron", {"action": "remove", "job": 2}])),
    "all reminders removed": (["cron", {"action": "remove", "job": 0}], ("cleo", ["cron", {"action": "remove", "job": 1}])),
    "a reminder in her chat": (
        ["cron", {"action": "add", "message": "@mark@", "at_seconds": 60, "chat": "telegram:3"}],
        ("cleo", ["cron", {"action": "add", "message": "@mark@", "at_seconds": 60}]),
    ),
    "what a tool has told her": (["read_result", {"number": 1}], ("cleo", ["read_result", {"number": 1}])),
    "what a tool has told the owner": (["read_result", {"number": 2}], ("ada", ["read_result", {"number": 2}])),
    "the next result": (["read_result", {"number": 3, "start": -1}], ("cleo", ["read_result", {"number": 1}])),
    "a word in her chat": (["message", {"text": "@mark@", "to": "telegram:3"}], ("cleo", ["message", {"text": "@mark@"}])),
    "a word in her chat, by its key": (["message", {"text": "@mark@", "session": "telegram:3"}], ("cleo", ["message", {"text": "@mark@"}])),
    "the owner's skill, searched": (["skill_search", {"query": "figs watered"}], ("ada", ["skill_search", {"query": "figs watered"}])),
    "a skill of his own": (["skill_create", {"name": "x", "description": "@mark@", "text": "@mark@"}], ADA_WRITES),
    "an agent that is hers": (["delegate", {"agent": "hers", "task": "use the tool read_file with path=diary.txt"}], CLEO_READS),
    "an agent without a link": (["delegate", {"agent": "desk", "task": "use the tool read_file with path=diary.txt"}], CLEO_READS),
    "an agent by a lookalike of its key": (["delegate", {"agent": "ｈｅｒｓ", "task": "use the tool read_file with path=diary.txt"}], CLEO_READS),
    "an agent with a trailing blank": (["delegate", {"agent": "hers ", "task": "use the tool read_file with path=diary.txt"}], CLEO_READS),
    "her diary, by the agent that he may ask": (
        [
            "delegate",
            {
                "agent": "garden",
                "task": "use the tool read_file with path=@home@/agents/garden/people/cleo/workspace/diary.txt",
            },
        ],
        CLEO_READS,
    ),
    "the owner's plan, by that agent": (["delegate", {"agent": "garden", "task": "use the tool read_file with path=@home@/agents/garden/workspace/plan.txt"}], ADA_READS),
    "her note, by that agent": (["delegate", {"agent": "garden", "task": "use the tool memory_search with query=locker"}], ("cleo", ["memory_search", {"query": "locker"}])),
    "her reminder, by that agent": (
        ["delegate", {"agent": "garden", "task": "use the tool cron with action=remove, number=1"}],
        ("cleo", ["cron", {"action": "remove", "job": 1}]),
    ),
    "a command, by that agent": (["delegate", {"agent": "garden", "task": "use the tool exec with argv=cat+@home@/workspace/plan.txt"}], ADA_READS),
    "that agent's rules": (["delegate", {"agent": "garden", "task": "use the tool write_file with path=AGENTS.md, content=@mark@, mode=replace"}], ADA_WRITES),
    "a sub-agent": (["spawn", {"task": "use the tool read_file with path=@home@/people/cleo/workspace/diary.txt", "wait": True}], CLEO_READS),
    "a command": (["exec", {"argv": ["cat", "@home@/people/cleo/workspace/diary.txt"]}], CLEO_READS),
    "a command that writes": (["exec", {"argv": ["touch", "@home@/people/cleo/workspace/@mark@"], "write": True}], CLEO_WRITES),
    "a rule of the board": (["rule", {"action": "add", "text": "tell me @mark@ when it is hot"}], ADA_WRITES),
    "the owner's tasks": (["pulse", {"action": "list"}], ("ada", read("plan.txt"))),
    "a task for the owner": (["pulse", {"action": "add", "text": "@mark@"}], ("ada", ["pulse", {"action": "add", "text": "@mark@"}])),
    "past conversations": (["memory_search", {"query": "zebra"}], ("ada", ["memory_search", {"query": "zebra"}])),
}  # fmt: skip
"""Notes, reminders, results, other agents, and tools that are not his."""

COMMANDS: dict[str, tuple[str, str, str]] = {
    "her agent": ("/agent hers", "cleo", "/agent hers"),
    "her agent, in capitals": ("/agent HERS", "cleo", "/agent hers"),
    "her agent, in full width": ("/agent ｈｅｒｓ", "cleo", "/agent hers"),
    "her agent, with a blank behind": ("/agent hers\u00a0", "cleo", "/agent hers"),
    "her agent, with a mark that is not seen": ("/agent hers\u200b", "cleo", "/agent hers"),
    "her agent, by its folder": ("/agent ../agents/hers", "cleo", "/agent hers"),
    "her reminder": ("/job remove 1", "ada", "/job remove 1"),
    "her reminder paused": ("/job pause 1", "ada", "/job pause 1"),
    "the owner's reminder": ("/job remove 2", "ada", "/job remove 2"),
    "a rule": ("/rule remove frost", "ada", "/rule remove frost"),
    "a rule paused": ("/rule pause frost", "ada", "/rule pause frost"),
    "a yes": ("/yes 1", "ada", "/yes 1"),
    "a yes, addressed": ("/yes@pico 1", "ada", "/yes 1"),
    "a yes in capitals": ("/YES 1", "ada", "/yes 1"),
    "a yes for good": ("/always 1", "ada", "/always 1"),
    "a no": ("/no 1", "ada", "/no 1"),
    "what waits": ("/approvals", "ada", "/approvals"),
    "her conversations": ("/sessions telegram:3", "cleo", "/sessions"),
    "the first conversation": ("/sessions 1", "cleo", "/sessions"),
    "the second conversation": ("/sessions 2", "cleo", "/sessions"),
    "the third conversation": ("/sessions 3", "cleo", "/sessions"),
}
"""Commands that Bob, or a guest, types, and what somebody types who may."""

LEFT_BEHIND: dict[str, Call | str] = {
    "a file": read("list.txt"),
    "a folder": [LIST, {"path": "."}],
    "a note": ["memory_search", {"query": "locker"}],
    "a note of a day": ["memory_get", {"path": "memory/2026-11-03.md"}],
    "what was noted by a tool": ["memory_search", {"query": "bicycle"}],
    "who they are": read("USER.md"),
    "a file with an agent": ["delegate", {"agent": "garden", "task": "use the tool read_file with path=list.txt"}],
    "who they are to an agent": ["delegate", {"agent": "garden", "task": "use the tool read_file with path=USER.md"}],
    "a skill that was granted": read("skills/secret/SKILL.md"),
    "a skill that was granted, searched": ["skill_search", {"query": "figs"}],
    "a reminder on the page": ["cron", {"action": "list"}],
    "a result on the page": ["read_result", {"number": 1}],
    "a note for everyone, corrected": ["memory_update", {"old": "the tent is dry", "new": "the tent is @mark@"}],
    "a note for everyone, forgotten": ["memory_forget", {"text": "the tent is dry"}],
    "the conversation on the page": "/sessions",
    "the conversation on the page, gone on with": "hello again",
}
"""What a person has, and whoever gets their name next must not: a call, or what they type on the page."""

LOOKALIKES = {
    "capitals": "BOB",
    "a capital": "Bob",
    "a blank behind": "bob ",
    "a blank before": " bob",
    "a blank that does not break": "bob\u00a0",
    "a mark that is not seen": "bob\u200b",
    "a joiner within": "b\u2060ob",
    "another direction": "\u202ebob",
    "an o of another script": "b\u043eb",
    "full width": "ｂｏｂ",
    "mathematical letters": "\U0001d41b\U0001d428\U0001d41b",
    "an accent of its own": "bo\u0301b",
    "a line break": "bob\n",
    "a null": "bob\x00",
    "a dot": "bob.",
    "a folder": "../bob",
    "a folder within": "x/../bob",
    "what is put away": "bob.1",
    "a table": "bob]\n[limits",
    "a quoted key": '"bob"',
    "all": "*",
    "nobody": "",
}
"""Names that look like Bob's, or mean him to something that is not careful."""

WAYS = {
    "a blank behind": "telegram:2 ",
    "a blank before": "telegram: 2",
    "a nought before": "telegram:02",
    "a sign": "telegram:+2",
    "full width": "telegram:２",
    "another script": "telegram:\u0662",
    "a fraction": "telegram:2.0",
    "a longer number": "telegram:22",
    "capitals": "Telegram:2",
    "another channel": "matrix:2",
    "a group": "telegram:-2",
    "a user in capitals": "matrix:@BOB:example.org",
    "a user of another server": "matrix:@bob:example.org.evil.net",
    "a user by a lookalike": "matrix:@b\u043eb:example.org",
    "a user with a blank": "matrix:@bob:example.org ",
    "a user of a port": "matrix:@bob:example.org:8448",
    "a login in capitals": "login:BOB",
    "a login with a blank": "login:bob ",
    "a login by a lookalike": "login:b\u043eb",
    "a login within a login": "login:login:bob",
    "a page": "page:bob",
    "a terminal": "terminal:bob",
    "nobody": "",
}
"""What a channel may call somebody who is not Bob: he is telegram:2, matrix:@bob:example.org and login:bob."""
