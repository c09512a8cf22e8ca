"""Conversations that real servers have had with another program, held again: what they answered, over a socket.

Each answer must mean what was recorded, and the request after it must hold its calls, their results and its thoughts
as the recorded one did. The numbers of calls are ours. Where the recordings are from: data/recorded.md.
"""

import json
import time
from contextlib import closing
from pathlib import Path

from model_server import STREAM, ModelServer
from rows import each_row

from picoclaw.config.tables import ModelConfig
from picoclaw.messages import End, Message, Request, Text, ToolCall
from picoclaw.providers.model import ModelProvider

CONVERSATIONS = json.loads((Path(__file__).parent / "data/recorded.json").read_text("utf-8"))


def find_items(api, body):
    """The calls, results and thoughts in a request's body, in their order."""
    calls, results, thoughts = [], [], []
    if api == "openai":
        for message in body["messages"]:
            calls += (
                [call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])]
                for call in message.get("tool_calls", [])
            )
            if message["role"] == "tool":
                results.append([message["tool_call_id"], message["content"]])
    elif api == "anthropic":
        for block in (
            one for message in body["messages"] if isinstance(message["content"], list) for one in message["content"]
        ):
            if block["type"] == "tool_use":
                calls.append([block["id"], block["name"], block["input"]])
            elif block["type"] == "tool_result":
                results.append([block["tool_use_id"], block["content"]])
            elif block["type"] in {"thinking", "redacted_thinking"}:
                thoughts.append(block)
    else:
        for item in body["input"]:
            if item.get("type") == "function_call":
                calls.append([item["call_id"], item["name"], json.loads(item["arguments"])])
            elif item.get("type") == "function_call_output":
                results.append([item["call_id"], item["output"]])
            elif item.get("encrypted_content"):
                thoughts.append(item["encrypted_content"])
    return calls, results, thoughts


@each_row("talk", CONVERSATIONS, ids=lambda talk: f"{talk['server']}-{talk['model']}-{talk['name'][-24:]}")
def test_a_recorded_conversation_goes_as_it_went(talk):
    answers = iter(talk["rounds"])
    kind = STREAM if talk["stream"] else "application/json"
    tools = tuple({"name": name, "description": "", "parameters": {"type": "object"}} for name in talk["tools"])
    messages, calls, results, thoughts = [Message("user", "Please do.")], [], [], []
    with ModelServer(lambda _: lambda exchange: exchange.whole(next(answers)["answer"].encode(), kind)) as server:
        model = ModelConfig(base_url=server.url, name=talk["model"], api=talk["api"], stream=talk["stream"], retries=0)
        with closing(ModelProvider(model)) as provider:
            for part in talk["rounds"]:
                request = Request("Be brief.", tuple(messages), tools, 1000, time.monotonic() + 20)
                events = list(provider.events(request))
                made = [event for event in events if isinstance(event, ToolCall)]
                text = "".join(event.text for event in events if isinstance(event, Text))
                assert text.strip() == part["text"].strip()
                assert [[call.name, call.arguments] for call in made] == part["calls"]
                end = events[-1]
                assert isinstance(end, End)
                assert min(end.usage.prompt_tokens, end.usage.completion_tokens) > 0
                assert end.finish in {"stop", "tool_calls"}
                sent_calls, sent_results, sent_thoughts = find_items(talk["api"], server.requests[-1].body)
                assert [call[1:] for call in sent_calls] == calls
                assert [result[1] for result in sent_results] == results
                assert [call[0] for call in sent_calls] == [result[0] for result in sent_results]
                assert sent_thoughts == thoughts
                messages.append(Message("assistant", text, tuple(made), thought=end.thought))
                for call, result in zip(made, part.get("results", []), strict=False):  # the last answer has none
                    messages.append(Message("tool", result, call_id=call.id))
                    calls.append([call.name, call.arguments])
                    results.append(result)
                thoughts = part.get("thoughts", [])
