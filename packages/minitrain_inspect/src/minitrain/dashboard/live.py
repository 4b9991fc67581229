"""The page while a run trains, from a small server for this machine alone.

A thread of the training process answers; it builds the page only when one is asked for and the log has grown, and not
so often that building would take more than a twentieth of the time. It reads the run's files and touches nothing else.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from .document import PLOTLY_PATH
from .follow import LOG_NAME, PATIENCE, Follower

HOST = "127.0.0.1"
_OPEN_PAGE = 6.0  # seconds: a page asks every two, so one that did not ask for so long is closed
_LAST_LOOK = 3.0  # seconds that an ended training waits for open pages to fetch its end


class LivePage:
    """The page of a growing run folder, built again when there is more and enough time has passed.

    Parameters
    ----------
    run : path
        A run folder, which may not be there yet.
    language : "en" or "es"
    """

    def __init__(self, run: Path, *, language: str = "en") -> None:
        self._follower = Follower(run)
        self._language = language
        self._lock = threading.Lock()
        self._page, self._version = "", ""
        self._built_at, self._spent = float("-inf"), 0.0
        self._asked_at = float("-inf")
        self._ended = False
        self._end_seen = threading.Event()

    def state(self) -> dict[str, Any]:
        """Version of the page that is worth fetching now, and whether it is the last one."""
        self._asked_at = time.monotonic()
        return {"version": self._available(), "ended": self._ended}

    def page(self) -> str:
        """The HTML as of now, or of a moment ago.

        Raises
        ------
        ValueError
            As `Follower.advance`.
        """
        with self._lock:
            ended, version = self._ended, self._available()
            if version != self._version:
                began = time.monotonic()
                self._follower.advance()
                self._page = self._follower.render(language=self._language, live=version)
                self._version = version
                self._built_at = time.monotonic()
                self._spent = self._built_at - began
            if ended:
                self._end_seen.set()
            return self._page

    def end(self) -> None:
        """Say that nothing will follow, and wait a moment for a page that is open to fetch the end."""
        self._ended = True
        if time.monotonic() - self._asked_at < _OPEN_PAGE:
            self._end_seen.wait(_LAST_LOOK)

    def _available(self) -> str:
        now = self._now()
        fresh = self._version and not self._ended and time.monotonic() - self._built_at < PATIENCE * self._spent
        return self._version if fresh else now

    def _now(self) -> str:
        try:
            size = (self._follower.folder / LOG_NAME).stat().st_size
        except OSError:
            size = 0
        return f"{size}-end" if self._ended else str(size)


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a browser keeps connections open

    def __init__(self, live: LivePage) -> None:
        super().__init__((HOST, 0), _Handler)
        self.live = live

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a connection that broke: standard error belongs to the training."""


class _Handler(BaseHTTPRequestHandler):
    """Answers three paths, to who asks for this machine by its address."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    server_version, sys_version = "minitrain", ""

    def do_GET(self) -> None:
        """Answer a request; whatever goes wrong is an answer, never the end of the training."""
        # Another name that resolves to 127.0.0.1 is a web page that would read this one: DNS rebinding.
        asked = self.headers.get("Host", "").partition(":")[0]
        path = self.path.partition("?")[0]
        try:
            if asked not in (HOST, "localhost"):
                self._answer(403, "text/plain", f"This page answers to {HOST} alone.\n")
            elif path == "/":
                self._answer(200, "text/html", self.server.live.page())
            elif path == "/state":
                self._answer(200, "application/json", json.dumps(self.server.live.state()))
            elif path == PLOTLY_PATH:
                self._answer(200, "text/javascript", get_plotlyjs(), "private, max-age=86400, immutable")
            else:
                self._answer(404, "text/plain", "There is nothing else here.\n")
        except ConnectionError:
            self.close_connection = True  # the page was closed meanwhile
        except (ValueError, OSError) as error:
            self._answer(500, "text/plain", f"{' '.join(str(error).split())}\n")

    def _answer(self, status: int, kind: str, text: str, cache: str = "no-store") -> None:
        body = text.encode("utf-8")
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", cache),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: standard error belongs to the training."""


@contextmanager
def serve_live(run: Path, *, language: str = "en") -> Iterator[str]:
    """Address at which the page of `run` can be read meanwhile.

    The server stops when the block ends; if it ends without an exception, an open page first fetches what came last.

    Parameters
    ----------
    run : path
        A run folder, which may not be there yet.
    language : "en" or "es"
        Shown first.

    Raises
    ------
    OSError
        If no port of 127.0.0.1 is to be had.
    """
    live = LivePage(run, language=language)
    server = _Server(live)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="minitrain live page")
    thread.daemon = True
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
        live.end()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
