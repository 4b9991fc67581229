"""A run folder read on from where it was left, and its page.

The log of a running training grows; a `Follower` keeps what it made of the rows so far (series, diagnosis) and parses
only what is new. `write_dashboard` is one that is used once.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from autograd_core.files import write_atomic

from ..diagnosis import Range, all_rules, diagnose, findings, healthy_ranges, judges_overfitting
from ..diagnosis import Record as Diagnosed
from ..log import read_further
from .findings import Marked, number_findings
from .page import render_page
from .record import read_record
from .series import SeriesReader
from .text import LANGUAGES

LOG_NAME = "inspector.log.jsonl"
PAGE_NAME = "dashboard.html"

PATIENCE = 20.0
"""Seconds to leave a page alone for each second that writing it took: at most a twentieth of the time goes into it."""


class Follower:
    """Knows a run folder as of the last `advance`; any of its files may be missing or still being written.

    Parameters
    ----------
    run : path
        A run folder.
    make_reader : callable, optional
        Returns where the rows go; by default a reader with the buckets of a single run.
    """

    def __init__(self, run: str | os.PathLike[str], *, make_reader: Callable[[], SeriesReader] = SeriesReader) -> None:
        self.folder = Path(run)
        self._make_reader = make_reader
        self._spent, self._written_at = 0.0, float("-inf")
        self._begin()

    def _begin(self) -> None:
        self.reader = self._make_reader()
        self._diagnosed = Diagnosed()
        self._offset = self._lines = self._size = 0
        self._last = b""  # the line that ends at the offset, `_size` bytes long

    def advance(self) -> bool:
        """Take in the rows that were logged since; whether there were any.

        Raises
        ------
        ValueError
            As `read_log`.
        """
        log = self.folder / LOG_NAME
        try:
            rewound = self._line_before(log, self._offset) != self._last
        except FileNotFoundError:
            return False
        # Another process resumes the run: rows past its checkpoint are gone, and others may stand in their place.
        if rewound:
            self._begin()
        before = self.reader.rows
        for line, end, row in read_further(log, lines=self._lines, offset=self._offset):
            self.reader.add(row)
            self._diagnosed.add(row)
            self._lines, self._size, self._offset = line, end - self._offset, end
        if self.reader.rows > before:
            self._last = self._line_before(log, self._offset)
        return self.reader.rows > before or rewound

    def _line_before(self, log: Path, end: int) -> bytes:
        """What the log now holds where the last line that was taken in stood."""
        with log.open("rb") as file:
            file.seek(end - self._size)
            return file.read(self._size)

    def found(self) -> list[Marked] | None:
        """What the diagnosis says of the rows so far, numbered; None where there is none to diagnose.

        Raises
        ------
        ValueError
            As `diagnosis.all_rules`.
        """
        if not self.reader.rows:
            return None
        rules = all_rules()
        # Where no row says whether later tokens leak, the diagnosis of the folder asks its weights.
        probed = self._diagnosed.last("future_leak") is not None
        seen = diagnose(self._diagnosed, rules) if probed else findings(self.folder, rules=rules)
        return number_findings(seen, {rule.code: rule.panel for rule in rules})

    def ranges(self) -> dict[str, Range]:
        """Where the rules have nothing to say of this run, by chart."""
        return healthy_ranges(self._diagnosed)

    def render(self, *, language: str = "en", live: str = "") -> str:
        """The HTML of the page as of the last `advance`; with `live`, its version, the one that a server sends."""
        record = read_record(self.folder)
        return render_page(
            self.reader.series(),
            record,
            self.found(),
            ranges=self.ranges(),
            judged=judges_overfitting(self._diagnosed),
            language=language,
            live=live,
        )

    def write(self, *, language: str = "en") -> Path:
        """Path of the page written into the folder, as of now.

        Raises
        ------
        ValueError
            If the log is damaged other than by a torn last line.
        OSError
            If the page cannot be written; an older one is then untouched.
        """
        began = time.perf_counter()
        self.advance()
        target = self.folder / PAGE_NAME
        write_atomic(target, self.render(language=language))
        self._written_at = time.perf_counter()
        self._spent = self._written_at - began
        return target

    def write_in_passing(self) -> None:
        """`write`, unless the last one is so recent that pages would cost more than a twentieth of the time."""
        if time.perf_counter() - self._written_at >= PATIENCE * self._spent:
            self.write()


def write_dashboard(run: str | os.PathLike[str], *, language: str = "en") -> Path:
    """Path of the dashboard written into the run folder `run`, as `dashboard.html`.

    Parameters
    ----------
    run : path
        A run folder, finished, running or killed; any of its files may be missing.
    language : "en" or "es"
        Shown first; the page switches between both.

    Raises
    ------
    ValueError
        If `language` is another, `run` is no folder, or the log is damaged other than by a torn last line.
    OSError
        If the page cannot be written; an older one is then untouched.
    """
    if language not in LANGUAGES:
        raise ValueError(f"write_dashboard: `language` is one of {', '.join(LANGUAGES)}; got {language!r}. Use 'en'.")
    folder = Path(run)
    if not folder.is_dir():
        raise ValueError(f"write_dashboard: `run` is a run folder; got {str(folder)!r}. Pass the folder of a run.")
    return Follower(folder).write(language=language)
