"""The block's forward with exact fractions as long as there are any, and with fifty decimal digits from there on.

    python by_hand.py            prints the numbers of hand.csv
    python by_hand.py --check    compares hand.csv with them, number by number; exit status 1 if one differs

Nothing is imported but `fractions` and `decimal`: no NumPy, and not the package whose arithmetic is on trial.
"""

import decimal
from decimal import Decimal
from fractions import Fraction

from parameters import EPS, PARAMETERS

decimal.getcontext().prec = 50

PI = Decimal("3.14159265358979323846264338327950288419716939937510")
PLACES = Decimal("1e-15")  # what hand.csv has

Number = Fraction | Decimal
Matrix = list[list[Number]]
Steps = dict[str, Matrix]


def dec(number: Number) -> Decimal:
    """Return a number as a decimal with fifty digits."""
    return Decimal(number.numerator) / Decimal(number.denominator) if isinstance(number, Fraction) else number


def add(a: Number, b: Number) -> Number:
    """Return a + b, exactly where both are fractions."""
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else dec(a) + dec(b)


def mul(a: Number, b: Number) -> Number:
    """Return a · b, exactly where both are fractions."""
    return a * b if isinstance(a, Fraction) and isinstance(b, Fraction) else dec(a) * dec(b)


def total(numbers: list[Number]) -> Number:
    """Return the sum, from left to right."""
    result = numbers[0]
    for number in numbers[1:]:
        result = add(result, number)
    return result


def product(a: Matrix, b: Matrix) -> Matrix:
    """Return the matrix product a b."""
    return [
        [total([mul(p, q) for p, q in zip(row, column, strict=True)]) for column in zip(*b, strict=True)] for row in a
    ]


def plus(a: Matrix, b: Matrix) -> Matrix:
    """Return a + b; a single row b is added to every row."""
    rows = b if len(b) == len(a) else b * len(a)
    return [[add(p, q) for p, q in zip(row, other, strict=True)] for row, other in zip(a, rows, strict=True)]


def layer_norm(name: str, x: Matrix) -> Steps:
    """Return the steps of gamma · (x − mean)/√(variance + eps) + beta, each row alone."""
    width = Fraction(1, len(x[0]))
    mean = [[mul(total(row), width)] for row in x]
    centred = [[add(value, -m) for value in row] for row, (m,) in zip(x, mean, strict=True)]
    variance = [[mul(total([mul(c, c) for c in row]), width)] for row in centred]
    std = [[dec(add(v, EPS)).sqrt()] for (v,) in variance]
    normalised = [[dec(c) / s for c in row] for row, (s,) in zip(centred, std, strict=True)]
    gamma, beta = PARAMETERS[f"{name}.gamma"], PARAMETERS[f"{name}.beta"]
    scaled = [[mul(n, g) for n, g in zip(row, gamma[0], strict=True)] for row in normalised]
    return {
        f"{name}.mean": mean,
        f"{name}.centred": centred,
        f"{name}.variance": variance,
        f"{name}.std": std,
        f"{name}.normalised": normalised,
        name: plus(scaled, beta),
    }


def attention(x: Matrix, causal: bool) -> Steps:
    """Return the steps of softmax(Q Kᵀ/√4) V W_o: one head, four wide."""
    q, k, v = (product(x, PARAMETERS[f"attn.W_{name}"]) for name in "qkv")
    scores = product(q, [list(column) for column in zip(*k, strict=True)])
    scaled = [[dec(s) / Decimal(4).sqrt() for s in row] for row in scores]
    masked = [
        [s if j <= t or not causal else Decimal("-Infinity") for j, s in enumerate(row)] for t, row in enumerate(scaled)
    ]
    top = [[max(row)] for row in masked]
    powers = [[(s - m).exp() for s in row] for row, (m,) in zip(masked, top, strict=True)]
    sums = [[total(row)] for row in powers]
    weights = [[p / s for p in row] for row, (s,) in zip(powers, sums, strict=True)]
    head = product(weights, v)
    return {
        "attn.q": q,
        "attn.k": k,
        "attn.v": v,
        "attn.head0.scores": scores,
        "attn.head0.scaled": scaled,
        "attn.head0.masked": masked,
        "attn.head0.max": top,
        "attn.head0.exp": powers,
        "attn.head0.sum": sums,
        "attn.head0.weights": weights,
        "attn.head0": head,
        "attn": product(head, PARAMETERS["attn.W_o"]),
    }


def feed_forward(x: Matrix) -> Steps:
    """Return the steps of GELU(x W1 + b1) W2 + b2, GELU in its tanh form."""
    pre = plus(product(x, PARAMETERS["ffn.W1"]), PARAMETERS["ffn.b1"])
    root = (Decimal(2) / PI).sqrt()
    inner = [[root * (dec(g) + Decimal("0.044715") * dec(g) * dec(g) * dec(g)) for g in row] for row in pre]
    tanh = [[((2 * u).exp() - 1) / ((2 * u).exp() + 1) for u in row] for row in inner]
    act = [
        [dec(g) / 2 * (1 + t) for g, t in zip(row, others, strict=True)] for row, others in zip(pre, tanh, strict=True)
    ]
    return {
        "ffn.pre": pre,
        "ffn.act.inner": inner,
        "ffn.act.tanh": tanh,
        "ffn.act": act,
        "ffn": plus(product(act, PARAMETERS["ffn.W2"]), PARAMETERS["ffn.b2"]),
    }


def block(causal: bool) -> Steps:
    """Return every step of the forward, in order."""
    steps: Steps = {"x": list(PARAMETERS["x"])}
    steps |= layer_norm("ln1", steps["x"])
    steps |= attention(steps["ln1"], causal)
    steps["z"] = plus(steps["x"], steps["attn"])
    steps |= layer_norm("ln2", steps["z"])
    steps |= feed_forward(steps["ln2"])
    steps["y"] = plus(steps["z"], steps["ffn"])
    return steps


def lines() -> list[str]:
    """Return the lines of hand.csv: what does not depend on the mask once, the rest for either mask."""
    causal, full = block(causal=True), block(causal=False)
    result = ["attention,name,row,column,value"]
    for attention_kind, steps in (("both", causal), ("causal", causal), ("full", full)):
        for name, matrix in steps.items():
            if (causal[name] == full[name]) == (attention_kind == "both"):
                for row, numbers in enumerate(matrix):
                    for column, number in enumerate(numbers):
                        value = dec(number)
                        written = f"{value.quantize(PLACES):f}" if value.is_finite() else "-inf"
                        result.append(f"{attention_kind},{name},{row},{column},{written}")
    return result


def check(typed: list[str]) -> list[str]:
    """Return a line for each number of hand.csv that is not the one computed here."""
    computed = lines()
    if len(typed) != len(computed):
        return [f"hand.csv has {len(typed)} lines and must have {len(computed)}"]
    return [f"typed {was!r}, computed {now!r}" for was, now in zip(typed, computed, strict=True) if was != now]


def main(arguments: list[str]) -> int:
    """Print the numbers, or say how many of hand.csv were reproduced; return the exit status."""
    if arguments != ["--check"]:
        print("\n".join(lines()))
        return 0
    with open(__file__.replace("by_hand.py", "hand.csv"), encoding="utf-8") as file:
        typed = file.read().splitlines()
    wrong = check(typed)
    print("\n".join(wrong) if wrong else f"all {len(typed) - 1} numbers of hand.csv reproduced")
    return 1 if wrong else 0


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
