"""Programs with a token that want another person's conversation, or the owner's rights."""

import json
from itertools import product

from page_house import later, served
from tally import Tally
from test_completions import Bench, Door

OWNERS = "openai:ada:0123456789abcdef"
NAMES = [
    *(OWNERS, "ada", "ada:0123456789abcdef", "../ada", ":ada:", "%3Aada", "terminal", "page:home", "telegram:7", "*"),
    *("hall' OR '1'='1", "x" * 10_000, "\u202eada", "ada\u0000", "job 1", "heartbeat", "hook:x"),
]
WAYS = ["X-Conversation-Id", "X-OpenWebUI-Chat-Id", "user", "first"]
CLAIMS = {
    "origin": "owner",
    "owner": True,
    "who": "token:ada",
    "session": OWNERS,
    "role": "owner",
    "metadata": {"user": "ada"},
    "name": "ada",
}


def test_no_token_comes_into_another_persons_conversation(tmp_path, record_property):
    """Whatever a program calls its conversation, and whoever it says that it is: it has its own, as a guest."""
    tally, bench, owners = Tally(record_property), Bench(tmp_path, []), set()
    for secret, name in product(("ada", "hall"), NAMES):
        with served(tmp_path, programs=bench.programs) as client:
            for number, way in enumerate(WAYS):
                status = ask(client, bench, secret, number, name, way)
                got = client.posted[number]
                if secret == "ada":
                    owners.add(got.key)
                    continue
                wrong = [] if status == 200 else [f"HTTP {status}"]
                wrong += [f"in {got.key}"] if got.key in owners or not got.key.startswith("openai:hall:") else []
                wrong += [f"as {got.origin} {got.who}"] if (got.origin, got.who) != ("guest", "token:hall") else []
                wrong += [f"began {key}" for key in client.house.begun if not key.startswith("openai:hall:")]
                tally.attack("tokens", f"{way} {ascii(name)[:40]}", wrong)
    assert len(owners) > len(NAMES)
    tally.judge()


def ask(client, bench, secret, number, name, way):
    """Ask in a conversation that is named in one of the ways; who is not the owner claims to be."""
    body = {"model": "picoclaw", "messages": [{"role": "user", "content": "what was said?"}]}
    body |= CLAIMS if secret == "hall" else {}
    headers = {way: json.dumps(name)[1:-1]} if way.startswith("X-") else {}
    if way == "user":
        body["user"] = name
    elif way == "first":
        body["messages"] = [{"role": role, "content": name} for role in ("user", "assistant")] + body["messages"]
    later(lambda: bench.answer(client, number=number))
    return Door(client.port, bench.secrets[secret]).ask("POST", "/v1/chat/completions", body, **headers)[0]
