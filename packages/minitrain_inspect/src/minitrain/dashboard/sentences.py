"""What the panels say in words about their series: last values, extremes, gaps, numbers that were not finite.

Each function turns series into sentences and says nothing about what was not measured. They are what a screen reader
has of a chart, and what a reader in a hurry has of the page.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from .decimate import Line, Point
from .text import Text, joined, plain

_NAMES_LISTED = 6


def about_line(line: Line, name: Text) -> list[Text]:
    """Last value and extremes of one series."""
    if line.last is None or line.low is None or line.high is None:
        return []
    return [
        Text(
            "{name}: {last} at step {step}; lowest {low} (step {low_step}), highest {high} (step {high_step}).",
            "{name}: {last} en el paso {step}; mínimo {low} (paso {low_step}), máximo {high} (paso {high_step}).",
        ).fill(
            name=name.capitalised(),
            last=line.last.value,
            step=line.last.step,
            low=line.low.value,
            low_step=line.low.step,
            high=line.high.value,
            high_step=line.high.step,
        )
    ]


def about_losses(train: Line, validation: Line, baseline: Line) -> list[Text]:
    """Where training and validation stand, and how they compare with the n-gram baseline."""
    said: list[Text] = []
    if validation.last and validation.low:
        said.append(
            Text(
                "Validation: {last} nats at step {step}, lowest {low} at step {low_step}.",
                "Validación: {last} nats en el paso {step}, mínimo {low} en el paso {low_step}.",
            ).fill(
                last=validation.last.value,
                step=validation.last.step,
                low=validation.low.value,
                low_step=validation.low.step,
            )
        )
    if train.last:
        said.append(
            Text("Training: {last} at step {step}.", "Entrenamiento: {last} en el paso {step}.").fill(
                last=train.last.value, step=train.last.step
            )
        )
    if baseline.last and validation.last:
        ahead = baseline.last.value - validation.last.value
        words = Text(
            "The n-gram baseline has {value}: the model is {by} nats better.",
            "La referencia de n\u2011gramas tiene {value}: el modelo la mejora en {by} nats.",
        )
        if ahead < 0:
            words = Text(
                "The n-gram baseline has {value}: the model is not yet below it, {by} nats worse; that alone is "
                "no fault.",
                "La referencia de n\u2011gramas tiene {value}: el modelo queda {by} nats por encima, peor: aún no "
                "está por debajo; eso solo no es un fallo.",
            )
        said.append(words.fill(value=baseline.last.value, by=abs(ahead)))
    return said


def about_gaps(line: Line, name: Text) -> list[Text]:
    """How many rows had no value where one was due, other than by not being finite."""
    missing = line.gaps - line.not_finite
    if missing <= 0:
        return []
    return [
        Text("{rows} rows had no {name} (gaps).", "{rows} filas no tuvieron {name} (huecos).").fill(
            rows=missing, name=name
        )
    ]


def about_not_finite(line: Line, name: Text) -> list[Text]:
    """How many rows were not finite, and since when."""
    if not line.marks:
        return []
    return [
        Text(
            "{name}: not finite in {rows} of the logged rows, first at step {step} (crosses).",
            "{name}: no finito en {rows} de las filas registradas, la primera en el paso {step} (cruces).",
        ).fill(name=name.capitalised(), rows=line.not_finite, step=line.marks[0][0])
    ]


def about_layers(lines: Mapping[str, Line], what: Text) -> list[Text]:
    """Where the layers stand at their last row, the extremes of the run, and which were not finite."""
    said: list[Text] = []
    now = sorted((line.last.value, name) for name, line in lines.items() if line.last)
    if now:
        (low_now, low_now_name), (high_now, high_now_name) = now[0], now[-1]
        where = Text(
            "At step {step}: median {median} over {count} {what}, from {low} ({low_name}) to {high} ({high_name}).",
            "En el paso {step}: mediana {median} ({count} {what}), de {low} ({low_name}) a {high} ({high_name}).",
        )
        if low_now == high_now:
            where = Text("At step {step}: {low} ({count} {what}).", "En el paso {step}: {low} ({count} {what}).")
        said.append(
            where.fill(
                step=max(line.last.step for line in lines.values() if line.last),
                median=float(median(value for value, _ in now)),
                count=len(now),
                what=what,
                low=low_now,
                low_name=low_now_name,
                high=high_now,
                high_name=high_now_name,
            )
        )
        high, high_name = max(((line.high, name) for name, line in lines.items() if line.high), key=_value)
        low, low_name = min(((line.low, name) for name, line in lines.items() if line.low), key=_value)
        said.append(
            Text(
                "Highest of the run {high} ({high_name}, step {high_step}), "
                "lowest {low} ({low_name}, step {low_step}).",
                "Máximo de la ejecución {high} ({high_name}, paso {high_step}), "
                "mínimo {low} ({low_name}, paso {low_step}).",
            ).fill(
                high=high.value,
                high_name=high_name,
                high_step=high.step,
                low=low.value,
                low_name=low_name,
                low_step=low.step,
            )
        )
    bad = [line.marks[0][0] for line in lines.values() if line.marks]
    if bad:
        said.append(
            Text(
                "{count} of the {what} held values that were not finite, first at step {step} (crosses).",
                "Hubo valores no finitos ({what}: {count}), los primeros en el paso {step} (cruces).",
            ).fill(count=len(bad), what=what, step=min(bad))
        )
    return said


def about_unobserved(names: Sequence[str]) -> list[Text]:
    """Which layers never had a value; a long list is cut short."""
    if not names:
        return []
    listed = plain(", ".join(names[:_NAMES_LISTED]))
    rest = len(names) - _NAMES_LISTED
    if rest > 0:
        listed = joined((listed, Text("and {rest} more", "y {rest} más").fill(rest=rest)))
    return [Text("Not observed: {names}.", "Sin observar: {names}.").fill(names=listed)]


def _value(pair: tuple[Point, str]) -> float:
    return pair[0].value
