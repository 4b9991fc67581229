"""What each code means: the likely cause and the fix to try, in English and Spanish.

The sentences name settings of the `minitrain` command where there is one; the rules themselves never read a setting.
"""

from __future__ import annotations

from typing import NamedTuple

from ..bilingual import Text


class Wording(NamedTuple):
    """Cause and advice of one code."""

    cause: Text
    advice: Text


WORDING: dict[str, Wording] = {
    "bad-init": Wording(
        Text(
            "The untouched model is sure of wrong answers: its weights were drawn too large. A guess without knowledge "
            "would cost less.",
            "El modelo sin entrenar está seguro de respuestas equivocadas: sus pesos iniciales son demasiado grandes. "
            "Adivinar sin saber nada costaría menos.",
        ),
        Text(
            "Draw smaller weights (model.init_gain = 1), so that the first loss is near ln V.",
            "Inicialice con pesos más pequeños (model.init_gain = 1), de modo que la primera pérdida quede cerca de "
            "ln V.",
        ),
    ),
    "no-warmup": Wording(
        Text(
            "The rate was high from the first step, when Adam moves every weight by the whole rate: one update was as "
            "large as a matrix itself.",
            "La tasa fue alta desde el primer paso, cuando Adam desplaza cada peso en la tasa entera: una sola "
            "actualización fue tan grande como la matriz misma.",
        ),
        Text(
            "Let the rate grow over the first steps (train.warmup_steps of 50 to 200), or lower train.lr_max.",
            "Haga crecer la tasa durante los primeros pasos (train.warmup_steps de 50 a 200), o baje train.lr_max.",
        ),
    ),
    "broken-mask": Wording(
        Text(
            "Tokens that come later change what the model says earlier: it reads the answers instead of predicting "
            "them, and its losses mean nothing.",
            "Los tokens posteriores cambian lo que el modelo dice antes: lee las respuestas en vez de predecirlas, y "
            "sus pérdidas no significan nada.",
        ),
        Text(
            "Mask every position after the current one before the softmax (model.causal = true).",
            "Enmascare todas las posiciones posteriores a la actual antes del softmax (model.causal = true).",
        ),
    ),
    "learning-rate-too-high": Wording(
        Text(
            "Updates are so large beside the weights that steps overshoot and undo each other.",
            "Las actualizaciones son tan grandes frente a los pesos que los pasos se exceden y se deshacen unos a "
            "otros.",
        ),
        Text("Lower train.lr_max, by a factor of 3 to 10.", "Divida train.lr_max entre un número de 3 a 10."),
    ),
    "learning-rate-too-low": Wording(
        Text(
            "Updates are so small beside the weights that the model has hardly left its start.",
            "Las actualizaciones son tan pequeñas frente a los pesos que el modelo apenas se ha alejado del inicio.",
        ),
        Text("Raise train.lr_max, by a factor of 10 or more.", "Multiplique train.lr_max por 10 o más."),
    ),
    "overfitting": Wording(
        Text(
            "The model learns its training data by heart: their loss falls while that of unseen data rises or stands "
            "still.",
            "El modelo se aprende de memoria los datos de entrenamiento: su pérdida baja mientras la de los datos no "
            "vistos sube o se estanca.",
        ),
        Text(
            "Keep the weights of the best validation, stop earlier, use more data, or more dropout and decay "
            "(model.dropout, train.weight_decay).",
            "Conserve los pesos de la mejor validación, pare antes, use más datos, o más dropout y decaimiento "
            "(model.dropout, train.weight_decay).",
        ),
    ),
    "diverged": Wording(
        Text(
            "The loss rose and stayed high: what was learned is gone.",
            "La pérdida subió y se quedó alta: lo aprendido se ha perdido.",
        ),
        Text(
            "Go back to weights from before the rise; lower train.lr_max or train.grad_clip.",
            "Vuelva a los pesos de antes de la subida; baje train.lr_max o train.grad_clip.",
        ),
    ),
    "exploding-gradients": Wording(
        Text(
            "A gradient was far larger than those before it; such a step follows its direction alone.",
            "Un gradiente fue mucho mayor que los anteriores; un paso así solo sigue su dirección.",
        ),
        Text(
            "Clip the gradient (train.grad_clip = 1), lower train.lr_max, and look at the batch of this step.",
            "Recorte el gradiente (train.grad_clip = 1), baje train.lr_max y mire el lote de este paso.",
        ),
    ),
    "vanishing-gradients": Wording(
        Text(
            "Next to no gradient reaches this matrix, so it does not learn.",
            "A esta matriz no llega casi gradiente, así que no aprende.",
        ),
        Text(
            "Look at what stands between it and the loss: dead units, saturated activations, a missing residual path.",
            "Mire lo que hay entre ella y la pérdida: unidades muertas, activaciones saturadas, una conexión residual "
            "que falta.",
        ),
    ),
    "dead-units": Wording(
        Text(
            "Most hidden units of this layer give 0 for every token, pass no gradient back and do not recover.",
            "La mayoría de las unidades ocultas de esta capa da 0 con todos los tokens, no deja pasar gradiente y no "
            "se recupera.",
        ),
        Text(
            "Start anew with smaller or zero biases and a lower train.lr_max; look at the step at which they died.",
            "Empiece de nuevo con sesgos menores o nulos y una train.lr_max más baja; mire el paso en que murieron.",
        ),
    ),
    "non-finite": Wording(
        Text(
            "A number became NaN or infinite here first; everything computed from it is lost.",
            "Aquí apareció el primer NaN o infinito; todo lo calculado a partir de él está perdido.",
        ),
        Text(
            "Look at the inputs and weights of this place; if gradients grew before, begin anew with a lower "
            "train.lr_max. --resume goes on from the last checkpoint, from the beginning if there was none yet "
            "(train.checkpoint_every), and unchanged code comes to the same number.",
            "Mire las entradas y pesos de este lugar; si los gradientes crecieron antes, empiece de nuevo con una "
            "train.lr_max más baja. --resume sigue desde el último punto de control, desde el principio si aún no "
            "había ninguno (train.checkpoint_every), y con el mismo código llega al mismo número.",
        ),
    ),
}

TOO_SMALL = Wording(
    Text(
        "The weights were drawn too small: every matrix shrinks what passes through it, so that next to no signal "
        "reaches the output and next to no gradient the layers.",
        "Los pesos iniciales son demasiado pequeños: cada matriz encoge lo que pasa por ella, de modo que casi no "
        "llega señal a la salida ni gradiente a las capas.",
    ),
    Text(
        "Draw larger weights (model.init_gain = 1; Xavier's matrices have a spectral norm near 2).",
        "Inicialice con pesos más grandes (model.init_gain = 1; las matrices de Xavier tienen una norma espectral "
        "cercana a 2).",
    ),
)
"""Of `bad-init`, where the weights are not too large."""
