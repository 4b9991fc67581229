"""The page of a run that trains: who it answers, when it builds, that it stops, and that it changes nothing."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import synthetic_run
from minitrain.dashboard import live, serve_live
from minitrain.dashboard.document import PLOTLY_PATH
from minitrain.dashboard.live import LivePage
from minitrain.log import LogWriter

ROWS = synthetic_run.rows(count=17, layers=1)


def write_log(run: Path, count: int) -> None:
    run.mkdir(exist_ok=True)
    (run / "inspector.log.jsonl").unlink(missing_ok=True)
    with LogWriter(run / "inspector.log.jsonl") as writer:
        for row in ROWS[:count]:
            writer.write(row)


def ask(address: str, path: str, **headers: str) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=10)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_log(tmp_path / "run", 5)
    return tmp_path / "run"


@pytest.fixture
def address(run: Path) -> Iterator[str]:
    with serve_live(run) as address:
        yield address


def test_it_listens_on_the_loopback_address_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Any] = []
    bind = socket.socket.bind
    monkeypatch.setattr(socket.socket, "bind", lambda self, to: (bound.append(to), bind(self, to))[1])
    with serve_live(run) as address:
        assert bound == [("127.0.0.1", 0)]
        assert urlsplit(address).hostname == "127.0.0.1"
        assert (urlsplit(address).port or 0) > 0


def test_three_paths_are_answered_and_nothing_else(address: str) -> None:
    page, text = ask(address, "/")
    assert (page.status, page.getheader("Cache-Control")) == (200, "no-store")
    assert page.getheader("Content-Type") == "text/html; charset=utf-8"
    assert page.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    assert f'<script src="{PLOTLY_PATH}">' in text
    assert "connect-src 'self'; script-src 'self' 'sha256-" in text
    assert len(text) < 300_000
    script, plotly = ask(address, PLOTLY_PATH)
    assert (script.status, len(plotly) > 1_000_000) == (200, True)
    assert "immutable" in (script.getheader("Cache-Control") or "")
    state, words = ask(address, "/state")
    assert (state.status, set(json.loads(words))) == (200, {"version", "ended"})
    for path in ("/dashboard.html", "/../config.toml", "/%2e%2e/config.toml", "/state/", "//x/state"):
        assert ask(address, path)[0].status == 404, path


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1"])
def test_another_name_that_leads_here_is_refused(address: str, host: str) -> None:
    for path in ("/", "/state"):
        response, body = ask(address, path, Host=host)
        assert response.status in (400, 403), host
        assert "train" not in body


def test_a_forwarded_port_is_answered(address: str) -> None:
    assert ask(address, "/state", Host="localhost:8000")[0].status == 200


def test_the_page_follows_the_log(run: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.0)
    first = json.loads(ask(address, "/state")[1])
    page = ask(address, "/")[1]
    assert f'data-version="{first["version"]}"' in page
    assert "Running: the last row is of step 5" in page
    assert "Unfinished" not in page
    assert json.loads(ask(address, "/state")[1]) == first == {"version": first["version"], "ended": False}
    write_log(run, 17)
    second = json.loads(ask(address, "/state")[1])
    assert second["version"] != first["version"]
    page = ask(address, "/")[1]
    assert f'data-version="{second["version"]}"' in page
    assert "the last row is of step 17" in page


def test_building_takes_at_most_a_twentieth_of_the_time(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    page = LivePage(run)
    built: list[str] = []

    def slowly(*, language: str, live: str) -> str:
        now[0] += 0.25
        built.append(live)
        return live

    monkeypatch.setattr(page._follower, "render", slowly)
    assert page.page() == page.state()["version"] == built[0]
    write_log(run, 11)
    now[0] += 4.9
    assert page.state()["version"] == page.page() == built[0]
    now[0] += 0.2
    assert page.state()["version"] == page.page() == built[1] != built[0]
    assert len(built) == 2


def test_nobody_asks_and_nothing_is_built(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: LivePage) -> str:
        raise AssertionError

    monkeypatch.setattr(LivePage, "page", never)
    began = time.monotonic()
    with serve_live(run):
        pass
    assert time.monotonic() - began < 2.5


def test_it_stops_with_the_training(run: Path) -> None:
    before = set(threading.enumerate())
    with serve_live(run) as address:
        ask(address, "/plain")
    with pytest.raises(ConnectionError):
        ask(address, "/state")
    assert {thread for thread in threading.enumerate() if thread.name == "minitrain live page"} <= before


def test_it_stops_when_the_training_fails(run: Path) -> None:
    serving = serve_live(run)
    address = serving.__enter__()
    assert ask(address, "/state")[0].status == 200
    # What a `with` does when an exception leaves its block.
    assert not serving.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    with pytest.raises(ConnectionError):
        ask(address, "/state")


def test_an_open_page_still_fetches_the_end(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_LAST_LOOK", 60.0)
    seen: list[str] = []

    def look(address: str, opened: threading.Event) -> None:
        state = {"ended": False}
        while not state["ended"]:
            state = json.loads(ask(address, "/state")[1])
            opened.set()
            time.sleep(0.02)
        seen.append(ask(address, "/")[1])

    opened = threading.Event()
    with serve_live(run) as address:
        reader = threading.Thread(target=look, args=(address, opened))
        reader.start()
        assert opened.wait(20)
        write_log(run, 17)
    reader.join()
    assert "the last row is of step 17" in seen[0]
    assert '-end"' in seen[0]


def test_it_waits_for_a_page_no_longer_than_that(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_LAST_LOOK", 0.3)
    with serve_live(run) as address:
        ask(address, "/state")
        began = time.monotonic()
    assert 0.3 <= time.monotonic() - began < 5


def test_a_folder_that_is_not_there_yet_is_an_empty_page(tmp_path: Path) -> None:
    with serve_live(tmp_path / "later", language="es") as address:
        page = ask(address, "/")[1]
    assert "Running: nothing has been logged yet." in page
    assert '<html lang="es"' in page


def test_a_damaged_log_is_an_answer_and_not_the_end(run: Path, address: str) -> None:
    log = run / "inspector.log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(b"no row\n" + whole)
    response, body = ask(address, "/")
    assert response.status == 500
    assert "line 1: a log holds one JSON object a line" in body
    log.write_bytes(whole)
    assert ask(address, "/")[0].status == 200


def test_the_saved_page_asks_nobody(run: Path) -> None:
    saved = live.Follower(run).write().read_text("utf-8")
    assert "/state" not in saved
    assert "connect-src" not in saved
    assert "data-version" not in saved
    assert 'id="live"' not in saved
