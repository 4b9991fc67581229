"""The healthy bands of the charts: from where to where, and in words why.

Where a rule of the diagnosis has a limit, the band ends at that limit: what is shaded and what is judged cannot differ.
Elsewhere a band is what healthy runs had, and says that no rule goes by it. Reasons and measurements stand in the
BLUEPRINT, section 8.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..diagnosis import Range
from .series import RunSeries
from .text import Text


@dataclass(frozen=True, slots=True)
class Band:
    """What is shaded in a chart, in the units of its y axis; `low` is None where that side is open."""

    low: float | None
    high: float
    words: Text


_JUDGED = {
    "grad_norm": Text(
        "up to {high}, a hundred times the larger of the first and the median; beyond that the diagnosis speaks.",
        "hasta {high}, cien veces la mayor de la primera y la mediana; por encima, el diagnóstico avisa.",
    ),
    "dead_fraction": Text(
        "up to {high}; beyond that the diagnosis speaks. Usual runs have none.",
        "hasta {high}; por encima, el diagnóstico avisa. Lo habitual es ninguna.",
    ),
    "update_ratio": Text(
        "the median over the matrices reaches {low} at some time and stays below {high}. Outside, the diagnosis speaks "
        "if the loss shows harm. The rule of thumb is 0.001.",
        "la mediana de las matrices alcanza {low} en algún momento y no pasa de {high}. Fuera de ahí, el diagnóstico "
        "avisa si la pérdida muestra daño. La regla práctica es 0.001.",
    ),
}

# Of models that start from nothing: ranges seen in healthy runs, rounded outward.
_ACTIVATION = Band(
    0.01,
    10.0,
    Text(
        "0.01 to 10, as healthy runs had it; no rule goes by it.",
        "de 0.01 a 10, como en ejecuciones sanas; ninguna regla lo juzga.",
    ),
)
_HIGHEST_NORM = 5.0
_SPECTRAL = Text(
    "up to {high}, as healthy runs had it: Xavier's weights start at 2 at most. The diagnosis speaks where the median "
    "over the inner matrices starts below {low}.",
    "hasta {high}, como en ejecuciones sanas: los pesos de Xavier empiezan en 2 como mucho. El diagnóstico avisa si "
    "la mediana de las matrices interiores empieza por debajo de {low}.",
)


def healthy_bands(run: RunSeries, config: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Band]:
    """Band of each chart that has one, by the chart's key.

    Parameters
    ----------
    run : RunSeries
        Gives the loss its band: below the n-gram baseline, where one was measured.
    config : mapping
        Measured bands are left out where `model.from_gpt2` says that the weights had been trained before.
    ranges : mapping
        `diagnosis.healthy_ranges` of the run.
    """
    bands: dict[str, Band] = {}
    for key, words in _JUDGED.items():
        low, high = ranges.get(key, (None, None))
        if high is not None:
            bands[key] = Band(low, high, words.fill(low=low or 0.0, high=high))
    model = config.get("model")
    if not (isinstance(model, Mapping) and model.get("from_gpt2")):
        least, _ = ranges["spectral_norm"]
        bands["activation"] = _ACTIVATION
        bands["spectral_norm"] = Band(0.0, _HIGHEST_NORM, _SPECTRAL.fill(low=least or 0.0, high=_HIGHEST_NORM))
    baseline, guess = run.scalars["ngram_loss"].last, run.scalars["uniform_loss"].last
    if baseline is not None:
        words = Text(
            "with steps enough it comes below the n-gram baseline ({end})",
            "con pasos suficientes queda bajo la referencia de n\u2011gramas ({end})",
        ).fill(end=baseline.value)
        if guess is not None:
            words = Text(
                "it starts near ln V ({start}), what a guess costs, and {rest}",
                "empieza cerca de ln V ({start}), lo que cuesta adivinar, y {rest}",
            ).fill(start=guess.value, rest=words)
        bands["loss"] = Band(0.0, baseline.value, Text("{words}.", "{words}.").fill(words=words))
    return bands
