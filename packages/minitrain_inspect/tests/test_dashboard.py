"""The page: self-contained, inert whatever the names, readable whatever is missing, in two languages."""

import json
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from minitrain.dashboard import write_dashboard
from minitrain.dashboard.record import read_record
from minitrain.log import LogWriter

synthetic_run = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("synthetic_run.py"))))

HOSTILE = [
    "</script><img src=x onerror=1>",
    '"><b>',
    "&amp;",
    "<!--",
    "line\u2028separator",
    "emoji 🙂",
    "\ud800 surrogate",
    "%{x} $a$ {b}",
    "' onfocus='x",
    "<br>",
]
VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """What a browser would make of the file: tags, attributes, text by language, and whether the tags balance."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.source = path.read_text("utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    @property
    def words(self) -> str:
        return " ".join(self.text)

    @property
    def data(self) -> dict[str, Any]:
        def reject(token: str) -> NoReturn:
            raise AssertionError(token)

        value: dict[str, Any] = json.loads(self.scripts[0], parse_constant=reject)
        return value


def page_of(run: Path, **options: Any) -> Page:
    return Page(write_dashboard(run, **options))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthetic_run.write_run(tmp_path / "a run", synthetic_run.rows(count=37, layers=2, log_every=10))


def test_the_page_is_written_whole_beside_the_log(run: Path) -> None:
    path = write_dashboard(run)
    assert path == run / "dashboard.html"
    before = {file.name for file in run.iterdir()}
    write_dashboard(run)
    assert {file.name for file in run.iterdir()} == before
    assert path.read_text("utf-8").endswith("</html>\n")


def test_the_same_run_gives_the_same_bytes(run: Path) -> None:
    first = write_dashboard(run).read_bytes()
    assert write_dashboard(run).read_bytes() == first


def test_there_are_seven_panels_and_eight_charts(run: Path) -> None:
    page = page_of(run)
    assert sum(tag == "section" for tag, _ in page.tags) == 7
    holders = [attributes["data-chart"] for _, attributes in page.tags if "data-chart" in attributes]
    assert len(holders) == 8
    assert list(page.data["charts"]) == holders


def test_every_id_is_unique_and_every_reference_has_one(run: Path) -> None:
    page = page_of(run)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set((attributes.get(key) or ids[0]).split()) <= set(ids)
        if (attributes.get("href") or "").startswith("#"):
            assert (attributes["href"] or "")[1:] in ids


def test_nothing_is_fetched(run: Path) -> None:
    page = page_of(run)
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert re.match(r"#|data:,$", attributes.get("href") or "#"), tag
        assert not any(name.startswith("on") for name in attributes), tag
    css = page.source.split("<style>")[1].split("</style>")[0]
    assert "url(" not in css
    assert "@import" not in css
    (policy,) = (a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy


def test_sharing_and_the_logo_are_off(run: Path) -> None:
    own = page_of(run).scripts[2]
    for setting in ("displaylogo: false", "showSendToCloud: false", 'plotlyServerURL: ""'):
        assert setting in own
    for unsafe in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "http"):
        assert unsafe not in own


def test_final_numbers_and_what_ran_are_in_the_head(run: Path) -> None:
    words = page_of(run).words
    for expected in (
        "a run",
        "Finished after 370 steps.",
        "1.119",
        "nats; best 1.087 at step 2,410",
        "nats; the model is 0.418 better",
        "59 of 72 held-out forms",
        "31 de 48 formas reservadas",
        "103,680 parameters",
        "2 min 51 s",
        "2 layers of width 64",
        "seed 7",
        "data: verbs",
        "datos: verbos",
        "nats; el modelo la mejora en 0.418",
        "Referencia de n\u2011gramas",
        "minitrain-inspect 0.1.0\u00a0· NumPy 2.4.6\u00a0· Python 3.11.7",
        "Terminada tras 370 pasos.",
    ):
        assert expected in words, expected


def test_a_version_that_is_not_known_is_left_out(run: Path) -> None:
    (run / "manifest.json").write_text(json.dumps({"packages": {"minitrain-inspect": None, "numpy": "2.4.6"}}), "utf-8")
    words = page_of(run).words
    assert "seed 7\u00a0· NumPy 2.4.6" in words
    assert "null" not in words


def test_every_setting_can_be_unfolded(run: Path) -> None:
    words = page_of(run).words
    for key in ("train.batch_size", "model.d_model", "packages.numpy"):
        assert key in words


@pytest.mark.parametrize("missing", ["manifest.json", "results.json", "config.toml", "inspector.log.jsonl"])
def test_any_file_may_be_missing(run: Path, missing: str) -> None:
    (run / missing).unlink()
    page = page_of(run)
    assert page.count("section") == 7
    assert "None" not in page.words
    assert "cannot be read" not in page.words


def test_an_empty_folder_gives_a_page_that_says_so(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert "Unfinished: nothing has been logged yet." in page.words
    assert page.words.count("No row has been logged yet.") == 7


@pytest.mark.parametrize("finished", [False, None])
def test_a_run_that_did_not_finish_is_said_to_be_so(tmp_path: Path, finished: bool | None) -> None:
    rows = synthetic_run.rows(count=7, layers=1, log_every=10)
    run = synthetic_run.write_run(tmp_path / "killed", rows, finished=finished)
    (run / "config.toml").write_text("[train]\nsteps = 3000\n", "utf-8")
    with (run / "inspector.log.jsonl").open("ab") as log:
        log.write(b'{"schema":1,"step":80,"tok')
    words = page_of(run).words
    assert "Unfinished: stopped, killed or still running; the last row is of step 70 of 3,000." in words
    assert "la última fila es del paso 70 de 3000." in words


def test_the_reason_of_a_stop_and_the_first_bad_number_are_said(tmp_path: Path) -> None:
    rows = synthetic_run.rows(count=7, layers=1)
    rows[5]["inspect"]["modules"]["blocks.0.ffn"].update(n=0, mean_abs=None, nan=3)
    run = synthetic_run.write_run(tmp_path / "nan", rows, finished=False)
    results = json.loads((run / "results.json").read_text("utf-8"))
    (run / "results.json").write_text(json.dumps(results | {"stopped": "gradients are not finite"}), "utf-8")
    words = page_of(run).words
    assert "It was stopped: gradients are not finite" in words
    assert "First number that was not finite: blocks.0.ffn (nan) in the row of step 6." in words
    # What the next line says is not said before it as well.
    reason = "step 6: the first NaN or infinity was seen in blocks.0.ffn at step 6"
    (run / "results.json").write_text(json.dumps(results | {"stopped": reason}), "utf-8")
    assert "It was stopped" not in page_of(run).words


def test_a_run_that_a_finding_stopped_says_so_in_both_languages(tmp_path: Path) -> None:
    run = synthetic_run.write_run(tmp_path / "stopped", synthetic_run.rows(count=7, layers=1), finished=False)
    results = json.loads((run / "results.json").read_text("utf-8"))
    stopped = {"stopped": "step 7: the diagnosis found broken-mask"}
    (run / "results.json").write_text(json.dumps(results | stopped), "utf-8")
    words = page_of(run).words
    assert "It was stopped at step 7: the diagnosis found broken-mask." in words
    assert "Fue detenida en el paso 7: el diagnóstico encontró broken-mask." in words


@pytest.mark.parametrize("content", [b'{"finished": tr', b"\xff\xfe", b"[1, 2]", b""])
@pytest.mark.parametrize("name", ["results.json", "manifest.json"])
def test_a_file_that_cannot_be_read_is_named_and_left_out(run: Path, name: str, content: bytes) -> None:
    (run / name).write_bytes(content)
    page = page_of(run)
    assert f"{name} cannot be read and is left out." in page.words
    assert page.count("section") == 7


def test_strange_values_in_the_files_are_shown_or_left_out_but_never_fatal(run: Path) -> None:
    results = {"finished": "yes", "val_loss": None, "steps": "x", "held_out_exact": {"regular": 3, "irregular": {}}}
    (run / "results.json").write_text(json.dumps(results), "utf-8")
    (run / "config.toml").write_text("train = 3\nmodel = [1]\n", "utf-8")
    (run / "manifest.json").write_text(json.dumps({"config": 5, "packages": {"numpy": None}}), "utf-8")
    page = page_of(run)
    assert page.count("section") == 7
    assert "Unfinished" in page.words


def test_the_configuration_of_the_manifest_comes_first_because_it_has_no_paths(run: Path) -> None:
    (run / "config.toml").write_text('[data]\nsource = "/home/someone/text.txt"\n', "utf-8")
    assert "someone" in page_of(run).words  # nothing else to show
    assert "data: text.txt" in page_of(run).words
    manifest = {"config": {"data": {"source": "text.txt"}}}
    (run / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    assert "someone" not in page_of(run).source
    assert read_record(run).config == manifest["config"]


def test_a_damaged_log_is_an_error_and_the_older_page_stays(run: Path) -> None:
    before = write_dashboard(run).read_bytes()
    log = run / "inspector.log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], lines[1][:40] + b"\n", *lines[2:]]))
    with pytest.raises(ValueError, match="line 2"):
        write_dashboard(run)
    assert (run / "dashboard.html").read_bytes() == before


def test_the_wrong_language_or_folder_is_named(run: Path) -> None:
    with pytest.raises(ValueError, match=r"`language` is one of en, es; got 'fr'\. Use 'en'"):
        write_dashboard(run, language="fr")
    with pytest.raises(ValueError, match=r"`run` is a run folder; got '.*dashboard\.html'"):
        write_dashboard(write_dashboard(run))


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_language_asked_for_is_shown_first_and_both_are_there(run: Path, language: str) -> None:
    page = page_of(run, language=language)
    assert page.tags[0] == ("html", {"lang": language, "data-language": language})
    assert "Spectral norms" in page.words
    assert "Normas espectrales" in page.words
    first = next(a for _, a in page.tags if a.get("class") == "drawing")
    assert first["aria-label"] == {"en": "Loss", "es": "Pérdida"}[language]


def hostile_rows(names: list[str]) -> list[dict[str, Any]]:
    rows = synthetic_run.rows(count=3, layers=1)
    for row in rows:
        inspection = row["inspect"]
        for name in names:
            inspection["modules"][name] = inspection["modules"]["embedding"]
            inspection["modules"][name + "idle"] = {"n": 0, "mean_abs": None, "nan": 0, "inf": 0}
            inspection["modules"][name + "bad"] = {"n": 0, "mean_abs": None, "nan": 1, "inf": 0}
            for part in ("spectral_norm", "dead_fraction", "update_ratio"):
                inspection[part][name] = 0.5
    return rows


def test_hostile_names_are_shown_literally_and_never_run(tmp_path: Path) -> None:
    plain_names = [f"plain{index}" for index in range(len(HOSTILE))]
    plain_page = page_of(synthetic_run.write_run(tmp_path / "plain", hostile_rows(plain_names)))
    run = synthetic_run.write_run(tmp_path / "x<img src=y onerror=2>&amp;", hostile_rows(HOSTILE))
    (run / "config.toml").write_text(
        "[train]\nsteps = 3\n[data]\nsource = '<script>alert(1)</script>'\n'<i>' = '</td>'\n", "utf-8"
    )
    (run / "results.json").write_text(json.dumps({"finished": True, "stopped": "</p><script>"}), "utf-8")
    page = page_of(run)
    assert page.count("script") == plain_page.count("script") == 3
    assert page.source.count("<!--") == plain_page.source.count("<!--") == 0
    assert page.count("b") == page.count("i") == page.count("img") == 0
    shown = page.words
    for name in HOSTILE:
        assert name.encode("utf-8", "replace").decode("utf-8") in shown, name
    assert "x<img src=y onerror=2>&amp;" in shown
    assert "<script>alert(1)</script>" in shown


def test_hostile_names_survive_the_data_block(tmp_path: Path) -> None:
    page = page_of(synthetic_run.write_run(tmp_path / "run", hostile_rows(HOSTILE)))
    block = page.scripts[0]
    assert block.isascii()
    assert not set("<>&") & set(block)
    names = page.data["charts"]["activation"]["texts"]["en"]["names"]
    assert "&lt;/script&gt;&lt;img src=x onerror=1&gt;" in names
    assert "&amp;amp;" in names
    assert "line\u2028separator" in names


def test_numbers_that_are_not_finite_reach_the_page_as_strict_json(tmp_path: Path) -> None:
    rows = synthetic_run.rows(count=5, layers=1)
    rows[3]["train_loss"] = float("nan")
    rows[3]["grad_norm"] = float("inf")
    rows[3]["inspect"]["update_ratio"]["embedding.E"] = float("-inf")
    data = page_of(synthetic_run.write_run(tmp_path / "run", rows)).data
    assert data["charts"]["loss"]["traces"][0]["y"][3] is None
    assert data["charts"]["grad_norm"]["traces"][-1]["meta"]["kind"] == "cross"


def test_a_large_run_stays_a_small_file(tmp_path: Path) -> None:
    run = tmp_path / "large"
    run.mkdir()
    with LogWriter(run / "inspector.log.jsonl") as writer:
        for row in synthetic_run.rows(count=430, layers=12):
            writer.write(row)
    page = page_of(run)
    assert len(page.source) < 6_500_000
    assert len(page.data["charts"]["activation"]["traces"]) == 5 + len(synthetic_run.module_names(12))
