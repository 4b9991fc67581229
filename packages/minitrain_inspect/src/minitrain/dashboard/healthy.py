"""The healthy bands of the charts: from where to where, and in words why.

Reasons and measurements stand in the BLUEPRINT, section 8. A band guides the eye; it never makes a finding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .series import RunSeries
from .text import Text


@dataclass(frozen=True, slots=True)
class Band:
    """What is shaded in a chart, in the units of its y axis."""

    low: float
    high: float
    words: Text


_SOURCED = {
    "dead_fraction": Band(
        0.0,
        0.6,
        Text(
            "up to 0.6; half of the units dead harmed no run, and usual runs have none.",
            "hasta 0.6; la mitad de las unidades muertas no dañó ninguna ejecución, y lo habitual es ninguna.",
        ),
    ),
    "update_ratio": Band(
        1e-4,
        3e-2,
        Text(
            "0.0001 to 0.03: a thousandth is the rule of thumb, and healthy runs of small models reached 0.02.",
            "de 0.0001 a 0.03: la regla práctica es una milésima, y ejecuciones sanas de modelos pequeños llegaron a "
            "0.02.",
        ),
    ),
}

# Of models that start from nothing: ranges seen in healthy runs, rounded outward.
_MEASURED = {
    "grad_norm": Band(0.1, 10.0, Text("0.1 to 10, as healthy runs had it.", "de 0.1 a 10, como en ejecuciones sanas.")),
    "activation": Band(
        0.01, 10.0, Text("0.01 to 10, as healthy runs had it.", "de 0.01 a 10, como en ejecuciones sanas.")
    ),
    "spectral_norm": Band(
        0.0,
        5.0,
        Text(
            "up to 5: Xavier's weights start at 2 at most, and healthy runs reached 4.5.",
            "hasta 5: los pesos de Xavier empiezan en 2 como mucho, y las ejecuciones sanas llegaron a 4.5.",
        ),
    ),
}


def healthy_bands(run: RunSeries, config: Mapping[str, Any]) -> dict[str, Band]:
    """Band of each chart that has one, by the chart's key.

    Parameters
    ----------
    run : RunSeries
        Gives the loss its band: below the n-gram baseline, where one was measured.
    config : mapping
        Measured bands are left out where `model.from_gpt2` says that the weights had been trained before.
    """
    bands = dict(_SOURCED)
    model = config.get("model")
    if not (isinstance(model, Mapping) and model.get("from_gpt2")):
        bands |= _MEASURED
    baseline, guess = run.scalars["ngram_loss"].last, run.scalars["uniform_loss"].last
    if baseline is not None:
        words = Text(
            "it ends below the n-gram baseline ({end})", "termina bajo la referencia de n-gramas ({end})"
        ).fill(end=baseline.value)
        if guess is not None:
            words = Text(
                "it starts near ln V ({start}), what a guess costs, and {rest}",
                "empieza cerca de ln V ({start}), lo que cuesta adivinar, y {rest}",
            ).fill(start=guess.value, rest=words)
        bands["loss"] = Band(0.0, baseline.value, Text("{words}.", "{words}.").fill(words=words))
    return bands
