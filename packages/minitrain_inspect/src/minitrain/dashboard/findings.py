"""What the diagnosis found, as the page shows it: numbered, each in its chart, with a verdict in plain words.

Findings are taken as the diagnosis orders them. Their sentences are its own; here stand only a name for each code and
the words around the numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..diagnosis import Finding
from .text import Text, count, plain

CHARTS = ("loss", "learning_rate", "grad_norm", "activation", "spectral_norm", "dead_fraction", "update_ratio", "verbs")

_NAMES = {
    "bad-init": Text("The weights start badly", "Los pesos iniciales son malos"),
    "no-warmup": Text("No warm-up", "Sin calentamiento"),
    "broken-mask": Text("The mask lets the future through", "La máscara deja pasar el futuro"),
    "dead-units": Text("Dead units", "Unidades muertas"),
    "exploding-gradients": Text("Gradients explode", "Los gradientes explotan"),
    "vanishing-gradients": Text("Gradients vanish", "Los gradientes se desvanecen"),
    "diverged": Text("The loss has diverged", "La pérdida ha divergido"),
    "learning-rate-too-high": Text("The learning rate is too high", "La tasa de aprendizaje es demasiado alta"),
    "learning-rate-too-low": Text("The learning rate is too low", "La tasa de aprendizaje es demasiado baja"),
    "overfitting": Text("It learns by heart", "Aprende de memoria"),
    "non-finite": Text("A number is not finite", "Un número no es finito"),
}


@dataclass(frozen=True, slots=True)
class Marked:
    """A finding with its number on the page, counted from 1, and the key of its chart."""

    number: int
    finding: Finding
    chart: str

    @property
    def name(self) -> Text:
        """What the fault is called; the code itself for rules that are not ours."""
        return _NAMES.get(self.finding.code, plain(self.finding.code))

    @property
    def layer(self) -> str:
        """The line that the finding is about, where it is about one: gradients are named after their parameter."""
        return self.finding.where.removesuffix(".grad")


def number_findings(found: Sequence[Finding], charts: Mapping[str, str]) -> list[Marked]:
    """The findings in their order, each with its chart: the one of the series it names, else what `charts` says.

    `charts` maps a code to the key of a chart; a code that it does not have goes to the loss.
    """

    def chart(finding: Finding) -> str:
        return next((key for key in (finding.where, charts.get(finding.code)) if key in CHARTS), "loss")

    return [Marked(place, finding, chart(finding)) for place, finding in enumerate(found, start=1)]


def verdict(found: Sequence[Marked] | None, *, judged: bool = True) -> Text:
    """One line for the head of the page; None: there was nothing to diagnose.

    `judged` says whether there were validations enough to judge overfitting.
    """
    if found is None:
        return Text("Not diagnosed: nothing has been logged.", "Sin diagnóstico: no se ha registrado nada.")
    if not found and not judged:
        return Text(
            "No finding; too few validations to judge overfitting.",
            "Ningún hallazgo; demasiado pocas validaciones para juzgar el sobreajuste.",
        )
    if not found:
        return Text("Healthy: the diagnosis found nothing wrong.", "Sana: el diagnóstico no encontró nada malo.")
    if len(found) == 1:
        return Text("1 finding:", "1 hallazgo:")
    return Text("{count} findings, causes first:", "{count} hallazgos, primero las causas:").fill(
        count=count(len(found))
    )


def headline(marked: Marked) -> Text:
    """Severity, code, place and step of a finding."""
    severity = {"error": Text("error", "error"), "warning": Text("warning", "aviso")}[marked.finding.severity]
    return Text("{severity} {code} at step {step}, {where}", "{severity} {code} en el paso {step}, {where}").fill(
        severity=severity, code=marked.finding.code, step=count(marked.finding.step), where=marked.finding.where
    )
