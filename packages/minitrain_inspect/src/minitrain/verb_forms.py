"""The hand-written tables: every English and Spanish form the verb corpus is made of, and which verb translates which.

Rules are left out on purpose. A table of forms can be read and checked against a grammar line by line; the regularity
is for the model to find. Spanish is Castilian, singular; the preterite stands for the English past.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = [
    "ENGLISH",
    "ENGLISH_PRONOUNS",
    "GOING_TO",
    "INDIRECT_OBJECT_PRONOUNS",
    "INDIRECT_OBJECT_VERBS",
    "IR_A",
    "SPANISH",
    "SPANISH_PRONOUNS",
    "TRANSLATIONS",
    "EnglishForms",
    "SpanishForms",
]

Persons = tuple[str, str, str]
"""First, second and third person singular."""


class EnglishForms(NamedTuple):
    """Forms of one English verb; the infinitive is the lemma, the futures are made with it."""

    present: Persons
    past: Persons
    participle: str


class SpanishForms(NamedTuple):
    """Forms of one Spanish verb; the infinitive is the key of the table."""

    present: Persons
    preterite: Persons
    future: Persons
    participle: str


def _english(base: str, third: str, past: str, participle: str) -> EnglishForms:
    return EnglishForms((base, base, third), (past, past, past), participle)


def _spanish(present: str, preterite: str, future: str, participle: str) -> SpanishForms:
    return SpanishForms(_persons(present), _persons(preterite), _persons(future), participle)


def _persons(forms: str) -> Persons:
    first, second, third = forms.split()
    return first, second, third


ENGLISH: Mapping[str, EnglishForms] = MappingProxyType(
    {
        # regular
        "work": _english("work", "works", "worked", "worked"),
        "play": _english("play", "plays", "played", "played"),
        "walk": _english("walk", "walks", "walked", "walked"),
        "talk": _english("talk", "talks", "talked", "talked"),
        "listen": _english("listen", "listens", "listened", "listened"),
        "watch": _english("watch", "watches", "watched", "watched"),
        "study": _english("study", "studies", "studied", "studied"),
        "finish": _english("finish", "finishes", "finished", "finished"),
        "start": _english("start", "starts", "started", "started"),
        "look": _english("look", "looks", "looked", "looked"),
        "want": _english("want", "wants", "wanted", "wanted"),
        "like": _english("like", "likes", "liked", "liked"),
        # irregular
        "be": EnglishForms(("am", "are", "is"), ("was", "were", "was"), "been"),
        "have": _english("have", "has", "had", "had"),
        "do": _english("do", "does", "did", "done"),
        "go": _english("go", "goes", "went", "gone"),
        "come": _english("come", "comes", "came", "come"),
        "see": _english("see", "sees", "saw", "seen"),
        "eat": _english("eat", "eats", "ate", "eaten"),
        "write": _english("write", "writes", "wrote", "written"),
    }
)
"""English lemma to its forms."""

SPANISH: Mapping[str, SpanishForms] = MappingProxyType(
    {
        "trabajar": _spanish(
            "trabajo trabajas trabaja", "trabajé trabajaste trabajó", "trabajaré trabajarás trabajará", "trabajado"
        ),
        "jugar": _spanish("juego juegas juega", "jugué jugaste jugó", "jugaré jugarás jugará", "jugado"),
        "caminar": _spanish(
            "camino caminas camina", "caminé caminaste caminó", "caminaré caminarás caminará", "caminado"
        ),
        "hablar": _spanish("hablo hablas habla", "hablé hablaste habló", "hablaré hablarás hablará", "hablado"),
        "escuchar": _spanish(
            "escucho escuchas escucha", "escuché escuchaste escuchó", "escucharé escucharás escuchará", "escuchado"
        ),
        "mirar": _spanish("miro miras mira", "miré miraste miró", "miraré mirarás mirará", "mirado"),
        "ver": _spanish("veo ves ve", "vi viste vio", "veré verás verá", "visto"),
        "estudiar": _spanish(
            "estudio estudias estudia", "estudié estudiaste estudió", "estudiaré estudiarás estudiará", "estudiado"
        ),
        "terminar": _spanish(
            "termino terminas termina", "terminé terminaste terminó", "terminaré terminarás terminará", "terminado"
        ),
        "empezar": _spanish(
            "empiezo empiezas empieza", "empecé empezaste empezó", "empezaré empezarás empezará", "empezado"
        ),
        "querer": _spanish("quiero quieres quiere", "quise quisiste quiso", "querré querrás querrá", "querido"),
        "gustar": _spanish("gusto gustas gusta", "gusté gustaste gustó", "gustaré gustarás gustará", "gustado"),
        "ser": _spanish("soy eres es", "fui fuiste fue", "seré serás será", "sido"),
        "estar": _spanish("estoy estás está", "estuve estuviste estuvo", "estaré estarás estará", "estado"),
        "tener": _spanish("tengo tienes tiene", "tuve tuviste tuvo", "tendré tendrás tendrá", "tenido"),
        "hacer": _spanish("hago haces hace", "hice hiciste hizo", "haré harás hará", "hecho"),
        "ir": _spanish("voy vas va", "fui fuiste fue", "iré irás irá", "ido"),
        "venir": _spanish("vengo vienes viene", "vine viniste vino", "vendré vendrás vendrá", "venido"),
        "comer": _spanish("como comes come", "comí comiste comió", "comeré comerás comerá", "comido"),
        "escribir": _spanish(
            "escribo escribes escribe", "escribí escribiste escribió", "escribiré escribirás escribirá", "escrito"
        ),
    }
)
"""Spanish infinitive to its forms."""

TRANSLATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "work": ("trabajar",),
        "play": ("jugar",),
        "walk": ("caminar",),
        "talk": ("hablar",),
        "listen": ("escuchar",),
        "watch": ("mirar", "ver"),
        "study": ("estudiar",),
        "finish": ("terminar",),
        "start": ("empezar",),
        "look": ("mirar",),
        "want": ("querer",),
        "like": ("gustar",),
        "be": ("ser", "estar"),
        "have": ("tener",),
        "do": ("hacer",),
        "go": ("ir",),
        "come": ("venir",),
        "see": ("ver",),
        "eat": ("comer",),
        "write": ("escribir",),
    }
)
"""English lemma to the Spanish infinitives that are right for it."""

ENGLISH_PRONOUNS: Persons = ("I", "you", "he")
SPANISH_PRONOUNS: Persons = ("yo", "tú", "él")

GOING_TO: Persons = ENGLISH["be"].present
"""The form of *be* before *going to*."""

IR_A: Persons = SPANISH["ir"].present
"""The form of *ir* before *a* and an infinitive."""

INDIRECT_OBJECT_VERBS = frozenset({"gustar"})
"""Verbs whose person is the indirect object and which stay in the third: *me gusta*, "it pleases me", is *I like*."""

INDIRECT_OBJECT_PRONOUNS: Persons = ("me", "te", "le")
