"""The head of the page: how the run ended, what ran, the final numbers, and every setting to unfold.

Each function takes what the run folder holds and leaves out what it does not hold.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from .chart import Table
from .record import UNKNOWN, Record, flattened
from .series import RunSeries
from .text import NATS, VERB_CORPUS, Text, count, duration, joined, number, plain

_FOUND = re.compile(r"step (?P<step>\d+): the diagnosis found (?P<code>.*)")
_NOT_FINITE = re.compile(r"step \d+: the first NaN or infinity was seen in ")
"""Reasons as `run.execute` and `loop.train` give them, in English alone; the second is told by the log as well."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One of the final numbers: what it is, the number, and what it compares with."""

    label: Text
    value: Text
    aside: Text | None = None


def is_running(record: Record, *, live: bool) -> bool:
    """Whether the training that sends a page goes on; a page in a file does not know."""
    return live and not record.finished and _stopped(record) is None


def status(record: Record, series: RunSeries, *, live: bool = False) -> Text:
    """How the run ended, or that it did not; `live` of a page that the training itself sends."""
    if record.finished:
        return Text("Finished after {steps} steps.", "Terminada tras {steps} pasos.").fill(
            steps=count(_steps(record, series) or 0)
        )
    if _stopped(record) is not None:
        return Text("Stopped at step {step}.", "Detenida en el paso {step}.").fill(step=count(series.last_step or 0))
    if is_running(record, live=live) and series.last_step is None:
        return Text("Running: nothing has been logged yet.", "En marcha: aún no se ha registrado nada.")
    if series.last_step is None:
        return Text("Unfinished: nothing has been logged yet.", "Sin terminar: aún no se ha registrado nada.")
    planned = record.planned_steps
    of = Text(" of {steps}", " de {steps}").fill(steps=count(planned)) if planned else plain("")
    words = Text(
        "Unfinished: stopped, killed or still running; the last row is of step {step}{of}.",
        "Sin terminar: detenida, interrumpida o aún en marcha; la última fila es del paso {step}{of}.",
    )
    if is_running(record, live=live):
        words = Text(
            "Running: the last row is of step {step}{of}.", "En marcha: la última fila es del paso {step}{of}."
        )
    return words.fill(step=count(series.last_step), of=of)


def warnings(record: Record, series: RunSeries) -> list[Text]:
    """What a reader must know before believing the page: files that cannot be read, the first number not finite."""
    said = [
        Text("{name} cannot be read and is left out.", "{name} no se puede leer y se omite.").fill(name=name)
        for name in record.unreadable
    ]
    reason = _stopped(record)
    if reason is not None and (series.not_finite is None or not _NOT_FINITE.match(reason)):
        found = _FOUND.fullmatch(reason)
        said.append(
            Text("It was stopped: {reason}", "Fue detenida: {reason}").fill(reason=reason)
            if found is None
            else Text(
                "It was stopped at step {step}: the diagnosis found {code}.",
                "Fue detenida en el paso {step}: el diagnóstico encontró {code}.",
            ).fill(step=count(int(found["step"])), code=found["code"])
        )
    if series.not_finite is not None:
        said.append(
            Text(
                "First number that was not finite: {where} ({kind}) in the row of step {step}.",
                "Primer número no finito: {where} ({kind}) en la fila del paso {step}.",
            ).fill(where=series.not_finite.where, kind=series.not_finite.kind, step=count(series.not_finite.step))
        )
    return said


def what_ran(record: Record) -> Text:
    """One line: model, data, length, seed, versions, as far as configuration and manifest tell."""
    model, train = _section(record.config, "model"), _section(record.config, "train")
    parts: list[Text] = []
    if "n_layers" in model and "d_model" in model:
        parts.append(
            Text("{layers} layers of width {width}", "{layers} capas de anchura {width}").fill(
                layers=str(model["n_layers"]), width=str(model["d_model"])
            )
        )
    parameters = record.number("parameters")
    if parameters is not None:
        parts.append(Text("{n} parameters", "{n} parámetros").fill(n=count(int(parameters))))
    if "n_heads" in model:
        parts.append(Text("{heads} heads", "{heads} cabezas").fill(heads=str(model["n_heads"])))
    source = _section(record.config, "data").get("source")
    if source is not None:
        name = VERB_CORPUS if source == "verbs" else PurePath(str(source)).name
        parts.append(Text("data: {source}", "datos: {source}").fill(source=name))
    if "batch_size" in train:
        parts.append(Text("batches of {size}", "lotes de {size}").fill(size=str(train["batch_size"])))
    if "lr_max" in train:
        parts.append(Text("peak rate {rate}", "tasa máxima {rate}").fill(rate=_written(train["lr_max"])))
    if "seed" in train:
        parts.append(Text("seed {seed}", "semilla {seed}").fill(seed=str(train["seed"])))
    parts += [plain(f"{name} {version}") for name, version in _versions(record.manifest)]
    return joined(parts, "\u00a0· ")


def key_figures(record: Record, series: RunSeries) -> list[KeyFigure]:
    """The final numbers, those of `results.json` first and those of the log where it has none."""
    figures: list[KeyFigure] = []
    logged = series.scalars["val_loss"].last
    validation = record.number("val_loss")
    if validation is None and logged is not None:
        validation = logged.value
    if validation is not None:
        best, step = record.number("best_val_loss"), record.number("best_step")
        aside = NATS
        if best is not None and step is not None:
            aside = Text("nats; best {best} at step {step}", "nats; mejor {best} en el paso {step}").fill(
                best=float(best), step=count(int(step))
            )
        figures.append(KeyFigure(Text("Validation loss", "Pérdida de validación"), plain(number(validation)), aside))
    baseline_logged = series.scalars["ngram_loss"].last
    baseline = record.number("ngram_loss")
    if baseline is None and baseline_logged is not None:
        baseline = baseline_logged.value
    if baseline is not None:
        aside = NATS
        if validation is not None:
            better = baseline >= validation
            aside = (
                Text("nats; the model is {by} better", "nats; el modelo la mejora en {by}")
                if better
                else Text("nats; the model is {by} worse", "nats; el modelo queda {by} por encima, peor")
            ).fill(by=abs(baseline - validation))
        figures.append(
            KeyFigure(Text("n-gram baseline", "Referencia de n\u2011gramas"), plain(number(baseline)), aside)
        )
    for kind, label in (
        ("regular", Text("Regular forms right", "Formas regulares correctas")),
        ("irregular", Text("Irregular forms right", "Formas irregulares correctas")),
    ):
        asked = record.held_out(kind)
        if asked is not None and asked[1]:
            exact, of = asked
            figures.append(
                KeyFigure(
                    label,
                    plain(f"{100 * exact / of:.0f}\u202f%"),
                    Text("{exact} of {of} held-out forms", "{exact} de {of} formas reservadas").fill(
                        exact=exact, of=of
                    ),
                )
            )
    steps = _steps(record, series)
    if steps is not None:
        seen = series.tokens
        aside_tokens = (
            Text("{tokens} target positions", "{tokens} posiciones objetivo").fill(tokens=count(seen))
            if isinstance(seen, int)
            else None
        )
        figures.append(KeyFigure(Text("Steps", "Pasos"), count(steps), aside_tokens))
    seconds = record.number("train_seconds")
    if seconds is None:
        seconds = series.elapsed_seconds
    if seconds is not None:
        per_step = plain(f"{_per_step(seconds / steps)} / ") if steps else None
        figures.append(
            KeyFigure(
                Text("Duration", "Duración"),
                duration(seconds),
                joined((per_step, Text("step", "paso")), "") if per_step else None,
            )
        )
    return figures


def settings(record: Record) -> list[Table]:
    """Every key of the configuration and of the manifest."""
    header = (Text("key", "clave"), Text("value", "valor"))
    manifest = {key: value for key, value in record.manifest.items() if key != "config"}
    tables = []
    for name, values in (
        (Text("Configuration", "Configuración"), record.config),
        (Text("Where and with what it ran", "Dónde y con qué se ejecutó"), manifest),
    ):
        if values:
            tables.append(Table(name, header, [(key, value) for key, value in flattened(values)]))
    return tables


def _stopped(record: Record) -> str | None:
    """Why the run was stopped, as `results.json` says it."""
    reason = record.results.get("stopped")
    return reason if isinstance(reason, str) else None


def _steps(record: Record, series: RunSeries) -> int | None:
    steps = record.number("steps")
    return int(steps) if steps is not None and record.finished else series.last_step


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, Mapping) else {}


def _per_step(seconds: float) -> str:
    return f"{number(round(seconds, 2))} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _written(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _versions(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The versions a reader asks for first, wherever the manifest keeps them."""
    known = {"minitrain-inspect": "minitrain-inspect", "numpy": "NumPy", "python": "Python"}
    found: dict[str, str] = {}
    for path, value in flattened(manifest):
        for key, name in known.items():
            # Unknown is the version of a distribution that was not installed but run from its source.
            if value != UNKNOWN and (path == key or path.endswith(f".{key}")):
                found.setdefault(name, value)
    return [(name, found[name]) for name in known.values() if name in found]
