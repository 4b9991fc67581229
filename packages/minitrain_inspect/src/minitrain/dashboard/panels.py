"""The seven panels: each a question, a summary in words, one or two charts, and the numbers to unfold.

`build_panels` is the whole of it; each panel is one function below it, in the order of the page. What a panel says
about its numbers is in `sentences`, how they are drawn in `charts`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .chart import NOTHING, Beside, Chart, Named, Table
from .charts import layer_chart, line_chart
from .findings import Marked
from .healthy import Band
from .questions import DEAD_UNITS, PANELS, UNITS, UPDATE_RATIO
from .sentences import (
    about_gaps,
    about_layers,
    about_line,
    about_losses,
    about_not_finite,
    about_unobserved,
)
from .series import RunSeries
from .text import (
    FARTHEST,
    INSPECTION_OFF,
    LAYERS,
    MATRICES,
    MODULES,
    NATS,
    NO_DEAD_UNITS,
    NO_ROWS,
    NO_VALUES,
    NOT_VERBS,
    ON_FLOOR,
    STEP,
    TABLE_OF_ROWS,
    Text,
    number,
)

TRAIN = Text("training", "entrenamiento")
VALIDATION = Text("validation", "validación")
BASELINE = Text("n-gram baseline", "referencia de n\u2011gramas")
GUESS = Text("a guess, ln V", "adivinar, ln V")
REGULAR = Text("regular verbs", "verbos regulares")
IRREGULAR = Text("irregular verbs", "verbos irregulares")
RATE = Text("learning rate", "tasa de aprendizaje")
GRADIENT = Text("gradient norm", "norma del gradiente")


@dataclass(frozen=True, slots=True)
class Part:
    """What a panel says and draws about one quantity; where `chart` is None, `summary` says why."""

    summary: tuple[Text, ...]
    chart: Chart | None
    heading: Text | None = None
    band: Band | None = None
    found: tuple[Marked, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of the page, numbered from 1."""

    key: str
    number: int
    title: Text
    question: Text
    parts: tuple[Part, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts that have something to draw."""
        return tuple(part.chart for part in self.parts if part.chart is not None)


Besides = Mapping[str, Beside]
"""What each chart, by its key, shows beside its lines."""

_NONE: Besides = {}


def build_panels(run: RunSeries, beside: Besides = _NONE) -> tuple[Panel, ...]:
    """The seven panels of a run, in order."""
    return (
        loss_panel(run, beside),
        learning_rate_panel(run, beside),
        gradient_panel(run, beside),
        activation_panel(run, beside),
        spectral_panel(run, beside),
        health_panel(run, beside),
        verb_panel(run, beside),
    )


def loss_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 1: training and validation loss, and the n-gram baseline dashed."""
    train, validation, baseline = (run.scalars[key] for key in ("train_loss", "val_loss", "ngram_loss"))
    series = [Named(TRAIN, train), Named(VALIDATION, validation), Named(BASELINE, baseline, dash="dash")]
    series.append(Named(GUESS, run.scalars["uniform_loss"], dash="dot"))
    keys = {"train_loss": TRAIN, "val_loss": VALIDATION, "ngram_loss": BASELINE}
    return _scalar_panel(
        run,
        "loss",
        about_losses(train, validation, baseline),
        series,
        NATS,
        _rows_table(run, keys, validation=validation.first is not None),
        beside,
    )


def learning_rate_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 2: the learning rate that each logged step used."""
    rate = run.scalars["learning_rate"]
    return _scalar_panel(
        run,
        "learning_rate",
        about_line(rate, RATE),
        (Named(RATE, rate),),
        UNITS["learning_rate"],
        _rows_table(run, {"learning_rate": RATE}),
        beside,
    )


def gradient_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 3: the global norm of the gradient before clipping, on a logarithmic axis."""
    norm = run.scalars["grad_norm"]
    return _scalar_panel(
        run,
        "grad_norm",
        about_line(norm, GRADIENT),
        (Named(GRADIENT, norm),),
        UNITS["grad_norm"],
        _rows_table(run, {"grad_norm": GRADIENT}),
        beside,
        log=True,
    )


def activation_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 4: mean absolute activation of each module."""
    return _layer_panel(
        run,
        "activation",
        (_layer_part(run, "activation", MODULES, beside, log=True),),
    )


def spectral_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 5: spectral norm (largest singular value) of each weight matrix."""
    return _layer_panel(
        run,
        "spectral_norm",
        (_layer_part(run, "spectral_norm", MATRICES, beside),),
    )


def health_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 6: fraction of dead units of each layer, and size of the update relative to the weights."""
    return _layer_panel(
        run,
        "health",
        (
            _layer_part(
                run,
                "dead_fraction",
                LAYERS,
                beside,
                DEAD_UNITS,
                fraction=True,
            ),
            _layer_part(
                run,
                "update_ratio",
                MATRICES,
                beside,
                UPDATE_RATIO,
                log=True,
            ),
        ),
    )


def verb_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 7: loss of regular and irregular verbs; a class without examples leaves a gap.

    The axis is logarithmic: both are near 0 after a tenth of a run, and what tells them apart is a factor.
    """
    if run.rows and not run.has_verbs:
        found = beside.get("verbs", NOTHING).found
        return _panel("verbs", Part((NOT_VERBS,), None, found=found))
    series = [Named(name, run.scalars[key]) for key, name in (("regular_loss", REGULAR), ("irregular_loss", IRREGULAR))]
    said = [
        text for named in series for text in (*about_line(named.line, named.name), *about_gaps(named.line, named.name))
    ]
    keys = {"regular_loss": REGULAR, "irregular_loss": IRREGULAR}
    return _scalar_panel(run, "verbs", said, series, UNITS["verbs"], _rows_table(run, keys), beside, log=True)


def _panel(key: str, *parts: Part) -> Panel:
    order, title, question = PANELS[key]
    return Panel(key, order, title, question, parts)


def _scalar_panel(
    run: RunSeries,
    key: str,
    said: Sequence[Text],
    series: Sequence[Named],
    unit: Text,
    table: Table,
    besides: Besides,
    *,
    log: bool = False,
) -> Panel:
    beside = besides.get(key, NOTHING)
    if not run.rows:
        return _panel(key, Part((NO_ROWS,), None))
    chart = line_chart(key, PANELS[key][1], series, unit, table, until=run.last_step or 1, log=log, beside=beside)
    if not chart.entries:
        return _panel(key, Part((NO_VALUES,), None, found=beside.found))
    bad = [sentence for named in series for sentence in about_not_finite(named.line, named.name)]
    floor = [ON_FLOOR] if chart.floored else []
    return _panel(key, Part((*said, *bad, *floor), chart, None, beside.band, beside.found))


def _layer_panel(run: RunSeries, key: str, parts: Sequence[Part]) -> Panel:
    if not run.rows:
        parts = (Part((NO_ROWS,), None),)
    elif not run.inspected:
        # Findings stay: a rule of somebody's own may name this panel with nothing measured here.
        parts = (Part((INSPECTION_OFF,), None, found=tuple(marked for part in parts for marked in part.found)),)
    return _panel(key, *parts)


def _layer_part(
    run: RunSeries,
    key: str,
    what: Text,
    besides: Besides,
    heading: Text | None = None,
    *,
    log: bool = False,
    fraction: bool = False,
) -> Part:
    """Chart and words of one statistic; `what` is what a layer is called here, in the plural."""
    layers, beside = run.layers[key], besides.get(key, NOTHING)
    absent = about_unobserved(layers.unobserved)
    if not layers.observed:
        return Part((NO_VALUES, *absent), None, heading, found=beside.found)
    label, until = heading or UNITS[key], run.last_step or 1
    chart = layer_chart(key, label, layers, UNITS[key], until=until, log=log, fraction=fraction, beside=beside)
    said = about_layers(layers.observed, what)
    if fraction and all(line.high is not None and line.high.value == 0.0 for line in layers.observed.values()):
        said = [NO_DEAD_UNITS.fill(count=len(layers.observed), what=what)]
    if chart.floored:
        said.append(ON_FLOOR)
    if chart.many:
        said.append(FARTHEST.fill(count=sum(entry.slot is not None for entry in chart.entries)))
    return Part((*said, *absent), chart, heading, beside.band, beside.found)


def _rows_table(run: RunSeries, keys: Mapping[str, Text], *, validation: bool = False) -> Table:
    rows = run.validation_table if validation else run.table
    caption = TABLE_OF_ROWS.fill(shown=len(rows), rows=run.rows)
    return Table(
        caption,
        (STEP, *keys.values()),
        [(str(step), *(number(values[key]) for key in keys)) for step, values in rows],
    )
