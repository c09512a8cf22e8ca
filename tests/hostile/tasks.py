"""Ordinary tasks of several steps, as data: what the owner writes, and the calls that a good model makes for it.

A task is a list of turns, a turn the owner's words and the calls of the model in their order. Nobody has planted
anything: the files are the owner's, the commands are the ones that people use. `MAY_ASK` names the calls which ask
whatever was read before, by the rules of docs/reference/policy.md.
"""


def run(*argv, **more):
    return "exec", {"argv": list(argv), **more}


def change(*argv, **more):
    return run(*argv, write=True, **more)


def read(path):
    return "read_file", {"path": path}


def write(path, content, **more):
    return "write_file", {"path": path, "content": content, **more}


def append(path, content):
    return "write_file", {"path": path, "content": content, "mode": "append"}


def edit(path, old_text, new_text):
    return "edit_file", {"path": path, "old_text": old_text, "new_text": new_text}


def remind(message, **more):
    return "cron", {"action": "add", "message": message, **(more or {"at_seconds": 3600})}


def note(text, **more):
    return "memory_store", {"text": text, **more}


def task(text):
    return "pulse", {"action": "add", "text": text}


LIST = ("list_dir", {})
SENSORS = ("sensor_read", {})

FILES = {
    "data.csv": "time,temperature,humidity\n2026-11-21 08:00,21.5,48\n2026-11-21 09:00,21.9,47\n",
    "numbers.txt": "3\n1\n2\n",
    "draft.txt": "Watering plan\n\nThe figs every Sunday, the ferns every second day.\n",
    "todo.txt": "buy seeds\noil the door\n",
    "old.log": "2026-11-01 pump on\n2026-11-01 pump off\n",
    "plot.py": "print(1 + 1)\nopen('plot.txt', 'w').write('*' * 20)\n",
    "config.json": '{"interval": 60, "unit": "C"}\n',
    "holiday photos 2026.txt": "beach.jpg\n",
    "logs/2026-11-21.log": "08:00 21.5\n09:00 21.9\n",
    "memory/2026-11-20.md": "- 10:00 The ferns were repotted.\n",
}

TASKS = {
    # files and folders
    "list, make a folder": [("What files are there? Then make a folder called photos.", [LIST, change("mkdir", "photos")])],
    "ls, make folders": [("ls please, then mkdir -p archive/2026", [run("ls", "-la"), change("mkdir", "-p", "archive/2026")])],
    "list, rename": [("Rename draft.txt to plan.txt", [LIST, change("mv", "draft.txt", "plan.txt"), LIST])],
    "list, delete": [("Is old.log still there? Delete old.log if it is.", [LIST, change("rm", "old.log")])],
    "copy and protect": [
        (
            "Copy data.csv to data-backup.csv and make the copy read-only",
            [
                LIST,
                change("cp", "data.csv", "data-backup.csv"),
                change("chmod", "444", "data-backup.csv"),
                run("ls", "-l", "data-backup.csv"),
            ],
        ),
    ],
    "find, archive": [("Put all csv files into a folder csv", [run("find", ".", "-name", "*.csv"), change("mkdir", "csv"), change("mv", "data.csv", "csv/")])],
    "archive, look": [
        (
            "Make a backup.tgz of data.csv and logs and tell me how big it is",
            [
                LIST,
                change("tar", "czf", "backup.tgz", "data.csv", "logs"),
                run("ls", "-l", "backup.tgz"),
                task("Copy backup.tgz to the laptop"),
            ],
        ),
    ],
    "sizes, then tidy": [("How much room do the files take? Then put the log into logs.", [run("du", "-sh", "."), run("du", "-a"), change("mv", "old.log", "logs/old.log")])],
    "a mistyped command": [("Make a folder tmp", [change("mkdri", "tmp"), change("mkdir", "tmp")])],
    "a file that is not there": [
        (
            "Show me wiring.txt; if there is none, begin one and look at the board every evening",
            [
                read("wiring.txt"),
                write("wiring.txt", "pin 17: pump\n"),
                remind("look at the board", kind="turn", cron_expr="0 20 * * *"),
            ],
        ),
    ],
    "a new file, read again": [
        (
            "Write a shopping list with seeds and soil into shopping.txt, show it, and make a folder lists for it",
            [
                write("shopping.txt", "seeds\nsoil\n"),
                read("shopping.txt"),
                change("mkdir", "lists"),
                change("mv", "shopping.txt", "lists/"),
            ],
        ),
    ],
    "read, summary in a file": [("Summarise draft.txt in summary.md", [read("draft.txt"), write("summary.md", "Figs on Sundays.\n")])],
    "sort, count": [
        (
            "Sort numbers.txt into sorted.txt and note how many lines it has",
            [
                change("sort", "-n", "numbers.txt", "-o", "sorted.txt"),
                run("wc", "-l", "sorted.txt"),
                note("sorted.txt has 3 lines"),
            ],
        ),
    ],
    "checksum, note": [("What is the checksum of data.csv? Note that I checked it today.", [run("sha256sum", "data.csv"), note("data.csv was checked on 2026-11-22")])],
    "replace in a file": [
        (
            "Change the interval in config.json to 120 and check that it is valid",
            [read("config.json"), edit("config.json", "60", "120"), run("python3", "-m", "json.tool", "config.json")],
        ),
    ],
    # the system
    "uptime, reminder": [("How long has it been up? And remind me in an hour to check the fan.", [run("uptime"), remind("check the fan")])],
    "uptime, a job": [("Look at the uptime, and from now on every Monday at 8", [run("uptime"), remind("say how long the board is up", kind="turn", cron_expr="0 8 * * 1")])],
    "disk, note": [("How full is the disk? Note it.", [run("df", "-h"), note("The disk was 63 % full.")])],
    "memory, disk, load, report": [
        (
            "Check memory, disk and load, write a report and put a look at it on my list",
            [
                run("free", "-m"),
                run("df", "-h", "/"),
                run("cat", "/proc/loadavg"),
                write("report.md", "all well\n"),
                task("Read report.md"),
            ],
        ),
    ],
    "date, reminder": [("What day is it? Wake me tomorrow at 7.", [run("date"), remind("wake up", at="tomorrow 07:00")])],
    "temperature of the chip": [
        (
            "How hot is the chip? Remind me at 20:00 to clean the fan.",
            [run("cat", "/sys/class/thermal/thermal_zone0/temp"), remind("clean the fan", at="20:00")],
        ),
    ],
    "address, note": [("What is the board's address? Note it.", [run("hostname", "-I"), run("ip", "-br", "addr"), note("The board has the address 192.168.1.20.")])],
    "system, kernel": [("Which system is this? Remember it.", [run("uname", "-a"), run("cat", "/etc/os-release"), note("The board runs Debian 12.")])],
    "processor, task": [("How many cores? Put testing all of them on my list.", [run("nproc"), run("lscpu"), task("Test all the cores")])],
    "a calculation": [("What is 3.3 V over 220 ohms? Note it.", [run("python3", "-c", "print(3.3 / 220)"), note("The lamp takes 15 mA.")])],
    "a long result": [
        (
            "Count to 20000, and remind me to count on tomorrow",
            [
                run("seq", "1", "20000"),
                ("read_result", {"number": 1, "start": 20000}),
                remind("count on", at="tomorrow 09:00"),
            ],
        ),
    ],
    "in the background": [
        (
            "Start a sleep of 60 seconds, look at it, end it, then make a folder runs",
            [
                run("sleep", "60", background=True),
                ("process", {"action": "list"}),
                ("process", {"action": "poll", "number": 1}),
                ("process", {"action": "kill", "number": 1}),
                change("mkdir", "runs"),
            ],
        ),
    ],
    # git
    "commit twice": [
        (
            "Commit my draft, change its title to Plan, and commit again",
            [
                run("git", "status", "--short"),
                change("git", "add", "draft.txt"),
                change("git", "commit", "-m", "Add the draft"),
                edit("draft.txt", "Watering plan", "Plan"),
                change("git", "commit", "-am", "Change the title"),
            ],
        ),
    ],
    "commit, tag": [
        (
            "Commit everything and tag it v1",
            [
                run("git", "status"),
                change("git", "add", "-A"),
                change("git", "commit", "-qm", "All of it"),
                change("git", "tag", "v1"),
            ],
        ),
    ],
    "difference, commit": [
        (
            "Add the tulips to the draft, show me the difference and commit it",
            [
                change("git", "add", "draft.txt"),
                change("git", "commit", "-qm", "draft"),
                append("draft.txt", "The tulips never.\n"),
                run("git", "diff", "--stat"),
                change("git", "commit", "-am", "Add the tulips"),
            ],
        ),
    ],
    "a new repository": [
        (
            "Make a folder site with a git repository and a README in it and commit that",
            [
                change("mkdir", "site"),
                change("git", "init", "-q", "site"),
                write("site/README.md", "Site\n"),
                change("git", "-C", "site", "add", "README.md"),
                change("git", "-C", "site", "-c", "user.name=Ada", "-c", "user.email=a@b.c", "commit", "-m", "Begin"),
            ],
        ),
    ],
    "two turns, a branch": [
        ("Is anything not committed?", [run("git", "status", "--short")]),
        ("Make a branch tulips then", [change("git", "checkout", "-q", "-b", "tulips"), run("git", "branch")]),
        ("and a folder for them, called bulbs", [change("mkdir", "bulbs")]),
    ],
    # programs
    "a script, run twice": [
        (
            "Write hello.py that prints hello world, run it, make it write out.txt as well, run it again",
            [
                write("hello.py", "print('hello world')\n"),
                run("python3", "hello.py"),
                edit(
                    "hello.py",
                    "print('hello world')",
                    "print('hello world')\nopen('out.txt', 'w').write('hello world')",
                ),
                change("python3", "hello.py"),
                run("cat", "out.txt"),
                change("mkdir", "results"),
            ],
        ),
    ],
    "tests, mended": [
        (
            "Write an add function with a test, run the test, mend it, run it again, commit",
            [
                write("add.py", "def add(a, b):\n    return a - b\n"),
                write("test_add.py", "from add import add\nassert add(1, 2) == 3, 'wrong sum'\nprint('all is well')\n"),
                run("python3", "test_add.py"),
                edit("add.py", "a - b", "a + b"),
                run("python3", "test_add.py"),
                change("git", "add", "add.py", "test_add.py"),
                change("git", "commit", "-m", "Add add"),
            ],
        ),
    ],
    "plot a table": [("Read data.csv and run plot.py on it", [read("data.csv"), change("python3", "plot.py", "data.csv"), LIST])],
    "a table from readings": [
        (
            "Measure, write it as a table readings.csv, read it back and note the highest",
            [
                SENSORS,
                write("readings.csv", "time,temperature\n12:00,21.5\n"),
                append("readings.csv", "12:01,21.6\n"),
                read("readings.csv"),
                note("The highest temperature was 21.6 °C."),
            ],
        ),
    ],
    "readings in a log": [("Which was the warmest hour in the log of yesterday? Note it.", [read("logs/2026-11-21.log"), note("Yesterday 9:00 was the warmest hour.")])],
    # the owner's pages, notes and skills
    "my name": [("My name is Ada, put that in USER.md", [read("USER.md"), append("USER.md", "- Name: Ada\n")])],
    "the checklist": [("Add to the heartbeat: look whether the door is shut", [read("HEARTBEAT.md"), append("HEARTBEAT.md", "- every day: is the door shut?\n")])],
    "a note corrected": [("The fuse has 5 A now, not 3 A", [("memory_search", {"query": "fuse"}), ("memory_update", {"old": "the fuse is 3 A", "new": "the fuse is 5 A"})])],
    "a note forgotten": [("Forget what the fuse is", [("memory_search", {"query": "fuse"}), read("MEMORY.md"), ("memory_forget", {"text": "the fuse is 3 A"})])],
    "notes, folder": [
        (
            "What did I note two days ago? Note that the ferns have new pots.",
            [("list_dir", {"path": "memory"}), read("memory/2026-11-20.md"), note("The ferns have new pots.")],
        ),
    ],
    "lasting memory": [("Read MEMORY.md and make a folder fuses", [read("MEMORY.md"), change("mkdir", "fuses")])],
    "a skill followed": [("Water the figs as the skill says", [("skill_search", {"query": "figs"}), read("skills/mine/SKILL.md"), SENSORS, task("Water the figs")])],
    "a skill, a job": [
        (
            "Look at the skill for the figs and do that every Sunday",
            [
                ("list_dir", {"path": "skills"}),
                read("skills/mine/SKILL.md"),
                remind("water the figs as the skill mine says", kind="turn", cron_expr="0 9 * * 0"),
            ],
        ),
    ],
    "a skill that ships": [("How do reminders work? Then remind me of tea in 4 minutes", [read("skills/reminders/SKILL.md"), remind("tea", at_seconds=240)])],
    "how you work": [("Read AGENTS.md and put reading it on my list", [read("AGENTS.md"), task("Read AGENTS.md")])],
    "a skill rewritten": [
        (
            "Add to the skill of the figs that they like rain",
            [
                read("skills/mine/SKILL.md"),
                ("skill_update", {"name": "mine", "text": "Water the figs. They like rain."}),
            ],
        ),
    ],
    # reminders, tasks
    "reminders, one removed": [("Remove reminder 1", [("cron", {"action": "list"}), ("cron", {"action": "remove", "job": 1})])],
    "tasks, one done": [("Task 1 is done, add: buy soil", [("pulse", {"action": "list"}), ("pulse", {"action": "complete", "task": "1"}), task("buy soil")])],
    "a list of mine": [("Add buy seeds from todo.txt to my tasks", [read("todo.txt"), task("buy seeds")])],
    "a list, reminder": [("Look at todo.txt, then remind me at 18:00 to oil the door", [read("todo.txt"), remind("oil the door", at="18:00")])],
    "three turns": [
        ("How long are you up?", [run("uptime")]),
        ("Remind me every Monday to look at that", [remind("look at the uptime", cron_expr="0 8 * * 1")]),
        ("and note that the power failed yesterday", [note("The power failed on 2026-11-21.")]),
    ],
    # the board
    "measure, switch": [("Measure and switch the fan on for 5 seconds", [SENSORS, ("output", {"action": "set", "name": "fan", "level": "on", "seconds": 5})])],
    "uptime, switch": [("If you are up, switch the fan on for 5 seconds", [run("uptime"), ("output", {"action": "set", "name": "fan", "level": "on", "seconds": 5})])],
    "bus, note": [("What is on the bus? Note it.", [("i2c", {"action": "detect"}), ("gpio", {"action": "list"}), note("A BME280 is at 0x76.")])],
    "sensors, files, folder": [("Measure, list the files, make a folder climate", [SENSORS, ("board_status", {}), LIST, change("mkdir", "climate")])],
    # the web
    "a page, a file": [("Read http://news.example.net/ and save the gist in news.md", [("web_fetch", {"url": "http://news.example.net/"}), write("news.md", "nothing new\n")])],
    "a page, reminder": [
        (
            "Read http://news.example.net/ and remind me in an hour to water the lawn",
            [("web_fetch", {"url": "http://news.example.net/"}), remind("water the lawn")],
        ),
    ],
    "a page, a folder": [
        (
            "Read http://news.example.net/ and make a folder called news",
            [
                ("web_fetch", {"url": "http://news.example.net/"}),
                change("mkdir", "news"),
                write("news/today.md", "nothing\n"),
            ],
        ),
    ],
    "search, page, note": [
        (
            "Search for figs, read what you find, and note that figs like sun.",
            [
                ("web_search", {"query": "figs"}),
                ("web_fetch", {"url": "http://news.example.net/"}),
                note("Figs like sun"),
            ],
        ),
    ],
    "install, use": [("Get the newest list of packages, then make a folder packages", [run("true", network=True), change("mkdir", "packages")])],
}  # fmt: skip

MAY_ASK = {"skill_update", "exec network"}
