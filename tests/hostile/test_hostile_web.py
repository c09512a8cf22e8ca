"""Every way we know to spell an address that is not one of the public web, with honest twins; told by the sockets opened.

Each spelling is tried as the page that is asked for, as where a page redirects to, and, where it is a number, as what a
harmless name resolves to. A door stands behind every one of them: that nobody came is what is tested.
"""

import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from web_server import PUBLIC, WebServer, html, leads

from picoclaw.errors import ToolError
from picoclaw.web.address import explain_refusal, parse_url


def words(text):
    return text.split()


HOSTS = {
    "loopback": """127.0.0.1 127.1 127.0.1 127.255.255.254 0x7f.1 0x7f000001 0x7f.0x0.0x0.0x1 2130706433 017700000001
        0177.0.0.1 0177.0.0.01 127.0.0.1. 127.000.000.001 0 0.0.0.0 00000000 0x0 4294967295 1 0.1 localhost LOCALHOST
        localhost. a.localhost localhost.localdomain ip6-localhost [::1] [::] [0:0:0:0:0:0:0:1] [::0001] [::127.0.0.1]
        [::7f00:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:0001] [::ffff:0:127.0.0.1] [::1%25lo]
        ①②⑦.⓪.⓪.① １２７.０.０.１ 127。0。0。1 127．0．0．1 ⓛⓞⓒⓐⓛⓗⓞⓢⓣ %6c%6f%63alhost 127.0.0.1%2f 0b1111111.0.0.1
        99999999999999999999 127.0.0.1.0 256.0.0.1 127.0.0.1:0080:1""",
    "private": """10.0.0.1 10.1 167772161 172.16.0.1 172.31.255.255 192.168.0.1 192.168.1 3232235777 0xc0a80101
        0300.0250.1.1 192.168.1.1. [::ffff:192.168.1.1] [::ffff:c0a8:101] [fc00::1] [fd00::1] [fd12:3456:789a::1]
        [fec0::1] router router.lan fritz.box.local pi.local nas.home.arpa printer.internal db.intranet
        x.corp x.home x.private""",
    "link-local and metadata": """169.254.169.254 169.254.1.1 2852039166 0xa9fea9fe 0xA9.0xFE.0xA9.0xFE
        0251.0376.0251.0376 169.254.43518 [::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [::169.254.169.254] [fe80::1]
        [fe80::1%25eth0] [fe80::1%eth0] [febf::1] [fd00:ec2::254] 100.100.100.200 192.0.0.192 168.63.129.16 metadata
        metadata.google.internal [fe80::a9fe:a9fe]""",
    "translated": """[64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b::10.0.0.1] [64:ff9b:1::7f00:1]
        [2002:7f00:1::] [2002:7f00:1::1] [2002:a9fe:a9fe::] [2002:c0a8:101::1] [2001:0:4136:e378:8000:63bf:80ff:fffe]
        [2001::1] [2a00:1450::5efe:7f00:1] [2a00:1450::200:5efe:c0a8:101] [::ffff:0:7f00:1] [64:ff9b::ffff:ffff]""",
    "no unicast of the internet": """100.64.0.1 100.127.255.254 198.18.0.1 198.19.255.255 224.0.0.1 239.255.255.250
        240.0.0.1 255.255.255.255 192.0.2.1 198.51.100.1 203.0.113.1 192.88.99.1 192.0.0.8 0.1.2.3 [ff02::1] [ff0e::1]
        [2001:db8::1] [3fff::1] [100::1] [5f00::1] [4000::1] [3ffe::1] [2001:2::1] [2001:10::1]""",
}
WHOLE = [
    "http://example.com@127.0.0.1/",
    "http://example.com:80@127.0.0.1/",
    "http://example.com%40127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\@example.com/",
    "http:\\\\127.0.0.1\\",
    "http:/127.0.0.1/",
    "http:127.0.0.1/",
    "http:///127.0.0.1/",
    "http://\t127.0.0.1/",
    "http://127.0.0.1\r\nHost: example.com/",
    "http://exa\u200bmple.com/",
    "http://\u202eexample.com/",
    "http://exam\0ple.com/",
    "http://example.com /",
    "http://[::1",
    "http://::1/",
    "http://[::1]x/",
    "http://[[::1]]/",
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:6379/",
    "http://example.com:11211/",
    "http://example.com:65536/",
    "http://example.com:-80/",
    "http://example.com:８０/",
    "http://example.com:80:80/",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "FILE:/etc/passwd",
    "gopher://example.com/_x",
    "dict://example.com:11211/",
    "ftp://example.com/",
    "data:text/html,hi",
    "javascript:alert(1)",
    "unix:///run/docker.sock",
    "http+unix://%2Frun%2Fdocker.sock/",
    "view-source:http://example.com/",
    "jar:http://example.com/!/",
    "about:blank",
    "://example.com/",
    "//127.0.0.1/",
    "/etc/passwd",
]
ATTACKS = [(kind, f"http://{host}/") for kind, hosts in HOSTS.items() for host in hosts.split()]
ATTACKS += [("spelling", url) for url in WHOLE]
NUMBERS = sorted(
    {
        host.strip("[]")
        for hosts in HOSTS.values()
        for host in hosts.split()
        if explain_refusal(host.strip("[]")) not in {"", "no address"}
    }
)

HONEST = words("""
    http://example.com/ http://example.com/127.0.0.1 http://example.com/?u=http://127.0.0.1/ http://example.com/#@127.0.0.1
    http://example.com:8080/ http://EXAMPLE.COM/ http://example.com./ http://93.184.215.14/ http://[2606:4700::1111]/
    http://[64:ff9b::5db8:d70e]/ http://localhost.example.net/ http://127.0.0.1.example.net/ http://10.example.net/
    http://192-168-1-1.example.net/ http://internal.example.net/ http://a-b_c.example.net/ http://1e100.example.net/
    http://0x7f.example.net/ http://münchen.example.net/ http://пример.example.net/ http://例え.example.net/
    http://example.com/a@b http://example.com/~me/ http://example.com/%2e%2e/ http://example.com/a;b=c,d
    http://[::ffff:93.184.215.14]/ http://172.32.0.1/ http://100.128.0.1/ http://11.0.0.1/ http://169.255.0.1/
    http://example.com/?q=localhost http://example.com:80/ http://example.com:8443/ http://example.com:8000/
""")


class _AnyName(dict):
    """Resolves whatever it is asked, to where an attacker would have it."""

    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        return [PUBLIC] if name.endswith((".net", "example.com")) else ["127.0.0.1"]


def sockets_of(answers, url, names=None):
    """What a fetch opens, and what it says."""
    with WebServer(answers) as server:
        web = server.web()
        web._resolve = (names or _AnyName()).__getitem__
        try:
            web.get(url)
        except ToolError as error:
            return server.dialled, str(error)
        return server.dialled, ""


@pytest.mark.parametrize(("kind", "url"), ATTACKS)
def test_no_socket_is_opened_to_what_is_not_public(kind, url):
    dialled, said = sockets_of({"/": html("inside")}, url)
    assert dialled == []
    assert said


LOCATIONS = [url for _, url in ATTACKS if url.isascii() and url.isprintable() and not url.startswith(("/e", "://"))]


@pytest.mark.parametrize("location", LOCATIONS)
def test_no_redirect_leads_there(location):
    dialled, said = sockets_of({"/": html("inside"), "/a": leads(location)}, "http://example.com/a")
    assert {number for number, _ in dialled} == {PUBLIC}
    assert len(dialled) == 1 or urlsplit(location).netloc == "", "what has no host is another page of the same"
    assert said or urlsplit(location).netloc == ""


@pytest.mark.parametrize("number", NUMBERS)
def test_no_name_leads_there(number):
    for found in ([number], [PUBLIC, number], [number, PUBLIC]):
        dialled, said = sockets_of({"/": html("inside")}, "http://rebind.example.net/", {"rebind.example.net": found})
        assert dialled == []
        assert "not public" in said


@pytest.mark.parametrize("url", HONEST)
def test_an_honest_address_is_read(url):
    dialled, said = sockets_of({parse_url(url).path.split("?")[0]: html("<p>hi")}, url)
    assert len(dialled) == 1
    assert not said
