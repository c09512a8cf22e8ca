"""Logging in at an MCP server: who is believed, what is kept, and when a token is renewed."""

import json
import threading
import time
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from picoclaw.config.tables import McpConfig
from picoclaw.mcp import McpError
from picoclaw.mcp.client import AuthNeeded
from picoclaw.mcp.http import REDIRECT, TokenStore, log_in, read_challenge
from picoclaw.tools.mcp import McpServers

TOOL = {"name": "say", "inputSchema": {"type": "object"}}


class Shop:
    """A server and its authorization server at one address; `says` changes what is said of it."""

    def __init__(self, **says):
        self.says, self.forms, self.tokens, self.challenge = says, [], ["first"], ""
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, code, body, **headers):
                data = json.dumps(body).encode()
                self.send_response(code)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                url = shop.url
                if self.path == "/.well-known/oauth-protected-resource/mcp":
                    found = {"resource": f"{url}/mcp", "authorization_servers": [url], "scopes_supported": ["read"]}
                elif self.path == "/.well-known/oauth-authorization-server":
                    found = {"issuer": url, "registration_endpoint": f"{url}/register"}
                    found |= {"authorization_endpoint": f"{url}/authorize", "token_endpoint": f"{url}/token"}
                    found |= {"code_challenge_methods_supported": ["S256"]}
                    found["token_endpoint_auth_methods_supported"] = ["none"]
                else:
                    return self.answer(404, {})
                given = {key: value for key, value in shop.says.items() if key in found}
                return self.answer(200, found | given)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/register":
                    return self.answer(201, {"client_id": "pico"})
                if self.path == "/token":
                    shop.forms.append({key: one[0] for key, one in parse_qs(body.decode()).items()})
                    token = shop.tokens[-1]
                    return self.answer(200, {"access_token": token, "refresh_token": "again", "expires_in": 3600})
                if self.headers.get("Authorization") != f"Bearer {shop.tokens[-1]}":
                    return self.answer(401, {}, WWW_Authenticate='Bearer scope="read write"')
                message = json.loads(body)
                result = {"tools": [TOOL]} if message["method"] == "tools/list" else {}
                if message["method"] == "initialize":
                    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}}
                return self.answer(
                    200 if "id" in message else 202, {"jsonrpc": "2.0", "id": message.get("id"), "result": result}
                )

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def open(self, link):
        """A browser whose person agrees."""
        asked = {key: one[0] for key, one in parse_qs(urlsplit(link).query).items()}
        self.challenge = asked["code_challenge"]
        self.asked = asked
        state = self.says.get("state", asked["state"])
        issuer = f"&iss={self.says['iss']}" if "iss" in self.says else ""
        return f"{REDIRECT}?code=c0de&state={state}{issuer}"


@contextmanager
def shop(**says):
    made = Shop(**says)
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()


def use(home, made):
    with closing(McpServers(home, {"it": McpConfig(url=f"{made.url}/mcp")}, {})) as servers:
        return [one["name"] for one in servers.client("it").list_all("tools")]


def test_a_login_and_a_token_that_is_renewed(tmp_path):
    import base64
    import hashlib

    with shop() as made:
        config = McpConfig(url=f"{made.url}/mcp")
        with pytest.raises(AuthNeeded, match="it wants to know who asks: picoclaw mcp login it"):
            use(tmp_path, made)
        log_in(tmp_path, "it", config, "", made.open)
        assert made.asked["scope"] == "read write"  # what it said when it refused
        assert made.asked["resource"] == f"{made.url}/mcp" == made.forms[0]["resource"]
        verifier = made.forms[0]["code_verifier"].encode()
        assert base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).decode().rstrip("=") == made.challenge
        assert use(tmp_path, made) == ["say"]
        store = TokenStore(tmp_path, "it")
        assert (tmp_path / "mcp/it.token").stat().st_mode & 0o077 == 0
        made.tokens.append("second")  # the first is refused from here on, and renewed
        assert use(tmp_path, made) == ["say"]
        assert made.forms[-1]["grant_type"] == "refresh_token"
        store.save(store.load() | {"until": time.time() - 1})
        made.tokens.append("third")
        assert store.bearer() == "third"
        store.save({**store.load(), "until": 1, "refresh": ""})
        assert store.bearer() == ""


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"state": "forged"}, "belongs to another login"),
        ({"iss": "http://evil.example"}, "does not come from the server that was asked"),
        ({"resource": "http://evil.example/mcp"}, "its tokens are for http://evil.example/mcp, which it is not"),
        ({"issuer": "http://evil.example"}, "speaks for another issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
        ({"authorization_servers": ["file:///etc/passwd"]}, "cannot be trusted with a login"),
        ({"registration_endpoint": None}, "registers no clients by itself"),
    ],
)
def test_who_is_not_believed(says, why, tmp_path):
    with shop(**says) as made, pytest.raises(McpError, match=why):
        log_in(tmp_path, "it", McpConfig(url=f"{made.url}/mcp"), "", made.open)
    assert TokenStore(tmp_path, "it").load() == {}


def test_a_challenge_is_read():
    header = 'Bearer error="insufficient_scope", scope="a b", resource_metadata="https://x.example/y", realm=z'
    assert read_challenge(header) == {
        "error": "insufficient_scope",
        "scope": "a b",
        "resource_metadata": "https://x.example/y",
        "realm": "z",
    }
