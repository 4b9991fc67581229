"""Every sentence of the page, in English and Spanish; `Text` itself is in `bilingual.py`.

Words that several files share stand here; a sentence that one place says stands at that place.
"""

from ..bilingual import LANGUAGES, Text, count, joined, number, plain

__all__ = ["LANGUAGES", "Text", "count", "duration", "joined", "number", "plain"]


def duration(seconds: float) -> Text:
    """A length of time in words: 47 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if seconds < 10:
        return plain(f"{seconds:.1f} s")
    if whole < 60:
        return plain(f"{whole} s")
    if whole < 3600:
        return plain(f"{whole // 60} min {whole % 60} s")
    return plain(f"{whole // 3600} h {whole % 3600 // 60} min")


STEP = Text("step", "paso")
POINT = Text("not measured", "sin medir")
STEPS_AXIS = Text("optimiser steps", "pasos del optimizador")
NATS = Text("nats per target position", "nats por posición objetivo")

NOT_OBSERVED = Text("not observed", "no observado")
NO_ROWS = Text("No row has been logged yet.", "Aún no se ha registrado ninguna fila.")
NO_VALUES = Text("Nothing was measured.", "No se midió nada.")
INSPECTION_OFF = Text(
    "Inspection was off in this run (inspect.enabled = false), so there is nothing to show here.",
    "La inspección estaba desactivada en esta ejecución (inspect.enabled = false): no hay nada que mostrar aquí.",
)
NO_DEAD_UNITS = Text(
    "No unit was dead in any logged row ({count} {what}).",
    "Ninguna unidad estuvo muerta en ninguna fila registrada ({count} {what}).",
)
VERB_CORPUS = Text("verbs", "verbos")
NOT_VERBS = Text(
    "Not applicable: this run's data do not tell regular from irregular verbs.",
    "No aplicable: los datos de esta ejecución no distinguen verbos regulares de irregulares.",
)
NOT_FINITE = Text("not finite", "no finito")
HEALTHY = Text("Healthy (shaded):", "Sano (sombreado):")
CAUSE = Text("Likely cause:", "Causa probable:")
ADVICE = Text("Try:", "Pruebe:")
FINDINGS = Text("Findings", "Hallazgos")
ON_FLOOR = Text(
    "Values of 0 stand on the dotted line marked “0”.",
    "Los valores 0 están sobre la línea de puntos marcada «0».",
)

MEDIAN = Text("median of all", "mediana de todas")
INNER_BAND = Text("10–90 % of all", "10–90 % de todas")
OUTER_BAND = Text("lowest to highest", "de la menor a la mayor")
SEARCH = Text("Search", "Buscar")
SHOW_MATCHES = Text("Draw matches", "Dibujar coincidencias")
HIDE_ALL = Text("Hide all", "Ocultar todas")
LINES = Text("Lines drawn; space draws or hides one", "Líneas dibujadas; espacio dibuja u oculta una")
FARTHEST = Text(
    "Drawn at first: the {count} farthest from the median.",
    "Dibujadas al principio: las {count} más alejadas de la mediana.",
)

TABLE = Text("Numbers", "Números")
TABLE_OF_ROWS = Text(
    "{shown} of {rows} rows, spread evenly; the log has them all.",
    "{shown} de {rows} filas, repartidas uniformemente; el registro las tiene todas.",
)
TABLE_OF_LAYERS = Text("First, last, lowest and highest value of the run.", "Primer, último, menor y mayor valor.")
NAME = Text("name", "nombre")
FIRST = Text("first", "primero")
LAST = Text("last", "último")
LOWEST = Text("lowest (step)", "menor (paso)")
HIGHEST = Text("highest (step)", "mayor (paso)")
ROWS_BAD = Text("{rows} not finite", "no finitas: {rows}")
BAD_ROWS = Text("rows not finite", "filas no finitas")

KEYS = Text(
    "Arrow keys read the points one by one, plus and minus zoom, 0 shows all.",
    "Las flechas leen los puntos uno a uno, más y menos acercan y alejan, 0 lo muestra todo.",
)
SWITCH_THEME = Text("Light / dark", "Claro / oscuro")
NO_SCRIPT = Text(
    "The chart needs JavaScript; the numbers below do not.",
    "El gráfico necesita JavaScript; los números de abajo, no.",
)
ALL_SETTINGS = Text("Everything that was set, and where it ran", "Todo lo que se configuró, y dónde se ejecutó")
SELF_CONTAINED = Text(
    "This page is one file: it loads nothing from anywhere and sends nothing anywhere.",
    "Esta página es un solo archivo: no carga nada de ninguna parte ni envía nada a ninguna parte.",
)
LIVE = {
    "running": Text("Live: this page follows the training.", "En directo: esta página sigue al entrenamiento."),
    "ended": Text("The training has ended: this is how.", "El entrenamiento terminó: así quedó."),
    "gone": Text(
        "The training no longer answers: this is the last that came.",
        "El entrenamiento ya no responde: esto es lo último que llegó.",
    ),
}
WRITTEN_BY_SERVER = Text(
    "This page comes from the training itself, for this machine alone. What stays is dashboard.html in the folder of "
    "the run.",
    "Esta página la envía el propio entrenamiento, solo para esta máquina. Lo que queda es dashboard.html, en la "
    "carpeta de la ejecución.",
)

MEDIAN_OF = Text("{run} · median", "{run} · mediana")
MEDIANS = Text(
    "Drawn is the median over the {what} of each run; all {what} are in the list.",
    "Se dibuja, de cada ejecución, la mediana ({what}); en la lista está todo ({what}).",
)
LAST_VALUES = Text("Last values: {values}.", "Últimos valores: {values}.")
LAST_VALUES_OF = Text("Last values, {what}: {values}.", "Últimos valores, {what}: {values}.")
MODULES = Text("modules", "módulos")
MATRICES = Text("matrices", "matrices")
LAYERS = Text("layers", "capas")
INSPECTION_OFF_EVERYWHERE = Text(
    "None of these runs was inspected, so there is nothing to show here.",
    "Ninguna de estas ejecuciones se inspeccionó: no hay nada que mostrar aquí.",
)
SETTING = Text("setting", "ajuste")
SAME_SETTINGS = Text(
    "Settings and versions are the same in all of these runs.",
    "Los ajustes y las versiones son los mismos en todas estas ejecuciones.",
)
DIFFERENCES = Text("What differs", "Qué difiere")
RESULTS = Text("Results", "Resultados")
