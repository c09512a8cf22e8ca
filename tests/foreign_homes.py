"""Homes as other agents make them, small: what nanobot 0.3.5, openclaw 2026.4 and 2026.9 wrote, and the Go picoclaw's by its documents."""

import json
import sqlite3
from pathlib import Path

TOKEN = "1:made-up"
SKILL = (
    "---\nname: frost-watch\ndescription: Watch for frost at night and warn early\n"
    'metadata: {{"{name}":{{"requires":{{"bins":["curl"],"env":["WEATHER_KEY"]}}}}}}\n---\n\n'
    "# Frost watch\n\nAsk the weather, then `sessions_send` the owner.\n"
)
MEMORY = "# Memory\n\n- The fuse of the pump is 3 A\n- The spare key is under the blue pot\n"
DAY = "# 2026-11-20\n\n- 08:10 tomatoes repotted\n- 19:00 frost warning, heater moved\n"
SOUL = "# Soul\n\nShort answers, and no jokes about plants.\n"
AGENTS = "# Agents\n\nBefore you answer, look with `grep`, and ask a `subagent` to check it.\n"


def write(root, files):
    """Write files by their paths: text, bytes, or what becomes JSON."""
    for name, content in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, str | bytes) else json.dumps(content, indent=1)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return Path(root)


def job(number, name, schedule, payload, **more):
    return {"id": number, "name": name, "enabled": True, "schedule": schedule, "payload": payload, **more}


def nanobot_payload(message, channel="cli", chat="direct", **more):
    return {
        "kind": "agent_turn",
        "message": message,
        "deliver": False,
        "channel": None,
        "to": None,
        "channelMeta": {},
        "sessionKey": f"{channel}:{chat}",
        "originChannel": channel,
        "originChatId": chat,
        "originMetadata": {},
        **more,
    }


def make_nanobot(root):
    """Jobs lie in jobs.json, and in action.jsonl until a gateway has seen them."""
    cron = [
        job("8c9f741b", "water", {"kind": "cron", "expr": "0 18 * * *", "tz": "Europe/Berlin"}, nanobot_payload("Water")),
        job("b6f4539a", "tank", {"kind": "every", "everyMs": 7_200_000}, nanobot_payload("Check the tank level")),
        job("11111111", "report", {"kind": "cron", "expr": "0 7 * * 1-5"}, nanobot_payload("Report", "telegram", "4242")),
        job("22222222", "digest", {"kind": "cron", "expr": "0 9 * * *"}, nanobot_payload("Digest", "slack", "C01")),
        job("44444444", "noon", {"kind": "cron", "expr": "0 12 * * *"}, nanobot_payload("Noon", "matrix", "!shed:example.org")),
        job("dream", "dream", {"kind": "every", "everyMs": 7_200_000}, {"kind": "system_event", "message": ""}),
        job("33333333", "gone", {"kind": "at", "atMs": 1_600_000_000_000}, nanobot_payload("Too late")),
    ]  # fmt: skip
    snake = {"kind": "at", "at_ms": 1_803_889_800_000, "every_ms": None, "expr": None, "tz": None}
    payload = {"kind": "agent_turn", "message": "Dentist at 10", "session_key": "cli:direct", "origin_channel": "cli"}
    acts = [
        {
            "action": "add",
            "params": {"id": "41e83d3a", "name": "dentist", "enabled": True, "schedule": snake, "payload": payload},
        },
        {"action": "del", "params": {"job_id": "22222222"}},
    ]
    config = {
        "agents": {"defaults": {"workspace": "~/.nanobot/workspace", "model": "qwen2.5-coder-7b", "provider": "custom"} | {"timezone": "Europe/Berlin", "timezoneMode": "manual"}},
        "channels": {
            "sendProgress": True,
            "telegram": {"enabled": True, "token": TOKEN, "allowFrom": ["4242|ada", "@mallory", "*"]},
            "discord": {"enabled": False, "token": ""},
            "slack": {"enabled": True, "botToken": "x"},
            "matrix": {"enabled": True, "homeserver": "https://matrix.example.org", "accessToken": "mx", "password": ""}
            | {"allowFrom": ["@ann:example.org"], "e2eeEnabled": True},
        },
        "providers": {"custom": {"apiKey": "key-one", "apiBase": "http://127.0.0.1:18111/v1"}, "openai": {"apiKey": None}},
        "tools": {"mcpServers": {"files": {"command": "npx"}}},
    }  # fmt: skip
    history = [{"cursor": 1, "timestamp": "2026-11-19 21:40", "content": "The owner moved the heater."}]
    return write(
        root,
        {
            "config.json": config,
            "pairing.json": {"approved": {"telegram": ["777"]}, "pending": {}},
            "sessions/abc/one.jsonl": "{}\n",
            "workspace/SOUL.md": SOUL,
            "workspace/AGENTS.md": AGENTS,
            "workspace/memory/MEMORY.md": MEMORY,
            "workspace/memory/history.jsonl": "".join(f"{json.dumps(entry)}\n" for entry in history),
            "workspace/skills/frost-watch/SKILL.md": SKILL.format(name="nanobot"),
            "workspace/cron/jobs.json": {"version": 1, "jobs": cron},
            "workspace/cron/action.jsonl": "".join(f"{json.dumps(act)}\n" for act in acts),
        },
    )


OPENCLAW_CONFIG = """// as a person has edited it
{
  agents: { defaults: {
    workspace: "%s/workspace",
    model: { primary: 'shed/qwen2.5-coder-7b', },
    userTimezone: "Europe/Berlin", /* where the shed is */
  } },
  channels: { telegram: { enabled: true, botToken: "%s", allowFrom: ["4242", "tg:777", "group:-100"], }, },
  models: { providers: { shed: {
    baseUrl: "http://127.0.0.1:18111/v1", api: "openai-completions", apiKey: "key-two",
    models: [{ id: "qwen2.5-coder-7b", contextWindow: 32768 }],
  } } },
}
"""


def openclaw_jobs():
    turn = {"kind": "agentTurn", "message": "Say how warm the greenhouse is"}
    told = {"mode": "announce", "channel": "telegram", "to": "4242"}
    command = {"kind": "command", "argv": ["sh", "-lc", "rsync -a /data /mnt/usb"]}
    cron = {"kind": "cron", "expr": "0 3 * * *"}
    every = {"kind": "every", "everyMs": 7_200_000}
    return [
        job("2bf2", "morning", {"kind": "cron", "expr": "30 7 * * 1-5", "tz": "Europe/Berlin"}, turn, delivery=told),
        job("f5e3", "tank", every, {"kind": "agentTurn", "message": "Check the tank"}, delivery={"mode": "none"}),
        job(
            "a8cc",
            "dentist",
            {"kind": "at", "at": "2027-03-01T08:30:00.000Z"},
            {"kind": "systemEvent", "text": "Dentist at 10"},
        ),
        job("d478", "backup", cron, command),
        job("71b2", "seconds", {"kind": "cron", "expr": "*/30 * * * * *"}, turn),
        job("3afe", "last friday", {"kind": "cron", "expr": "0 9 * * 5L"}, turn | {"message": "Month report"}),
        job("baa2", "dreaming", cron, turn, declarationKey="memory-core:dreaming"),
        job("a786", "heartbeat-main", every, {"kind": "heartbeat"}),
    ]


def make_openclaw(root, *, new=True):
    """A newer one keeps jobs and digests of its pages in SQLite, in WAL mode; an older one jobs in a file."""
    from hashlib import sha256

    identity = "# Who Am I?\n\n- **Name:**\n"
    write(
        root,
        {
            "openclaw.json": OPENCLAW_CONFIG % (root, TOKEN),
            "agents/main/sessions/t1.jsonl": "{}\n",
            "workspace/SOUL.md": SOUL,
            "workspace/IDENTITY.md": identity,
            "workspace/USER.md": "# USER.md\n\n- **Name:** Ada\n",
            "workspace/HEARTBEAT.md": "# Heartbeat\n\n- Every morning: is it below 5 degrees?\n",
            "workspace/MEMORY.md": MEMORY,
            "workspace/memory/2026-11-20.md": DAY,
            "workspace/skills/frost-watch/SKILL.md": SKILL.format(name="openclaw"),
            "workspace/skills/frost-watch/scripts/frost.sh": "#!/bin/sh\ncurl -s https://wttr.in\n",
        },
    )
    if not new:
        return write(root, {"cron/jobs.json": {"version": 1, "jobs": openclaw_jobs()}})
    path = Path(root, "state/openclaw.sqlite")
    path.parent.mkdir()
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE cron_jobs (job_json TEXT, state_json TEXT, sort_order INTEGER)")
        connection.execute("CREATE TABLE channel_pairing_allow_entries (channel_key TEXT, entry TEXT)")
        connection.execute("CREATE TABLE workspace_generated_bootstrap_hashes (filename TEXT, sha256 TEXT)")
        for number, one in enumerate(openclaw_jobs()):
            connection.execute("INSERT INTO cron_jobs VALUES (?, '{}', ?)", (json.dumps(one), number))
        connection.execute("INSERT INTO channel_pairing_allow_entries VALUES ('telegram', '999')")
        digest = sha256(identity.encode()).hexdigest()
        connection.execute("INSERT INTO workspace_generated_bootstrap_hashes VALUES ('IDENTITY.md', ?)", (digest,))
        # what is in the log alone counts as well: the connection is still open when it is copied
        log = path.with_name("openclaw.sqlite-wal").read_bytes()
        data = path.read_bytes()
    connection.close()
    path.write_bytes(data)
    path.with_name("openclaw.sqlite-wal").write_bytes(log)
    return Path(root)


def make_go(root):
    """sipeed/picoclaw, by its documents of config versions and of `.security.yml`."""
    at = {"kind": "at", "atMs": 1_803_889_800_000}
    told = {"kind": "agent_turn", "channel": "telegram", "to": "4242"}
    jobs = [
        job("aa", "water", {"kind": "every", "everyMs": 3_600_000}, told | {"message": "Water the tomatoes"}),
        job("bb", "disk", {"kind": "cron", "expr": "0 4 * * *", "tz": "Europe/Berlin"}, told | {"message": "disk", "command": "df -h"}),
        job("cc", "dentist", at, told | {"message": "Dentist", "channel": "cli", "to": "direct"}),
    ]  # fmt: skip
    config = {
        "version": 3,
        "agents": {"defaults": {"workspace": "~/.picoclaw/workspace", "model_name": "fast"}},
        "model_list": [{"model_name": "fast", "model": "openrouter/qwen/qwen3-8b"}, {"model_name": "other", "model": "openai/gpt", "api_keys": ["sk-other"]}],
        "channel_list": {"telegram": {"enabled": True, "type": "telegram", "allow_from": [4242], "settings": {"base_url": ""}}, "discord": {"enabled": True, "type": "discord"}},
    }  # fmt: skip
    secrets = f'model_list:\n  fast:\n    api_keys: ["key-three"]\nchannel_list:\n  telegram:\n    settings:\n      token: "{TOKEN}"\n'
    return write(
        root,
        {
            "config.json": config,
            ".security.yml": secrets,
            "workspace/AGENT.md": f"---\nname: pico\n---\n{AGENTS}",
            "workspace/SOUL.md": SOUL,
            "workspace/memory/MEMORY.md": MEMORY,
            "workspace/memory/202611/20261120.md": DAY,
            "workspace/skills/frost-watch/SKILL.md": SKILL.format(name="picoclaw"),
            "workspace/skills/hardware/SKILL.md": "---\nname: hardware\ndescription: buses\n---\nold\n",
            "workspace/cron/jobs.json": {"version": 1, "jobs": jobs},
            "workspace/sessions/a.jsonl": "{}\n",
        },
    )
