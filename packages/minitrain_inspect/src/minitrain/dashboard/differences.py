"""What sets several runs apart: how to call them, which settings differ, how each ended."""

from collections.abc import Callable, Sequence
from pathlib import Path

from .chart import Table
from .decimate import Point
from .findings import Marked
from .record import UNKNOWN, Record, flattened
from .series import RunSeries
from .text import DIFFERENCES, RESULTS, SETTING, Text, count, duration, number, plain


def distinct_names(runs: Sequence[Path]) -> list[str]:
    """A name for each folder: its own, with as many folders above it as tell all of them apart.

    One and the same folder twice gets a number.
    """
    parts = [run.resolve().parts for run in runs]
    longest = max(map(len, parts), default=1)
    for depth in range(1, longest + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            names[place] = f"{name} ({seen[name]})"
    return names


def differing_settings(names: Sequence[str], records: Sequence[Record]) -> Table | None:
    """Keys of configuration and manifest whose values are not the same in all runs; None if there is none.

    What depends on the clock differs always and is left out.
    """
    settings = [_settings(record) for record in records]
    keys = list(dict.fromkeys(key for each in settings for key in each))
    rows: list[tuple[Text | str, ...]] = []
    for key in keys:
        values = [each.get(key, UNKNOWN) for each in settings]
        if len(set(values)) > 1:
            rows.append((key, *values))
    return Table(DIFFERENCES, (SETTING, *map(plain, names)), rows) if rows else None


def _settings(record: Record) -> dict[str, str]:
    manifest = {key: value for key, value in record.manifest.items() if key != "config"}
    return {
        key: value
        for values in (record.config, manifest)
        for key, value in flattened(values)
        if not key.endswith(("_time", "_seconds"))
    }


def final_results(
    names: Sequence[str],
    records: Sequence[Record],
    series: Sequence[RunSeries],
    found: Sequence[Sequence[Marked] | None],
) -> Table:
    """How each run ended; a row without a value in any run is left out."""
    columns = [_results(*each) for each in zip(records, series, found, strict=True)]
    rows: list[tuple[Text | str, ...]] = []
    for label in dict.fromkeys(label for column in columns for label in column):
        rows.append((label, *(column.get(label, plain(UNKNOWN)) for column in columns)))
    return Table(RESULTS, (plain(""), *map(plain, names)), rows)


def _results(record: Record, series: RunSeries, found: Sequence[Marked] | None) -> dict[Text, Text]:
    """Label to value of everything this run has."""
    results: dict[Text, Text] = {}

    def put(label: Text, value: float | None, written: Callable[[float], Text | str] = number) -> None:
        if value is not None:
            text = written(value)
            results[label] = text if isinstance(text, Text) else plain(text)

    validation, training, baseline = (series.scalars[key] for key in ("val_loss", "train_loss", "ngram_loss"))
    best_step = record.number("best_step")
    if best_step is None and validation.low is not None:
        best_step = validation.low.step
    put(Text("validation loss, nats", "pérdida de validación, nats"), _either(record, "val_loss", validation.last))
    put(Text("best of the run", "mejor de la ejecución"), _either(record, "best_val_loss", validation.low))
    put(Text("at step", "en el paso"), best_step, _whole)
    put(Text("training loss", "pérdida de entrenamiento"), _either(record, "train_loss", training.last))
    put(Text("n-gram baseline", "referencia de n\u2011gramas"), _either(record, "ngram_loss", baseline.last))
    for kind, label in (
        ("regular", Text("regular forms right", "formas regulares correctas")),
        ("irregular", Text("irregular forms right", "formas irregulares correctas")),
    ):
        asked = record.held_out(kind)
        if asked is not None:
            results[label] = Text("{exact} of {of}", "{exact} de {of}").fill(exact=asked[0], of=asked[1])
    put(Text("parameters", "parámetros"), record.number("parameters"), _whole)
    put(Text("steps", "pasos"), series.last_step, _whole)
    seconds = record.number("train_seconds")
    put(Text("duration", "duración"), seconds if seconds is not None else series.elapsed_seconds, duration)
    if found is not None:
        codes = ", ".join(marked.finding.code for marked in found)
        results[Text("diagnosis", "diagnóstico")] = plain(codes) if codes else Text("no finding", "ningún hallazgo")
    return results


def _either(record: Record, key: str, logged: Point | None) -> float | None:
    """The number of `results.json`, else the one of the log."""
    value = record.number(key)
    return value if value is not None else None if logged is None else logged.value


def _whole(value: float) -> Text:
    return count(int(value))
