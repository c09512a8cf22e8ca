"""Which addresses may be asked, and which networks are this board's own."""

from ipaddress import ip_network

import pytest
from rows import each_row

from picoclaw.errors import ToolError
from picoclaw.web.address import (
    KnownUrls,
    explain_refusal,
    find_urls,
    normalize_url,
    parse_routes_4,
    parse_routes_6,
    parse_url,
)


@each_row(
    ("url", "spelling"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com.:443/A?b=C#d", "https://example.com/A?b=C"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:8080/x", "http://example.com:8080/x"),
        ("https://example.com?q=1", "https://example.com/?q=1"),
        ("https://münchen.example.org/straße", "https://xn--mnchen-3ya.example.org/stra%C3%9Fe"),
        ("https://example。com/", "https://example.com/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"),
        ("https://[2606:4700:4700:0:0::1111]:8443/", "https://[2606:4700:4700::1111]:8443/"),
        ("https://a_b.example.com/", "https://a_b.example.com/"),
        ("https://example.com/a%20b/%C3%9F?x=[1]", "https://example.com/a%20b/%C3%9F?x=[1]"),
        (" https://example.com/a\n", "https://example.com/a"),
        ("https://123.example.com/", "https://123.example.com/"),
        ("https://1e100.net/", "https://1e100.net/"),
    ],
)
def test_an_address_is_spelt_in_one_way(url, spelling):
    assert parse_url(url).url == spelling
    assert parse_url(spelling).url == spelling


@each_row(
    ("url", "words"),
    [
        ("", "must begin with http"),
        ("example.com", "must begin with http"),
        ("file:///etc/passwd", "must begin with http"),
        ("ftp://example.com/", "must begin with http"),
        ("gopher://example.com:70/_", "must begin with http"),
        ("https:/example.com", "must begin with http"),
        ("https://", "no host"),
        ("https://example.com:22/", "port 22"),
        ("https://example.com:99999/", "port 99999"),
        ("https://example.com:0/", "port 0"),
        ("https://example.com:8 0/", "blank"),
        ("https://-a.example.com/", "no name of a host"),
        ("https://a..b.com/", "no name of a host"),
        ("https://" + "a" * 64 + ".com/", "no name of a host"),
        ("https://" + "a." * 127 + "com/", "no name of a host"),
        ("https://example.com/" + "a" * 2100, "characters"),
        ("https://[::1", "no host"),
        ("https://[1.2.3.4]/", "no IPv6"),
        ("https://user:hush@example.com/", "user's name"),
    ],
)
def test_what_is_no_address_is_named(url, words):
    with pytest.raises(ToolError, match=words) as caught:
        parse_url(url)
    assert "hush" not in str(caught.value)


PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
]
PUBLIC += [
    "223.255.255.254",
    "2606:4700::1111",
    "2a00:1450:4001::5",
    "2001:200::1",
    "2001:4860:4860::8888",
    "64:ff9b::808:808",
]
PUBLIC += ["::ffff:8.8.8.8", "198.17.255.255", "198.20.0.1", "169.253.1.1", "126.0.0.1", "128.0.0.1", "11.0.0.1"]


@each_row("number", PUBLIC)
def test_public_addresses_are_let_through(number):
    assert explain_refusal(number) == ""


def test_this_boards_own_networks_are_refused():
    near = [ip_network("2a02:8109::/56"), ip_network("81.2.69.0/24")]
    assert (
        explain_refusal("2a02:8109:0:7f::5", near)
        == explain_refusal("81.2.69.142", near)
        == "in this board's own network"
    )
    assert explain_refusal("::ffff:81.2.69.142", near)
    assert explain_refusal("2a02:8109:0:100::5", near) == explain_refusal("81.2.70.1", near) == ""


ROUTES_4 = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0
ppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0
"""
GLOBAL, GATEWAY, NONE = "2a028109000000010000000000000000", "fe800000000000000000000000000001", "0" * 32
ROUTES_6 = f"""{GLOBAL} 40 {NONE} 00 {NONE} 00000100 00000001 00000000 00000001     eth0
fe800000000000000000000000000000 40 {NONE} 00 {NONE} 00000100 00000002 00000000 00000001     eth0
{NONE} 00 {NONE} 00 {GATEWAY} 00000400 00000003 00000000 00000003     eth0
20000000000000000000000000000000 03 {NONE} 00 {NONE} 00000400 00000003 00000000 00000003     wg0
"""


def test_the_kernels_routes_tell_the_own_networks():
    assert parse_routes_4(ROUTES_4) == [ip_network("192.168.1.0/24")]
    assert parse_routes_6(ROUTES_6) == [ip_network("2a02:8109::/56")]
    assert parse_routes_4("") == parse_routes_6("") == []


@each_row(
    ("text", "url"),
    [
        ("read https://example.com/a?b=c please", "https://example.com/a?b=c"),
        ("(see https://example.com/a).", "https://example.com/a"),
        ("what does example.com say?", "https://example.com/"),
        ("what does example.com say?", "http://example.com/"),
        ("**HTTPS://Example.com/A**", "https://example.com/A"),
        ("<https://example.com/a>, and", "https://example.com/a"),
        ("en.wikipedia.org/wiki/Relay_(disambiguation)", "https://en.wikipedia.org/wiki/Relay_(disambiguation)"),
    ],
)
def test_an_address_that_was_written_is_found(text, url):
    assert normalize_url(url) in find_urls([text])


@each_row(
    "url",
    [
        "https://example.com/a?b=c&d=e",
        "https://example.com/a/b",
        "https://example.com/A",
        "https://evil.example.com/a",
        "https://example.com.evil.net/a",
        "https://example.com:8443/a",
        "https://example.co/",
        "http://example.com/a",
    ],
)
def test_no_other_address_counts_as_written(url):
    assert normalize_url(url) not in find_urls(["read https://example.com/a and tell me"])


def test_known_addresses_have_an_end():
    known = KnownUrls()
    known.add("a", [f"https://example.com/{i}" for i in range(1500)])
    assert known.has("a", "https://example.com/1499")
    assert not known.has("a", "https://example.com/1")
    assert not known.has("b", "https://example.com/1499")
    for i in range(40):
        known.add(f"s{i}", ["https://example.com/"])
    assert not known.has("a", "https://example.com/1499")
    assert known.has("s39", "https://example.com/")
