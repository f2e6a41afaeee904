"""The page over HTTP: this machine only, and this page only."""

import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from innerloop.core.errors import InnerloopError
from innerloop.explore.server import LOOPBACK, served


def _get(address: str, path: str = "/", host: str | None = None) -> tuple[int, str]:
    place = urlsplit(address)
    connection = HTTPConnection(place.hostname or "", place.port)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_page_is_served_and_nothing_else():
    with served("<p>page</p>") as address:
        assert address.startswith(f"http://{LOOPBACK}:")
        assert _get(address) == (200, "<p>page</p>")
        assert _get(address, "/../secret")[0] == 404
        # A name that somebody else has pointed at this machine.
        assert _get(address, host="evil.example")[0] == 421


def test_the_port_is_free_again_at_the_end():
    with served("page") as address:
        port = urlsplit(address).port or 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))
    with served("again", port) as address:
        assert _get(address) == (200, "again")


def test_a_port_that_is_taken_is_a_sentence():
    with served("page") as address:
        port = urlsplit(address).port or 0
        with pytest.raises(InnerloopError, match=f"port {port} cannot be served"), served("", port):
            pass


def test_only_the_loopback_interface_listens():
    with served("page") as address:
        port = urlsplit(address).port or 0
        # All of 127.0.0.0/8 is this machine; a server on every interface would answer there, too.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))
