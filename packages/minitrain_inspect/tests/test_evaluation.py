"""What a model writes: text of generated ids, greedy completions, and which of them count as exact."""

from typing import Any

import numpy as np
import pytest
from minimodel.transformer import MiniGPT, MiniGPTConfig
from minitrain.evaluation import Completion, complete, completions, exact_shares, written
from minitrain.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, CharTokenizer
from minitrain.verbs import Cell, Example, verb_corpus

TOKENIZER = CharTokenizer("abcde")


class Parrot:
    """Stands for a model: its greedy continuation of a prompt is looked up, one id a step; then it repeats `<eos>`.

    It records the prompts of each call, and refuses what a context could not hold.
    """

    def __init__(self, answers: dict[str, list[int]], context_len: int = 11) -> None:
        self.answers = answers
        self.config = MiniGPTConfig(context_len=context_len)
        self.calls: list[np.ndarray] = []
        self.asked: list[int] = []

    def generate(self, ids: np.ndarray, new: int, *, temperature: float) -> np.ndarray:
        assert temperature == 0.0
        assert ids.shape[1] + new <= self.config.context_len
        assert (ids[:, 0] == BOS_ID).all()
        self.calls.append(ids)
        self.asked.append(new)
        rows = [(self.answers[TOKENIZER.decode(row)] + [EOS_ID] * new)[:new] for row in ids]
        return np.concatenate([ids, np.array(rows, dtype=np.int64).reshape(len(ids), new)], axis=1)


def complete_with(parrot: Any, prompts: list[str]) -> list[str]:
    return complete(parrot, TOKENIZER, prompts)


def ids(text: str) -> list[int]:
    return list(map(int, TOKENIZER.encode(text)))


# --------------------------------------------------------------------------- text of ids


def test_text_ends_at_the_first_end_of_line() -> None:
    assert written(TOKENIZER, np.array([*ids("bad"), EOS_ID, *ids("abc"), EOS_ID])) == "bad"
    assert written(TOKENIZER, np.array(ids("cab"))) == "cab"
    assert written(TOKENIZER, np.array([EOS_ID])) == ""
    assert written(TOKENIZER, np.array([], dtype=np.int64)) == ""


def test_reserved_and_unused_ids_are_written_out() -> None:
    unused = TOKENIZER.vocab_size
    generated = np.array([PAD_ID, *ids("a"), BOS_ID, UNK_ID, unused, unused + 50, EOS_ID])
    assert written(TOKENIZER, generated) == "<pad>a<bos><unk><unk><unk>"


# --------------------------------------------------------------------------- completing


def test_completions_come_in_the_order_of_the_prompts_whatever_their_length() -> None:
    parrot = Parrot({"ab": ids("dd"), "abc": ids("e"), "ba": ids("cac"), "c": []})
    assert complete_with(parrot, ["abc", "ab", "c", "ba"]) == ["e", "dd", "", "cac"]
    # Prompts of one length go through the model together.
    assert sorted(call.shape for call in parrot.calls) == [(1, 2), (1, 4), (2, 3)]


def test_a_completion_without_an_end_stops_at_the_end_of_the_context() -> None:
    parrot = Parrot({"abcd": ids("e" * 20), "abcdabcdab": ids("e"), "ba": ids("ab")}, context_len=11)
    # <bos> and the prompt take their room.
    assert complete_with(parrot, ["abcd", "abcdabcdab", "ba"]) == ["e" * 6, "", "ab"]
    assert complete_with(parrot, []) == []


def test_nothing_is_generated_past_the_longest_line() -> None:
    parrot = Parrot({"ab": ids("e" * 2000), "abcdab": ids("cc")}, context_len=2048)
    assert complete(parrot, TOKENIZER, ["ab", "abcdab"], longest=9) == ["e" * 6, "cc"]  # type: ignore[arg-type]
    assert parrot.asked == [6, 2]


def test_held_out_lines_cost_as_much_in_a_long_context_as_in_a_short_one() -> None:
    corpus = verb_corpus()

    class Endless(Parrot):
        def generate(self, ids: np.ndarray, new: int, *, temperature: float) -> np.ndarray:
            self.asked.append(ids.shape[1] + new)
            return np.concatenate([ids, np.full((len(ids), new), 5)], axis=1)

    model: Any = Endless({}, context_len=4096)
    completions(model, corpus)
    # A line that fills this much without its end is longer than any of the corpus, so it cannot be an answer.
    assert set(model.asked) == {corpus.longest}


def test_a_real_model_completes_greedily_and_alone_as_in_a_batch() -> None:
    tokenizer = verb_corpus().tokenizer
    model = MiniGPT(
        MiniGPTConfig(d_model=12, n_heads=2, n_layers=1, d_ff=17, vocab_size=64, context_len=29, dropout=0.5),
        rng=np.random.default_rng(4),
    )
    prompts = ["es:yo trabajo / en:", "es:yo estudio / en:", "en:I go / es:"]
    answers = complete(model, tokenizer, prompts)
    assert answers == complete(model, tokenizer, prompts)
    assert answers == [complete(model, tokenizer, [prompt])[0] for prompt in prompts]
    for prompt, answer in zip(prompts, answers, strict=True):
        full = model.generate([BOS_ID, *tokenizer.encode(prompt)], 29 - len(prompt) - 1, temperature=0.0)
        assert answer == written(tokenizer, full[len(prompt) + 1 :])
    assert any(answers)
    assert all(module.training for module in model.modules())


# --------------------------------------------------------------------------- exactness


def example(source: str, target: str, lemma: str, direction: Any = "es-en") -> Example:
    return Example(source, target, direction, Cell(lemma, "present", 1))


@pytest.mark.parametrize(
    ("answer", "exact"),
    [
        ("I look", True),
        ("I watch", True),  # mirar is both
        ("I see", False),
        ("I look ", False),
        ("i look", False),
        ("", False),
        ("I <pad>look", False),
    ],
)
def test_every_translation_of_the_source_counts_and_nothing_else(answer: str, exact: bool) -> None:
    assert Completion(example("yo miro", "I look", "look"), answer).exact is exact


def test_only_lines_from_spanish_are_asked() -> None:
    corpus = verb_corpus()
    asked: list[str] = []

    class Silent(Parrot):
        def generate(self, ids: np.ndarray, new: int, *, temperature: float) -> np.ndarray:
            asked.extend(corpus.tokenizer.decode(row) for row in ids)
            return np.concatenate([ids, np.full((len(ids), new), EOS_ID)], axis=1)

    model: Any = Silent({}, context_len=64)
    done = completions(model, corpus)
    expected = [example for example in corpus.validation if example.direction == "es-en"]
    assert [each.example for each in done] == expected
    assert sorted(asked) == sorted(example.prompt for example in expected)
    assert 0 < len(expected) < len(corpus.validation)
    assert [each.answer for each in done] == [""] * len(done)


def test_shares_are_counted_by_class() -> None:
    work, play, go = example("yo trabajo", "I work", "work"), example("yo juego", "I play", "play"), "go"
    done = [
        Completion(work, "I work"),
        Completion(play, "I work"),
        Completion(work, "I work"),
        Completion(example("yo voy", "I go", go), "I went"),
    ]
    assert exact_shares(done) == {
        "regular": {"exact": 2, "of": 3, "share": 2 / 3},
        "irregular": {"exact": 0, "of": 1, "share": 0.0},
    }
    assert exact_shares(done[:1])["irregular"] == {"exact": 0, "of": 0, "share": None}
