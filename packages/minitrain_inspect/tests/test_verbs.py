"""The verb corpus: the tables against the reference, the lines, and what the split promises."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from minitrain import verb_forms
from minitrain.per_class_loss import IRREGULAR_VERBS, REGULAR_VERBS
from minitrain.tokenizer import BOS_ID, EOS_ID, CharTokenizer
from minitrain.verbs import TENSES, Cell, admissible_answers, all_examples, encode_example, verb_corpus

FOLDER = Path(__file__).parent / "data" / "verbs"
FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.35, 0.5)


def reference(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def texts():
    return {example.text for example in all_examples()}


# The tables


def test_the_tables_hold_the_twenty_verbs_and_their_translations():
    assert set(verb_forms.ENGLISH) == REGULAR_VERBS | IRREGULAR_VERBS == set(verb_forms.TRANSLATIONS)
    assert set(verb_forms.SPANISH) == {verb for verbs in verb_forms.TRANSLATIONS.values() for verb in verbs}


def test_english_forms_agree_with_the_reference():
    data = reference("english_forms.json")
    for lemma, forms in verb_forms.ENGLISH.items():
        expected = data["forms"][lemma]
        assert forms.present[2] == expected["third_singular"]
        assert forms.participle == expected["past_participle"]
        if lemma != "be":
            assert forms.present[:2] == (lemma, lemma)
            assert set(forms.past) == {expected["past"]}
    be = verb_forms.ENGLISH["be"]
    assert be.present == tuple(data["present_of_be"][person] for person in ("1s", "2s", "3s"))
    assert be.past == tuple(data["past_of_be"][person] for person in ("1s", "2s", "3s"))
    assert {lemma: tuple(verbs.split("|")) for lemma, verbs in data["translation"].items()} == verb_forms.TRANSLATIONS


def test_spanish_forms_agree_with_the_reference():
    data = reference("spanish_forms.json")["forms"]
    assert set(data) == set(verb_forms.SPANISH)
    for infinitive, forms in verb_forms.SPANISH.items():
        expected = data[infinitive]["forms"]
        for tense, ours in (("present", forms.present), ("preterite", forms.preterite), ("future", forms.future)):
            assert ours == tuple(expected[f"{tense}_{person}"] for person in ("1s", "2s", "3s")), (infinitive, tense)
        assert forms.participle == expected["participle"]


def test_regular_means_ed_and_irregular_does_not():
    def regular_past(lemma):
        if lemma.endswith("e"):
            return lemma + "d"
        return lemma[:-1] + "ied" if re.search(r"[^aeiou]y$", lemma) else lemma + "ed"

    follows = {lemma for lemma, forms in verb_forms.ENGLISH.items() if set(forms.past) == {regular_past(lemma)}}
    assert follows == REGULAR_VERBS


def test_the_tables_cannot_be_written_to():
    with pytest.raises(TypeError):
        verb_forms.TRANSLATIONS["work"] = ("laborar",)


# The lines


@pytest.mark.parametrize(
    ("spanish", "english"),
    [
        ("trabajar", "to work"),
        ("trabajado", "worked"),
        ("yo trabajo", "I work"),
        ("tú estudiaste", "you studied"),
        ("él estudia", "he studies"),
        ("él terminará", "he will finish"),
        ("tú vas a escuchar", "you are going to listen"),
        ("yo voy a ir", "I am going to go"),
        ("me gusta", "I like"),
        ("te gustó", "you liked"),
        ("le gustará", "he will like"),
        ("me va a gustar", "I am going to like"),
        ("gustar", "to like"),
        ("gustado", "liked"),
        ("yo soy", "I am"),
        ("yo estoy", "I am"),
        ("tú fuiste", "you were"),
        ("tú fuiste", "you went"),
        ("él escribió", "he wrote"),
        ("visto", "seen"),
        ("visto", "watched"),
        ("hecho", "done"),
        ("él viene", "he comes"),
        ("yo comí", "I ate"),
        ("yo tengo", "I have"),
    ],
)
def test_each_translation_is_a_line_in_both_directions(spanish, english):
    assert f"es:{spanish} / en:{english}" in texts()
    assert f"en:{english} / es:{spanish}" in texts()


def test_gustar_is_never_conjugated_as_if_it_meant_to_please():
    assert not {text for text in texts() if re.search(r"(yo|tú|él) (vas? a |voy a )?gust", text)}
    assert not {text for text in texts() if re.search(r"gusto|gustas|gusté|gustaste|gustarás|gustaré", text)}


def test_every_cell_has_its_lines_and_no_line_occurs_twice():
    examples = all_examples()
    assert len(texts()) == len(examples) == 616
    by_cell = Counter(example.cell for example in examples)
    assert len(by_cell) == 280
    for cell, lines in by_cell.items():
        assert lines == 2 * len(verb_forms.TRANSLATIONS[cell.lemma])
        assert (cell.person is None) == (cell.tense in ("infinitive", "participle"))
    assert {cell.tense for cell in by_cell} == set(TENSES)
    per_lemma = Counter(cell.lemma for cell in by_cell)
    assert set(per_lemma.values()) == {14}


def test_metadata_of_an_example():
    example = next(e for e in all_examples() if e.text == "en:he saw / es:él vio")
    assert (example.source, example.target, example.direction) == ("he saw", "él vio", "en-es")
    assert (example.lemma, example.tense, example.person, example.regularity) == ("see", "past", 3, "irregular")
    assert example.cell == Cell("see", "past", 3)
    assert example.prompt == "en:he saw / es:"
    assert Cell("like", "participle", None).regularity == "regular"


@pytest.mark.parametrize(
    ("source", "answers"),
    [
        ("yo fui", {"I was", "I went"}),
        ("yo miro", {"I look", "I watch"}),
        ("yo veo", {"I see", "I watch"}),
        ("I am", {"yo soy", "yo estoy"}),
        ("he watches", {"él mira", "él ve"}),
        ("le gusta", {"he likes"}),
        ("visto", {"seen", "watched"}),
        ("sido", {"been"}),
        ("to be", {"ser", "estar"}),
        ("you went", {"tú fuiste"}),
    ],
)
def test_every_admissible_answer_counts(source, answers):
    assert admissible_answers(source) == answers


def test_every_line_is_among_its_own_answers_and_every_answer_is_a_line():
    pairs = {(example.source, example.target) for example in all_examples()}
    assert pairs == {(source, answer) for source, _ in pairs for answer in admissible_answers(source)}


def test_no_string_is_both_spanish_and_english():
    # admissible_answers takes the source without its language: this is why it may.
    spanish = {example.source for example in all_examples() if example.direction == "es-en"}
    assert spanish.isdisjoint(example.source for example in all_examples() if example.direction == "en-es")


def test_a_source_outside_the_corpus_is_named():
    with pytest.raises(ValueError, match=r"got 'es:yo fui'\. Leave out the language tag"):
        admissible_answers("es:yo fui")


# The split


def test_the_default_split_in_numbers():
    corpus = verb_corpus()
    assert (len(corpus.train), len(corpus.validation), len(corpus.held_out)) == (554, 62, 28)
    assert corpus == verb_corpus(0.1)


def test_the_default_split_is_the_one_earlier_runs_were_scored_on():
    held_out = sorted(f"{c.lemma} {c.tense} {c.person or '-'}" for c in verb_corpus().held_out)
    assert held_out == [
        "be future_will 1",
        "come future_going 3",
        "come infinitive -",
        "come participle -",
        "eat future_going 1",
        "eat past 1",
        "eat past 3",
        "finish future_going 2",
        "finish past 3",
        "have present 1",
        "like past 2",
        "like present 1",
        "listen infinitive -",
        "look future_will 2",
        "look present 1",
        "play future_going 2",
        "play future_will 1",
        "play past 2",
        "see future_will 2",
        "see present 1",
        "start future_will 3",
        "start participle -",
        "want future_going 3",
        "watch future_will 2",
        "watch present 1",
        "work future_going 2",
        "work past 3",
        "work present 2",
    ]


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_the_two_sides_are_the_corpus_cut_along_cells(fraction):
    corpus = verb_corpus(fraction)
    assert Counter(corpus.train + corpus.validation) == Counter(all_examples())
    assert {example.cell for example in corpus.validation} == corpus.held_out
    assert corpus.held_out.isdisjoint(example.cell for example in corpus.train)


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_cells_are_held_out_in_both_directions(fraction):
    validation = {(example.source, example.target) for example in verb_corpus(fraction).validation}
    assert {(target, source) for source, target in validation} == validation


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_no_string_of_validation_stands_in_training_on_either_side(fraction):
    corpus = verb_corpus(fraction)
    seen = {string for example in corpus.train for string in (example.source, example.target)}
    held = {string for example in corpus.validation for string in (example.source, example.target)}
    assert held
    assert seen.isdisjoint(held)


def test_cells_that_share_a_source_are_held_out_together():
    shared_past = [{Cell("be", "past", person), Cell("go", "past", person)} for person in (1, 2, 3)]
    look_alikes = [
        {Cell(lemma, tense, person) for lemma in ("look", "watch", "see")}
        for tense in TENSES
        for person in ((None,) if tense in ("infinitive", "participle") else (1, 2, 3))
    ]
    held_out_whole = 0
    for fraction in FRACTIONS:
        held_out = verb_corpus(fraction).held_out
        for group in shared_past + look_alikes:
            assert held_out >= group or held_out.isdisjoint(group)
            held_out_whole += held_out >= group
    assert held_out_whole > 5


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_both_classes_and_all_tenses_stand_on_both_sides(fraction):
    corpus = verb_corpus(fraction)
    strata = {(regularity, tense) for regularity in ("regular", "irregular") for tense in TENSES}
    for side in (corpus.train, corpus.validation):
        assert {(example.regularity, example.tense) for example in side} == strata
        assert {example.direction for example in side} == {"es-en", "en-es"}


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_every_verb_and_every_tense_of_it_that_has_persons_appears_in_training(fraction):
    train = {(example.lemma, example.tense) for example in verb_corpus(fraction).train}
    finite = {"present", "past", "future_will", "future_going"}
    assert train >= {(lemma, tense) for lemma in REGULAR_VERBS | IRREGULAR_VERBS for tense in finite}


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.35, 0.5])
def test_the_held_out_share_is_close_to_the_fraction_in_each_class(fraction):
    held_out = Counter(cell.regularity for cell in verb_corpus(fraction).held_out)
    assert held_out["regular"] / (12 * 14) == pytest.approx(fraction, abs=0.02)
    assert held_out["irregular"] / (8 * 14) == pytest.approx(fraction, abs=0.02)


@pytest.mark.parametrize("fraction", [0, 0.51, 1, -0.1, float("nan")])
def test_a_fraction_out_of_range_is_refused(fraction):
    with pytest.raises(ValueError, match=f"above 0 and at most 0.5; got {fraction}".replace(".", r"\.")):
        verb_corpus(fraction)


# Ids


def test_the_alphabet_and_the_lengths_fit_the_preset():
    corpus = verb_corpus()
    assert corpus.tokenizer.alphabet == " /:Iabcdefghijklmnopqrstuvwyzáéíóú"
    assert corpus.tokenizer.vocab_size == 38
    assert corpus.longest == 51
    assert corpus.context_len == 64
    assert verb_corpus(0.5).tokenizer == corpus.tokenizer


def test_a_line_is_framed_by_its_reserved_tokens():
    tokenizer = verb_corpus().tokenizer
    for example in all_examples():
        sequence = encode_example(example, tokenizer)
        assert sequence.ids[0] == BOS_ID
        assert sequence.ids[-1] == EOS_ID
        assert tokenizer.decode(sequence.ids[1:-1], show_special=True) == example.text
        assert sequence.label == example.lemma
        assert sequence.ids.dtype == np.int64


@pytest.mark.parametrize(
    ("loss_on", "counted"), [("target", "en:I work<eos>"), ("line", "es:yo trabajo / en:I work<eos>")]
)
def test_the_loss_begins_after_the_separator_or_at_the_line(loss_on, counted):
    tokenizer = verb_corpus().tokenizer
    example = next(e for e in all_examples() if e.text == "es:yo trabajo / en:I work")
    sequence = encode_example(example, tokenizer, loss_on)
    assert tokenizer.decode(sequence.ids[sequence.loss_start :], show_special=True) == counted


def test_the_default_loss_is_on_the_target_part():
    example = all_examples()[0]
    tokenizer = CharTokenizer.from_text(example.text)
    assert encode_example(example, tokenizer).loss_start == encode_example(example, tokenizer, "target").loss_start > 1


def test_another_loss_is_refused():
    example = all_examples()[0]
    with pytest.raises(ValueError, match="must be 'target' or 'line'; got 'source'"):
        encode_example(example, CharTokenizer.from_text(example.text), "source")
