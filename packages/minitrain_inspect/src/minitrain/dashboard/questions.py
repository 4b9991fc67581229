"""Number, title and question of each of the seven panels, in the order of the page."""

from .text import Text

PANELS: dict[str, tuple[int, Text, Text]] = {
    "loss": (
        1,
        Text("Loss", "Pérdida"),
        Text(
            "Is it learning, does it generalise, and does it beat counting characters?",
            "¿Aprende, generaliza y lo hace mejor que contar caracteres?",
        ),
    ),
    "learning_rate": (
        2,
        Text("Learning rate", "Tasa de aprendizaje"),
        Text("Which rate did each step use?", "¿Qué tasa usó cada paso?"),
    ),
    "grad_norm": (
        3,
        Text("Gradient norm", "Norma del gradiente"),
        Text(
            "How large is the gradient before clipping? Does it burst, or fade away?",
            "¿Cuán grande es el gradiente antes de recortarlo? ¿Estalla o se desvanece?",
        ),
    ),
    "activation": (
        4,
        Text("Activations", "Activaciones"),
        Text(
            "How strong is the signal in each module? Does one fall silent, or grow without end?",
            "¿Cuán fuerte es la señal en cada módulo? ¿Alguno enmudece, o crece sin fin?",
        ),
    ),
    "spectral_norm": (
        5,
        Text("Spectral norms", "Normas espectrales"),
        Text(
            "By how much can each weight matrix stretch a vector? Does one run away?",
            "¿Cuánto puede estirar un vector cada matriz de pesos? ¿Se dispara alguna?",
        ),
    ),
    "health": (
        6,
        Text("Dead units and update size", "Unidades muertas y tamaño de las actualizaciones"),
        Text(
            "Do hidden units still answer, and does each step move the weights by a sensible amount?",
            "¿Responden aún las unidades ocultas, y mueve cada paso los pesos en una medida sensata?",
        ),
    ),
    "verbs": (
        7,
        Text("Regular and irregular verbs", "Verbos regulares e irregulares"),
        Text(
            "Does it learn the rule before the exceptions? The losses are those of training batches.",
            "¿Aprende la regla antes que las excepciones? Las pérdidas son de lotes de entrenamiento.",
        ),
    ),
}

DEAD_UNITS = Text("Dead units", "Unidades muertas")
UPDATE_RATIO = Text("Update-to-weight ratio", "Actualización relativa al peso")

UNITS: dict[str, Text] = {
    "learning_rate": Text("learning rate", "tasa de aprendizaje"),
    "grad_norm": Text("global L2 norm (log scale)", "norma L2 global (escala log.)"),
    "activation": Text("mean |activation| (log scale)", "media de |activación| (escala log.)"),
    "spectral_norm": Text("spectral norm", "norma espectral"),
    "dead_fraction": Text("fraction of units dead", "fracción de unidades muertas"),
    "update_ratio": Text("|Δw| / |w| of the step (log scale)", "|Δw| / |w| del paso (escala log.)"),
    "verbs": Text("nats per target position (log scale)", "nats por posición objetivo (escala log.)"),
}
"""What the y axis of each chart but the loss says."""
