"""Bytes to requests, replies to bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.doors.bedrock.protocol import Limits, Malformed, Parser, Reply, Request, rendered

LIMITS = Limits()


def requests(*pieces: bytes, limits: Limits = LIMITS) -> list[Request]:
    """All requests that come of these bytes, however they are cut."""
    parser, found = Parser(limits), []
    for piece in pieces:
        parser.feed(piece)
        while (request := parser.next_request()) is not None:
            found.append(request)
    return found


def one(text: bytes) -> Request:
    (request,) = requests(text)
    return request


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_request_is_a_verb_headers_and_an_empty_line(end: bytes) -> None:
    request = one(end.join([b"CreateJob", b"name: foo", b'data: {"value":1}', b"", b""]))
    assert request == ("createjob", "", {"name": "foo", "data": '{"value":1}'})


def test_line_ends_may_be_mixed() -> None:
    assert one(b"GetJob\r\nname: a\nx: b\n\r\n").headers == {"name": "a", "x": "b"}


def test_a_lone_carriage_return_ends_no_line() -> None:
    assert requests(b"Ping\r\r") == []
    assert one(b"GetJob\nname: a\rb\n\n").headers == {"name": "a\rb"}


def test_empty_lines_before_a_request_are_skipped() -> None:
    assert one(b"\r\n\n\r\nPing\n\n").verb == "ping"


def test_the_verb_ends_at_the_first_space_and_its_case_does_not_matter() -> None:
    assert one(b"CANCELjob / HTTP/1.1\n\n")[:2] == ("canceljob", "/ HTTP/1.1")


def test_names_of_headers_have_any_case_and_values_any_colon() -> None:
    request = one(b"X\nNaMe:a:b\nspaced  :   c  \nlate: 1\nLATE: 2\n\n")
    assert request.headers == {"name": "a:b", "spaced": "c", "late": "2"}


def test_a_line_without_a_colon_is_no_header_and_an_indented_one_goes_on() -> None:
    request = one(b"X\nmockRequest\ndata: {\n  1}\n\t!\n\n")
    assert request.headers == {"data": "{  1}\t!"}


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (rb'{"a":"x\\"y"}', r'{"a":"x\"y"}'),
        (rb"a\nb\rc\td\be\ff", "a\nb\rc\td\be\ff"),
        (rb"\/ \x \"", '/ x "'),
        (rb"\u00e9 \ud83d\ude00", "é 😀"),
        (rb"\u12", "u12"),
        (b"ends with \\", "ends with \\"),
        ("grün 木".encode(), "grün 木"),
    ],
)
def test_values_are_unescaped(sent: bytes, meant: str) -> None:
    assert one(b"X\nv: " + sent + b"\n\n").headers["v"] == meant


def test_pipelined_requests_come_in_order_with_and_without_bodies() -> None:
    found = requests(b"A\nContent-Length: 4\n\nB\n\n!B\n\nC\r\n\r\n\r\nD\ncontent-LENGTH:0\n\n")
    assert [request.verb for request in found] == ["a", "b", "c", "d"]


def test_a_body_is_waited_for_and_skipped() -> None:
    assert requests(b"A\nContent-Length: 4\n\nab") == []
    assert [r.verb for r in requests(b"A\nContent-Length: 4\n\nab", b"cdB\n\n")] == ["a", "b"]


@pytest.mark.parametrize("length", ["-1", "x", "1.5", "0x10", "", "\u0661"])
def test_a_length_that_is_no_number_ends_it(length: str) -> None:
    with pytest.raises(Malformed, match="400"):
        requests(f"A\nContent-Length: {length}\n\n".encode())


@pytest.mark.parametrize("length", [str(65 * 2**20), "9" * 5000])
def test_a_body_that_is_too_long_ends_it(length: str) -> None:
    with pytest.raises(Malformed, match="413"):
        requests(f"A\nContent-Length: {length}\n\n".encode())


def test_a_transfer_encoding_ends_it_for_the_next_request_could_begin_anywhere() -> None:
    with pytest.raises(Malformed, match="400"):
        requests(b"A\nTransfer-Encoding: chunked\n\n")


def test_a_head_may_be_so_long_and_no_longer() -> None:
    limits = Limits(head=20)
    assert requests(b"A\nx: " + b"1" * 15 + b"\n\n", limits=limits)
    for pieces in ([b"A\nx: " + b"1" * 16 + b"\n\n"], [b"1"] * 21):
        with pytest.raises(Malformed, match="413"):
            requests(*pieces, limits=limits)


def test_a_request_may_have_so_many_headers_and_no_more() -> None:
    limits = Limits(headers=3)
    assert requests(b"A\na: 1\nb: 2\nc: 3\n\n", limits=limits)
    with pytest.raises(Malformed, match="413"):
        requests(b"A\na: 1\nb: 2\nc: 3\nd: 4\n\n", limits=limits)


def test_a_parser_knows_whether_a_request_has_begun() -> None:
    parser = Parser()
    for piece, midway in ((b"\r\n", False), (b"A", True), (b"\nContent-Length: 1\n\n", True)):
        parser.feed(piece)
        parser.next_request()
        assert parser.midway is midway
    parser.feed(b"x")
    assert parser.next_request() is not None
    assert (parser.midway, parser.held) == (False, 0)


def test_a_reply_has_its_headers_in_order_and_its_length_last() -> None:
    reply = Reply("402 Bad query", b"{}", {"error": "no\r\nX: \\ y"})
    facts = {"commitCount": "5", "nodeName": "stoker"}
    assert rendered(reply, facts) == (
        b"402 Bad query\r\ncommitCount: 5\r\nerror: no\\r\\nX: \\\\ y\r\nnodeName: stoker\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )


# -- fuzz ----------------------------------------------------------------------------------

ODD = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b": ", b" ", b"\\", b"\\u", b"\0", b"\xff"])
LENGTH = st.integers(-1, 120).map(lambda length: b"Content-Length: %d\n" % length)
BYTES = st.lists(st.one_of(ODD, LENGTH, st.binary(max_size=6)), max_size=40).map(b"".join)
CUTS = st.lists(st.integers(min_value=1, max_value=9), max_size=60)


def cut(text: bytes, sizes: list[int]) -> list[bytes]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(text[start : start + size])
        start += size
    return [*pieces, text[start:]]


def outcome(*pieces: bytes) -> tuple[list[Request], str | None]:
    parser, found = Parser(Limits(head=200, headers=10, body=100)), []
    try:
        for piece in pieces:
            parser.feed(piece)
            while (request := parser.next_request()) is not None:
                found.append(request)
    except Malformed as error:
        return found, error.status
    return found, None


@given(BYTES, CUTS)
def test_what_comes_of_bytes_does_not_depend_on_how_they_are_cut(
    text: bytes, sizes: list[int]
) -> None:
    assert outcome(*cut(text, sizes)) == outcome(text)


VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(st.tuples(st.from_regex(r"\A[a-z]{1,8}\Z"), VALUES), max_size=5), st.booleans())
def test_what_a_client_escapes_comes_out_as_it_was(
    pairs: list[tuple[str, str]], crlf: bool
) -> None:
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    wanted = {f"h{name}": value.strip(" ") for name, value in pairs}
    lines = [
        f"{name}: {''.join(escapes.get(char, char) for char in value)}"
        for name, value in wanted.items()
    ]
    end = "\r\n" if crlf else "\n"
    request = one((end.join(["X", *lines]) + end + end).encode())
    assert request.headers == wanted
