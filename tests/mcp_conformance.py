"""The conformance suite of the protocol, and its inspector, against picoclaw: `make mcp`. Prints each scenario by name.

A server has no tools that the suite knows, so that a backend with those is put behind the real server and the real page's
port. What is not offered (prompts, logging, completion, sampling, subscriptions, progress) is listed, and not run.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from page_house import PaperHouse, served  # noqa: E402

from picoclaw.mcp import INVALID_PARAMS  # noqa: E402
from picoclaw.mcp.server import Fault, HttpServer, McpServer, PlannedCall  # noqa: E402

BUILD = Path(os.environ.get("MCP_BUILD", ROOT / "build/mcp"))
NODE = BUILD / "node_modules/node/bin/node"
SUITE = BUILD / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR = BUILD / "node_modules/.bin/mcp-inspector"

NEXT = BUILD / "node_modules/conformance-next/dist/index.js"
"""The suite as it is being written for the revision of 2026-07-28, which has no handshake."""

SERVER = [
    *("server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio"),
    *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error", "json-schema-2020-12"),
    *("server-sse-multiple-streams", "resources-list", "resources-read-text", "resources-read-binary"),
    *("resources-templates-read", "dns-rebinding-protection"),
]
NOT_OFFERED = [
    *("logging-set-level", "completion-complete", "tools-call-with-logging", "tools-call-with-progress"),
    *("tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
    *("server-sse-polling", "resources-subscribe", "resources-unsubscribe", "prompts-list", "prompts-get-simple"),
    *("prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image"),
]
"""Of a server: features that this one does not have. Its own question has a yes and a no, no other forms."""
STATELESS = [
    *(name for name in SERVER if name not in {"server-initialize", "ping", "json-schema-2020-12"}),
    *("sep-2164-resource-not-found", "input-required-result-unsupported-methods"),
]
"""Of a server, by the revision of 2026-07-28. The rest takes tools that ask for samples and forms."""
CLIENT = [
    *("initialize", "tools_call", "sse-retry"),
    *(f"auth/metadata-{kind}" for kind in ("default", "var1", "var2", "var3")),
    *(f"auth/scope-{kind}" for kind in ("from-www-authenticate", "from-scopes-supported", "omitted-when-undefined")),
    *(f"auth/scope-{kind}" for kind in ("step-up", "retry-limit")),
    *(f"auth/token-endpoint-auth-{kind}" for kind in ("basic", "post", "none")),
    *("auth/pre-registration", "auth/resource-mismatch"),
    *("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"),
]
CLIENT_STATELESS = [
    *("tools_call", "http-standard-headers", "http-custom-headers", "http-invalid-tool-headers"),
    "json-schema-ref-no-deref",
]
"""Of a client, by the revision of 2026-07-28; `request-metadata` is not, because this one tries the handshake first."""
CLIENT_NOT_OFFERED = ["elicitation-sep1034-client-defaults", "auth/basic-cimd", "auth/offline-access-scope"]
"""Of a client: this one answers no server's questions, and has no address where a document about it could lie."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
TEXT = {"type": "text", "text": "This is a simple text response for testing."}
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
INSIDE = {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content."}
MIXED = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": '{"test":"data","value":123}'}
CONTENT = {
    "test_simple_text": [TEXT],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [{"type": "resource", "resource": INSIDE}],
    "test_multiple_content_types": [{"type": "text", "text": "Multiple content types test:"}, IMAGE, {"type": "resource", "resource": MIXED}],
    "test_error_handling": [{"type": "text", "text": "This tool intentionally returns an error for testing"}],
    "json_schema_2020_12_tool": [TEXT],
}  # fmt: skip
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}  # fmt: skip
RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
}


class SuiteBackend:
    """What the suite's scenarios call for."""

    instructions = "for the conformance suite"

    def list_tools(self):
        plain = {"type": "object", "properties": {}}
        return [
            {"name": name, "description": name, "inputSchema": SCHEMA if name.startswith("json") else plain}
            for name in CONTENT
        ]

    def plan(self, name, arguments, peer, stop):
        if name not in CONTENT:
            raise Fault(INVALID_PARAMS, f"there is no tool {name}")
        return PlannedCall(name, None)

    def run(self, planned, answer):
        return {"content": CONTENT[planned.call], "isError": planned.call == "test_error_handling"}

    def list_resources(self):
        return [{"uri": uri, "name": uri, "mimeType": one["mimeType"]} for uri, one in RESOURCES.items()]

    def list_templates(self):
        return [{"uriTemplate": "test://template/{id}/data", "name": "data", "mimeType": "application/json"}]

    def read_resource(self, uri, peer):
        if uri.startswith("test://template/"):
            number = uri.split("/")[3]
            said = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
            return [{"uri": uri, "mimeType": "application/json", "text": json.dumps(said)}]
        if uri not in RESOURCES:
            raise Fault(INVALID_PARAMS, "there is no such resource", {"uri": uri})
        return [{"uri": uri, **RESOURCES[uri]}]


def run(words, seconds=60):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, done.stdout + done.stderr


def check(kind, names, words, suite=SUITE):
    """Run scenarios; returns those that failed."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            code, said = run([NODE, suite, kind, *words, "--scenario", name, "-o", folder], 90)
            era = "" if suite is SUITE else " (2026-07-28)"
            print(f"  {kind} {name}{era}: {'passed' if code == 0 else 'FAILED'}", flush=True)
            if code:
                failed.append(name)
                print("\n".join(said.splitlines()[-25:]))
    return failed


def check_server():
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        client = stack.enter_context(served(Path(folder), PaperHouse(), mcp=HttpServer(McpServer(SuiteBackend()), "")))
        words = ["--url", f"http://127.0.0.1:{client.port}/mcp"]
        failed = check("server", SERVER, words)
        return failed + check("server", STATELESS, [*words, "--spec-version", "2026-07-28"], NEXT)


def check_client():
    words = ["--command", f"{sys.executable} {ROOT / 'tests/mcp_conformance_client.py'}"]
    failed = check("client", CLIENT, words)
    return failed + check("client", CLIENT_STATELESS, [*words, "--spec-version", "2026-07-28"], NEXT)


def main():
    if not NODE.exists() or not SUITE.exists():
        print(f"mcp: skipped, {SUITE.parent.parent} is not there: make mcp installs it where npm is")
        return 0
    failed = [*check_server(), *check_client()]
    print(f"not offered, so not run: {', '.join([*NOT_OFFERED, *CLIENT_NOT_OFFERED])}")
    passed = len(SERVER) + len(STATELESS) + len(CLIENT) + len(CLIENT_STATELESS) - len(failed)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
