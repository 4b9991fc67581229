"""Every sentence of a worksheet, in English and Spanish. Symbols and numbers are the same in both."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Language: TypeAlias = Literal["en", "es"]

LANGUAGES = ("en", "es")


class Words(NamedTuple):
    """One sentence in both languages."""

    en: str
    es: str

    def of(self, language: Language) -> str:
        """The sentence in one of them."""
        return self.en if language == "en" else self.es


TITLE = Words("One transformer block, by hand", "Un bloque transformer, a mano")
SUBTITLE = Words(
    "Every number of one forward pass, in the order in which one would work it out on paper.",
    "Todos los números de una pasada hacia delante, en el orden en que se calcularían sobre el papel.",
)
HOW_TO_READ = Words(
    "Bold capitals are matrices, one row a position; the same letter in lower case, with indices, is one entry. "
    "Capitals that are not bold are sizes. Counting starts at 0. In a formula numbers are rounded to five significant "
    "digits. Those of one table share their decimals: the largest has at least five digits or is exact, and smaller "
    "ones may show fewer; attention weights have four decimals, or two beyond 8 positions. Each step goes on with the "
    "unrounded numbers.",
    "Las mayúsculas en negrita son matrices, con una fila por posición; la misma letra en minúscula, con índices, es "
    "una entrada. Las mayúsculas sin negrita son tamaños. Se cuenta desde 0. En las fórmulas los números se redondean "
    "a cinco cifras significativas. Los de una misma tabla llevan los mismos decimales: el mayor tiene al menos cinco "
    "cifras o es exacto, y los más pequeños pueden mostrar menos; los pesos de atención llevan cuatro decimales, o dos "
    "si hay más de 8 posiciones. Cada paso sigue con los números sin redondear.",
)
CONTENTS = Words("Contents", "Contenido")
CUT = Words(
    "Tables of more than 16 rows or columns show the first 13 and the last 2; each says which it leaves out.",
    "Las tablas de más de 16 filas o columnas muestran las 13 primeras y las 2 últimas; cada una dice cuáles omite.",
)
FOLDED = Words(
    "Under such a table all of its numbers are folded up, unless there are more than 8192.",
    "Debajo de cada una de esas tablas están plegados todos sus números, salvo si son más de 8192.",
)
ROWS = Words("rows {first} to {last}", "las filas {first} a {last}")
COLUMNS = Words("columns {first} to {last}", "las columnas {first} a {last}")
AND = Words(" and ", " y ")
LEFT_OUT = Words("without {ranges}", "sin {ranges}")
WHOLE = Words("All {count} numbers", "Los {count} números")
DROPOUT = Words("Dropout is left out, as in evaluation.", "Se prescinde del dropout, como en la evaluación.")
GIVEN = Words("Given", "Dato")
SHAPE = Words("shape", "forma")
SOURCE = Words("Source", "Fuente")
ROW = Words("Row {row}", "Fila {row}")
ROW_AND_COLUMN = Words("Row {row}, column {column}", "Fila {row}, columna {column}")
HEAT = Words(
    "Rows ask, columns answer. The stronger the colour, the larger the weight; each row sums to 1.",
    "Las filas preguntan; las columnas responden. Cuanto más intenso el color, mayor el peso; cada fila suma 1.",
)

SIZES = {
    "T": Words("positions", "posiciones"),
    "D": Words("width of the stream", "anchura del flujo"),
    "H": Words("heads", "cabezas"),
    "K": Words("width of a head", "anchura de una cabeza"),
    "F": Words("hidden width", "anchura oculta"),
    "ε": Words("in LayerNorm's root", "en la raíz de LayerNorm"),
}

ATTENTION = Words("Attention", "Atención")
CAUSAL = Words(
    "causal: each position sees itself and earlier ones",
    "causal: cada posición se ve a sí misma y a las anteriores",
)
FULL = Words("full: each position sees every one", "completa: cada posición ve a todas")
POSITIONS = Words("Positions", "Posiciones")
WITH_ROPE = Words(
    "RoPE: queries and keys are turned according to their positions",
    "RoPE: se giran consultas y claves según sus posiciones",
)
WITHOUT_ROPE = Words(
    "no rotation (RoPE) in this block; position embeddings, where the model has them, were added before it",
    "en este bloque no hay rotación (RoPE); los vectores de posición, si el modelo los tiene, se sumaron antes",
)
NUMBERS = Words("Numbers", "Números")

SECTIONS = {
    "input": (
        Words("Input", "Entrada"),
        Words(
            "The residual stream that enters the block: a row of D numbers for each position.",
            "El flujo residual que entra en el bloque: una fila de D números por posición.",
        ),
    ),
    "ln1": (
        Words("First LayerNorm", "Primera LayerNorm"),
        Words(
            "Each row is shifted to mean 0 and scaled to variance 1, then every column gets a learned gain and shift. "
            "Rows never mix.",
            "Cada fila se desplaza a media 0 y se escala a varianza 1; después cada columna recibe una ganancia y un "
            "desplazamiento aprendidos. Las filas no se mezclan nunca.",
        ),
    ),
    "projections": (
        Words("Queries, keys and values", "Consultas, claves y valores"),
        Words(
            "Each position asks (query), says what it can be found by (key) and what it hands over (value).",
            "Cada posición pregunta (consulta), dice por qué se la puede encontrar (clave) y qué entrega (valor).",
        ),
    ),
    "rope": (
        Words("Rotation by position (RoPE)", "Rotación según la posición (RoPE)"),
        Words(
            "In each head columns i and i + K/2 are the two coordinates of a point, which is turned by an angle that "
            "grows with the position.",
            "En cada cabeza, las columnas i e i + K/2 son las dos coordenadas de un punto, que se gira un ángulo que "
            "crece con la posición.",
        ),
    ),
    "head": (
        Words("Head {head}", "Cabeza {head}"),
        Words(
            "It owns columns {first} to {last} of the queries, keys and values.",
            "Le corresponden las columnas {first} a {last} de consultas, claves y valores.",
        ),
    ),
    "attn": (
        Words("Heads joined and projected", "Unión y proyección de las cabezas"),
        Words(
            "The heads' outputs stand side by side; the output projection mixes them into an update of the stream.",
            "Las salidas de las cabezas se ponen una junto a otra; la proyección de salida las mezcla en una "
            "actualización del flujo.",
        ),
    ),
    "z": (
        Words("First residual addition", "Primera suma residual"),
        Words(
            "What attention found is added to the stream, which was itself not normalised.",
            "Lo que encontró la atención se suma al flujo, que en sí no se normalizó.",
        ),
    ),
    "ln2": (
        Words("Second LayerNorm", "Segunda LayerNorm"),
        Words(
            "As the first, with parameters of its own, on the stream after attention. Its letters carry a prime.",
            "Como la primera, con parámetros propios, sobre el flujo tras la atención. Sus letras llevan una prima.",
        ),
    ),
    "ffn": (
        Words("Feed-forward network", "Red feed-forward"),
        Words(
            "Each position alone: up to F hidden units, through GELU, back down to D.",
            "Cada posición por separado: sube a F unidades ocultas, pasa por GELU y vuelve a bajar a D.",
        ),
    ),
    "y": (
        Words("Second residual addition", "Segunda suma residual"),
        Words(
            "The output of the block, which the next one reads.",
            "La salida del bloque, que lee el siguiente.",
        ),
    ),
}
"""Key of a section to its title and what it is for."""

STEPS = {
    "x": Words("Stream that enters", "Flujo que entra"),
    "mean": Words("Mean of each row", "Media de cada fila"),
    "centred": Words("Deviations from the mean", "Desviaciones respecto a la media"),
    "variance": Words(
        "Variance of each row, divided by D and not D − 1", "Varianza de cada fila, dividida entre D y no entre D − 1"
    ),
    "std": Words("Standard deviation, with ε inside the root", "Desviación típica, con ε dentro de la raíz"),
    "normalised": Words("Rows of mean 0 and variance 1", "Filas de media 0 y varianza 1"),
    "scaled_and_shifted": Words("Gain and shift of each column", "Ganancia y desplazamiento de cada columna"),
    "q": Words("Queries", "Consultas"),
    "k": Words("Keys", "Claves"),
    "v": Words("Values", "Valores"),
    "angles": Words("Angle of each position, in radians", "Ángulo de cada posición, en radianes"),
    "cos": Words("Cosines of the angles", "Cosenos de los ángulos"),
    "sin": Words("Sines of the angles", "Senos de los ángulos"),
    "q_rotated": Words("Queries, turned", "Consultas giradas"),
    "k_rotated": Words("Keys, turned", "Claves giradas"),
    "scores": Words("Scores: each query times each key", "Puntuaciones: cada consulta por cada clave"),
    "scaled": Words("Scores divided by √K", "Puntuaciones divididas entre √K"),
    "masked": Words("Later positions masked out", "Posiciones posteriores enmascaradas"),
    "unmasked": Words("No position is masked out", "No se enmascara ninguna posición"),
    "max": Words("Largest score of each row", "Puntuación mayor de cada fila"),
    "exp": Words(
        "Exponentials; taking off the largest changes no weight and avoids overflow",
        "Exponenciales; restar la mayor no cambia ningún peso y evita desbordamientos",
    ),
    "sum": Words("Sum of each row", "Suma de cada fila"),
    "weights": Words("Attention weights: the softmax", "Pesos de atención: la softmax"),
    "head_out": Words("Values gathered by the weights", "Valores reunidos según los pesos"),
    "joined": Words("Heads side by side", "Cabezas una junto a otra"),
    "attn_out": Words("Output projection: attention's update", "Proyección de salida: la actualización de la atención"),
    "z": Words("Stream after attention", "Flujo tras la atención"),
    "pre": Words("Hidden units before GELU", "Unidades ocultas antes de GELU"),
    "inner": Words("Argument of tanh in GELU", "Argumento de la tanh en GELU"),
    "tanh": Words("tanh of it", "Su tanh"),
    "gelu": Words(
        "Hidden units after GELU, in its tanh form", "Unidades ocultas después de GELU, en su forma con tanh"
    ),
    "ffn_out": Words("Back to width D: the network's update", "De vuelta a la anchura D: la actualización de la red"),
    "y": Words("Stream that leaves", "Flujo que sale"),
}
"""Kind of step to its title."""

PARAMETER_SYMBOLS = {
    "ln1.gamma": r"\gamma",
    "ln1.beta": r"\beta",
    "ln2.gamma": r"\gamma'",
    "ln2.beta": r"\beta'",
    "attn.W_q": r"\mathbf{W}_q",
    "attn.W_k": r"\mathbf{W}_k",
    "attn.W_v": r"\mathbf{W}_v",
    "attn.W_o": r"\mathbf{W}_o",
    "attn.b_q": r"\mathbf{b}_q",
    "attn.b_k": r"\mathbf{b}_k",
    "attn.b_v": r"\mathbf{b}_v",
    "attn.b_o": r"\mathbf{b}_o",
    "ffn.W1": r"\mathbf{W}_1",
    "ffn.b1": r"\mathbf{b}_1",
    "ffn.W2": r"\mathbf{W}_2",
    "ffn.b2": r"\mathbf{b}_2",
}
"""Name of a parameter to its symbol."""

PARAMETER_AXES = {
    "ln1.gamma": ("D",),
    "ln1.beta": ("D",),
    "ln2.gamma": ("D",),
    "ln2.beta": ("D",),
    "attn.W_q": ("D", "D"),
    "attn.W_k": ("D", "D"),
    "attn.W_v": ("D", "D"),
    "attn.W_o": ("D", "D"),
    "attn.b_q": ("D",),
    "attn.b_k": ("D",),
    "attn.b_v": ("D",),
    "attn.b_o": ("D",),
    "ffn.W1": ("D", "F"),
    "ffn.b1": ("F",),
    "ffn.W2": ("F", "D"),
    "ffn.b2": ("D",),
}
"""Name of a parameter to its shape in letters."""
