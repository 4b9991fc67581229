"""Every number that the worked example starts from: tenths, written down and not drawn.

d_model 4, one head, d_ff 8, two tokens. A matrix stands as in x @ W: one row an input, one column an output.
"""

from fractions import Fraction


def tenths(rows: str) -> list[list[Fraction]]:
    """Return rows of whole numbers, one row a line, each number divided by ten."""
    return [[Fraction(int(number), 10) for number in row.split()] for row in rows.strip().splitlines()]


PARAMETERS = {
    # Row 0 has mean 1/4 and variance 5/16, row 1 mean 1/2 and variance 7/8.
    "x": tenths("""
          5  10   0  -5
        -10   5  15  10
    """),
    "ln1.gamma": tenths("10 5 15 10"),
    "ln1.beta": tenths("1 0 -1 2"),
    "attn.W_q": tenths("""
         5   0  -2   1
         0   3   2  -5
         2  -1   4   0
        -3   5   0   2
    """),
    "attn.W_k": tenths("""
         2   5   0  -1
        -4   1   3   0
         0   2  -5   4
         5   0   1  -3
    """),
    "attn.W_v": tenths("""
         3  -1   5   0
         0   4  -2   1
        -5   0   1   3
         2   1   0  -4
    """),
    "attn.W_o": tenths("""
         4   0  -1   2
        -2   5   0   1
         1  -3   4   0
         0   2   1  -5
    """),
    "ln2.gamma": tenths("15 10 10 5"),
    "ln2.beta": tenths("0 1 2 -1"),
    "ffn.W1": tenths("""
         5  -3   0   2  10  -1   4   0
         0   6  -2   1   3   5   0 -10
        -4   0   8  -5   0   2   1   3
         1   2   0   7  -6   0  -3   4
    """),
    "ffn.b1": tenths("1 -1 2 0 3 -2 0 5"),
    "ffn.W2": tenths("""
         3   0  -2   1
        -1   4   0   2
         0   1   5  -3
         2  -2   0   4
         6   0   1   0
         0   3  -4   1
        -5   1   0   2
         1   0   2  -6
    """),
    "ffn.b2": tenths("1 0 -1 2"),
}

EPS = Fraction(1, 100_000)
