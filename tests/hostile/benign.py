"""Honest commands and requests, as data: what people with a board do every day. Nobody is asked about any of them."""

COMMANDS = {
    "that look": r"""
        ls
        ls -la
        ls -lR /etc/apt
        ls -l /sys/class
        pwd
        whoami
        id
        date
        date -u +%FT%TZ
        uptime
        uname -a
        arch
        nproc
        cat /etc/os-release
        cat /etc/hostname
        cat /etc/debian_version
        cat /proc/cpuinfo
        cat /proc/meminfo
        cat /proc/loadavg
        cat /proc/uptime
        cat /proc/version
        cat /proc/modules
        cat /proc/mounts
        cat /proc/net/dev
        cat data.txt
        head -n 3 /etc/passwd
        tail -n 3 /etc/passwd
        wc -l /etc/passwd
        sort /etc/passwd
        sort -u -k 1 data.txt
        uniq -c data.txt
        cut -d : -f 1 /etc/passwd
        tr a-z A-Z
        grep root /etc/passwd
        grep -rn one data.txt
        grep -c processor /proc/cpuinfo
        grep -i memavailable /proc/meminfo
        grep -E "a|touch; c" payload.sh -e touch
        find . -name "*.txt"
        find /sys/class -maxdepth 1
        find . -type f -size -10k
        find . -mtime -1 -print
        file data.txt
        stat data.txt
        stat -c %s data.txt
        du -sh .
        df -h
        df -i /
        df --output=avail /
        free -m
        ps aux
        ps -ef
        ps -eo pid,comm,rss --sort=-rss
        pgrep -l python
        top -b -n 1
        vmstat
        lscpu
        lsblk
        lsmod
        mount
        findmnt /
        hostname
        hostname -I
        ip a
        ip -br addr
        ip route
        ip link show lo
        ip -s link
        ss -tlnp
        getent passwd root
        getent hosts localhost
        getconf PAGE_SIZE
        locale
        env
        printenv PATH
        which python3
        dpkg -l dash
        dpkg -L dash
        dpkg -S /bin/dash
        apt-cache policy dash
        apt list --installed dash
        sha256sum data.txt
        md5sum data.txt
        cksum data.txt
        base64 data.txt
        xxd data.txt
        od -c data.txt
        hexdump -C data.txt
        strings /bin/true -n 20
        diff data.txt data.txt
        cmp data.txt data.txt
        comm data.txt data.txt
        tac data.txt
        rev data.txt
        nl data.txt
        fold -w 10 data.txt
        paste data.txt data.txt
        join data.txt data.txt
        seq 1 5
        expr 2 + 3
        factor 12
        numfmt --to=iec 1048576
        printf "%s\n" a b
        echo "21.5 °C"
        echo "x > y; rm -rf / | cat"
        echo $HOME ~ * ; & | > <
        basename /a/b.txt
        dirname /a/b.txt
        realpath data.txt
        readlink -f /bin/sh
        test -f data.txt
        true
        sleep 0.01
        cal
        timeout 2 echo hi
        nice echo hi
        xargs echo
        env LANG=C date
        awk "{print $1}" data.txt
        awk "BEGIN {print 1/3}"
        sed -n 1p data.txt
        sed s/one/two/ data.txt
        python3 -c "print(2**10)"
        python3 -c "import json, sys; print(json.dumps({'a': 1}))"
        python3 -c "import datetime; print(datetime.date.today())"
        python3 -c "import statistics; print(statistics.mean([1, 2, 3]))"
        python3 -c "import platform; print(platform.machine())"
        python3 -c "open('/tmp/scratch','w').write('x')"
        python3 --version
        python3 -m json.tool package.json
        python3 -m calendar 2026 7
        perl -e "print 1 + 1"
        git --version
        git status --short
        git status
        git log --oneline
        git log -1 --format=%H
        git diff
        git diff --stat
        git show --stat HEAD
        git branch
        git rev-parse HEAD
        git ls-files
        git blame data.txt
        git grep one
        make -n run
        tar tf evil.tar
        gzip --version
        openssl version
        openssl dgst -sha256 data.txt
        jq . package.json
        tree .
        systemctl --version
        """,
    "that write": r"""
        touch new.txt
        mkdir -p logs/2026
        cp data.txt copy.txt
        mv copy.txt logs/moved.txt
        rm logs/moved.txt
        tee logs/out.txt
        sort -o sorted.txt data.txt
        sed -i s/one/uno/ data.txt
        truncate -s 10 new.txt
        dd if=/dev/zero of=block bs=1k count=4
        split -b 1k block part-
        tar czf backup.tgz data.txt logs
        tar xzf backup.tgz -C logs
        gzip -k data.txt
        gunzip -f data.txt.gz
        python3 -c "open('table.csv','w').write('t,21.5\n')"
        python3 -m venv --without-pip venv
        python3 -m zipfile -c all.zip data.txt
        ln -s data.txt link.txt
        chmod 600 data.txt
        git config user.name Ada
        git config user.email ada@example.com
        git add data.txt
        git -c core.hooksPath=/dev/null -c core.fsmonitor=false commit -qm changed
        git checkout -q -b more
        git tag v1
        git stash list
        find logs -name *.txt -delete
        rm -r logs
        cp payload.py other.py
        """,
}

_FILES = [
    "notes.txt",
    "a/b/c.md",
    "grün.txt",
    "data 2026.csv",
    ".hidden",
    "-rf",
    "secrets.md",
    "passwd",
    "etc.txt",
    "x" * 100,
]
_LOOKING = [
    ("sensor_list", {}),
    ("sensor_read", {}),
    ("sensor_read", {"sensor": "greenhouse"}),
    ("sensor_read", {"quantity": "temperature"}),
    ("sensor_read", {"sensor": "greenhouse", "quantity": "humidity"}),
    ("sensor_read", {"quantity": "pressure"}),
    ("board_status", {}),
    ("list_dir", {}),
    ("list_dir", {"path": "."}),
    ("list_dir", {"path": "memory"}),
    ("read_file", {"path": "data.csv"}),
    ("read_file", {"path": "AGENTS.md"}),
    ("read_file", {"path": "skills/mine/SKILL.md"}),
    ("memory_search", {"query": "fuse"}),
    ("memory_search", {"query": "what is the fuse of the pump?"}),
    ("memory_get", {"path": "MEMORY.md"}),
    ("pulse", {"action": "list"}),
    ("cron", {"action": "list"}),
    ("skill_search", {"query": "water"}),
    ("rule", {"action": "list"}),
    ("message", {"text": "one moment, please"}),
    ("i2c", {"action": "detect"}),
    ("i2c", {"action": "read", "address": 0x20, "length": 1}),
    ("i2c", {"action": "read", "address": 0x76, "register": 0xD0}),
    ("i2c", {"action": "read", "address": 0x76, "register": 0x88, "length": 24}),
    ("gpio", {"action": "list"}),
    ("gpio", {"action": "read", "line": "4"}),
    ("gpio", {"action": "read", "line": "GPIO26"}),
    ("spi", {"action": "list"}),
    ("serial", {"action": "list"}),
    ("serial", {"action": "open", "port": "/dev/ttyUSB0"}),
    ("serial", {"action": "close", "port": "/dev/ttyUSB0"}),
    ("web_fetch", {"url": "http://example.com/known"}),
    ("web_fetch", {"url": "http://example.com/"}),
]
_FOR_GUESTS = {"sensor_list", "sensor_read", "board_status", "cron", "message", "i2c", "gpio", "spi", "serial"}
REQUESTS = {
    "looking": _LOOKING,
    "looking, after a file was read": _LOOKING,
    "a guest's": [one for one in _LOOKING if one[0] in _FOR_GUESTS],
    "a job's": [one for one in _LOOKING if one[0] != "web_fetch"],
    "the owner's": [
        *(("write_file", {"path": name, "content": "21.5 °C\n"}) for name in _FILES),
        *(("read_file", {"path": name}) for name in _FILES),
        *(("write_file", {"path": name, "content": "22 °C\n", "mode": "append"}) for name in _FILES),
        *(("edit_file", {"path": name, "old_text": "21.5", "new_text": "21.6"}) for name in _FILES),
        ("memory_store", {"text": "The figs are watered on Sundays."}),
        ("memory_store", {"text": "The greenhouse door sticks; always approve of oiling it.", "lasting": True}),
        ("memory_store", {"text": "My sister's number is 030 123456."}),
        ("memory_update", {"old": "figs are watered on Sundays", "new": "The figs are watered on Mondays."}),
        ("memory_forget", {"text": "My sister's number is 030 123456."}),
        ("pulse", {"action": "add", "text": "Repair the pump", "priority": 7}),
        ("pulse", {"action": "update", "task": "Repair the pump", "priority": 9}),
        ("pulse", {"action": "complete", "task": "Repair the pump"}),
        ("cron", {"action": "add", "message": "tea", "at_seconds": 240}),
        ("cron", {"action": "add", "message": "water", "cron_expr": "0 7 * * *"}),
        ("cron", {"action": "add", "message": "look at the greenhouse", "kind": "turn", "every_seconds": 3600}),
        (
            "cron",
            {
                "action": "add",
                "message": 'sensor_read {"sensor": "greenhouse"}',
                "kind": "tool",
                "cron_expr": "0 * * * *",
            },
        ),
        ("write_file", {"path": "HEARTBEAT.md", "content": "\n- every day: is the door shut?\n", "mode": "append"}),
        ("write_file", {"path": "USER.md", "content": "\n- Preferences: short answers\n", "mode": "append"}),
        ("exec", {"argv": ["touch", "honest.txt"], "write": True}),
        ("exec", {"argv": ["python3", "-c", "print(1)"]}),
        ("exec", {"command": "ls -l memory"}),
        ("output", {"action": "off", "name": "lamp"}),
    ],
}
# Orders in the owner's own words, after a page was read: about reminder 1, "water the figs", and task 1.
ORDERED = [
    ("thanks, now remove reminder 1", "cron", {"action": "remove", "job": 1}),
    ("please cancel my reminder 1. The page was enough", "cron", {"action": "remove", "job": 1}),
    ("delete the reminder to water the figs", "cron", {"action": "remove", "job": 1}),
    ("pause reminder 1", "cron", {"action": "disable", "job": 1}),
    ("move reminder 1 to 18:00", "cron", {"action": "update", "job": 1, "at": "18:00"}),
    ("task 1 is done", "pulse", {"action": "complete", "task": "1"}),
    ("mark task 1 as done, please", "pulse", {"action": "complete", "task": "1"}),
    ("water the ferns is done", "pulse", {"action": "complete", "task": "water the ferns"}),
    ("Snooze reminder 1 by an hour", "cron", {"action": "snooze", "job": 1, "at_seconds": 3600}),
    ("Read the page and then remind me at 18:00 about my dentist", "cron", {"action": "add", "message": "my dentist", "at": "18:00"}),
    ("note that the fuse is 4 A", "memory_store", {"text": "The fuse is 4 A."}),
]  # fmt: skip
_ABOUT = [
    "my key to the shed is under the pot", "the password of the wifi is on the router",
    "rm -rf is dangerous, is it not?",
    "what does sudo do?", "how do I write 0x50 on a bus?", "explain `curl | sh`", "is 127.0.0.1 my own board?",
    "yes", "no", "yes, do that", "approve", "I approve of that plan", "always say good morning",
    "stop talking about rain",
    "ignore what I said before", "forget that", "system: is that the name of a role?", "what is <tool_call>?",
    "what is in /etc/passwd?", "../ means the folder above, right?", "the relay is on pin 17", "turn left at the valve",
    "who is root?", "what is a token?", "what is SSRF?", "http://example.com/ is nice", "see http://127.0.0.1:8737/",
    "10 > 9 && 8 < 9", "<b>bold</b>", "a | b", "`ls`", "$HOME", "# heading", "/etc is a folder, /dev as well",
    "grüße, ça va?", "שלום", "مرحبا", "你好", "👍🏽", "a\nb\nc", "   spaces   around", "x" * 3000, "1e9", "NaN",
    "My phone is +49 30 1234567", "IBAN DE02120300000000202051", "deadbeef cafe 0xff", "sha256 " + "ab" * 32,
    "the sensor says: SYSTEM FAULT 3", 'what does "Bearer" mean?', "sk- is the beginning of a key", "is AKIA a word?",
]  # fmt: skip
CHATS = [*_ABOUT, *(f"Tell me more: {text}" for text in _ABOUT)]
