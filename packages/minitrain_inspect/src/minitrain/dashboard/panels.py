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
    NATS,
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
BASELINE = Text("n-gram baseline", "referencia de n-gramas")
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
    series = (Named(TRAIN, train), Named(VALIDATION, validation), Named(BASELINE, baseline, dash="dash"))
    series += (Named(GUESS, run.scalars["uniform_loss"], dash="dot"),)
    keys = {"train_loss": TRAIN, "val_loss": VALIDATION, "ngram_loss": BASELINE}
    title = Text("Loss", "Pérdida")
    return _scalar_panel(
        run,
        "loss",
        1,
        title,
        Text(
            "Is it learning, does it generalise, and does it beat counting characters?",
            "¿Aprende, generaliza, y supera a contar caracteres?",
        ),
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
        2,
        Text("Learning rate", "Tasa de aprendizaje"),
        Text("Which rate did each step use?", "¿Qué tasa usó cada paso?"),
        about_line(rate, RATE),
        (Named(RATE, rate),),
        Text("learning rate", "tasa de aprendizaje"),
        _rows_table(run, {"learning_rate": RATE}),
        beside,
    )


def gradient_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 3: the global norm of the gradient before clipping, on a logarithmic axis."""
    norm = run.scalars["grad_norm"]
    return _scalar_panel(
        run,
        "grad_norm",
        3,
        Text("Gradient norm", "Norma del gradiente"),
        Text(
            "How large is the gradient before clipping? Does it burst, or fade away?",
            "¿Cuán grande es el gradiente antes de recortarlo? ¿Estalla o se desvanece?",
        ),
        about_line(norm, GRADIENT),
        (Named(GRADIENT, norm),),
        Text("global L2 norm (log scale)", "norma L2 global (escala log.)"),
        _rows_table(run, {"grad_norm": GRADIENT}),
        beside,
        log=True,
    )


def activation_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 4: mean absolute activation of each module."""
    unit = Text("mean |activation| (log scale)", "media de |activación| (escala log.)")
    return _layer_panel(
        run,
        "activation",
        4,
        Text("Activations", "Activaciones"),
        Text(
            "How strong is the signal in each module? Does one fall silent, or grow without end?",
            "¿Cuán fuerte es la señal en cada módulo? ¿Alguno enmudece, o crece sin fin?",
        ),
        (_layer_part(run, "activation", Text("modules", "módulos"), unit, beside, log=True),),
    )


def spectral_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 5: spectral norm (largest singular value) of each weight matrix."""
    unit = Text("spectral norm", "norma espectral")
    return _layer_panel(
        run,
        "spectral_norm",
        5,
        Text("Spectral norms", "Normas espectrales"),
        Text(
            "By how much can each weight matrix stretch a vector? Does one run away?",
            "¿Cuánto puede estirar un vector cada matriz de pesos? ¿Se dispara alguna?",
        ),
        (_layer_part(run, "spectral_norm", Text("matrices", "matrices"), unit, beside),),
    )


def health_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 6: fraction of dead units of each layer, and size of the update relative to the weights."""
    dead_unit = Text("fraction of units dead", "fracción de unidades muertas")
    ratio_unit = Text("|Δw| / |w| of the step (log scale)", "|Δw| / |w| del paso (escala log.)")
    return _layer_panel(
        run,
        "health",
        6,
        Text("Dead units and update size", "Unidades muertas y tamaño de las actualizaciones"),
        Text(
            "Do hidden units still answer, and does each step move the weights by a sensible amount?",
            "¿Responden aún las unidades ocultas, y mueve cada paso los pesos en una medida sensata?",
        ),
        (
            _layer_part(
                run,
                "dead_fraction",
                Text("layers", "capas"),
                dead_unit,
                beside,
                Text("Dead units", "Unidades muertas"),
                fraction=True,
            ),
            _layer_part(
                run,
                "update_ratio",
                Text("matrices", "matrices"),
                ratio_unit,
                beside,
                Text("Update-to-weight ratio", "Actualización relativa al peso"),
                log=True,
            ),
        ),
    )


def verb_panel(run: RunSeries, beside: Besides = _NONE) -> Panel:
    """Panel 7: loss of regular and irregular verbs; a class without examples leaves a gap."""
    title = Text("Regular and irregular verbs", "Verbos regulares e irregulares")
    question = Text("Does it learn the rule before the exceptions?", "¿Aprende la regla antes que las excepciones?")
    if run.rows and not run.has_verbs:
        found = beside.get("verbs", NOTHING).found
        return Panel("verbs", 7, title, question, (Part((NOT_VERBS,), None, found=found),))
    series = [Named(name, run.scalars[key]) for key, name in (("regular_loss", REGULAR), ("irregular_loss", IRREGULAR))]
    said = [
        text for named in series for text in (*about_line(named.line, named.name), *about_gaps(named.line, named.name))
    ]
    keys = {"regular_loss": REGULAR, "irregular_loss": IRREGULAR}
    return _scalar_panel(run, "verbs", 7, title, question, said, series, NATS, _rows_table(run, keys), beside)


def _scalar_panel(
    run: RunSeries,
    key: str,
    order: int,
    title: Text,
    question: Text,
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
        return Panel(key, order, title, question, (Part((NO_ROWS,), None),))
    chart = line_chart(key, title, series, unit, table, until=run.last_step or 1, log=log, beside=beside)
    if not chart.entries:
        return Panel(key, order, title, question, (Part((NO_VALUES,), None, found=beside.found),))
    bad = [sentence for named in series for sentence in about_not_finite(named.line, named.name)]
    floor = [ON_FLOOR] if chart.floored else []
    return Panel(key, order, title, question, (Part((*said, *bad, *floor), chart, None, beside.band, beside.found),))


def _layer_panel(run: RunSeries, key: str, order: int, title: Text, question: Text, parts: Sequence[Part]) -> Panel:
    if not run.rows:
        parts = (Part((NO_ROWS,), None),)
    elif not run.inspected:
        # Findings stay: a rule of somebody's own may name this panel with nothing measured here.
        parts = (Part((INSPECTION_OFF,), None, found=tuple(marked for part in parts for marked in part.found)),)
    return Panel(key, order, title, question, tuple(parts))


def _layer_part(
    run: RunSeries,
    key: str,
    what: Text,
    unit: Text,
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
    chart = layer_chart(
        key, heading or unit, layers, unit, until=run.last_step or 1, log=log, fraction=fraction, beside=beside
    )
    said = about_layers(layers.observed, what)
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
