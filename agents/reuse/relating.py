"""Relates the phrases of a prompt: who has what, does what, stands where, and what is all around.

A phrase belongs to the thing before it, with these exceptions, so that one meaning has one reading:

- What is worn does nothing: "a man with a hat on a horse" is on the horse with his hat. Neither do trees and tables.
- A relation in space, or an action, is of all that "and" joins, if none of the others has one of its own.
- Where and when the scene is, at the beginning or the end, is of the whole scene: "at night", "on the beach".
- "right of", "behind" and "below" are turned round.

Where a sentence may mean two things, the reading is literal: another order then counts as another meaning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from agents.reuse import inflection, lexicon
from agents.reuse.phrases import Action, All, Described, Element, Link, NounPhrase
from agents.reuse.words import Kind, Word
from planner.reuse.facts import ONE, SOME, PromptFacts, Relation, Thing

_HOLDING: Final = frozenset({"with", "hold"})
_CONTAINING: Final = frozenset({"in", "on", "at", "from", "through", "across", "along", "of", "down", "up", "made"})


@dataclass
class _Node:
    """A thing while the sentence is read."""

    phrase: NounPhrase
    colours: set[str]
    sizes: set[str]
    traits: set[str]
    lacks: set[str]
    place: set[str] = field(default_factory=set)
    subject: int | None = None  # of the relation that it is the object of
    by: str = ""  # that relation
    is_gone: bool = False  # it became a part of the background

    def thing(self) -> Thing:
        return Thing(
            noun=self.phrase.noun,
            count=self.phrase.count,
            colours=frozenset(self.colours),
            sizes=frozenset(self.sizes),
            traits=frozenset(self.traits),
            lacks=frozenset(self.lacks),
            place=frozenset(self.place),
        )


@dataclass
class _Setting:
    """A place that may be of the whole scene."""

    node: int
    name: str  # of the relation that it else is the object of
    subjects: tuple[int, ...]  # empty: at the beginning
    relations: int  # that there were before it


class Relater:
    """Relates the phrases of one prompt."""

    def __init__(self, elements: Sequence[Element], doubts: Iterable[str] = ()) -> None:
        self.doubts = set(doubts)
        self.background = set[str]()
        self.absent = set[str]()
        self.praise = set[str]()
        self._elements = _with_lists(list(elements))
        self._nodes: list[_Node] = []
        self._relations: list[Relation] = []
        self._settings: list[_Setting] = []
        self._front: list[tuple[str, int]] = []  # relations at the beginning, whose subject comes later
        self._front_places: list[str] = []
        self._front_traits: list[str] = []
        self._roots: list[int] = []
        self._group: list[int] = []  # joined by "and" with the last root
        self._last: int | None = None
        self._pending: tuple[tuple[int, ...], str, bool] | None = None  # subjects, relation, whether it is negated
        self._passive: tuple[int, ...] = ()  # to whom something is done, until it is known by whom
        self._passive_name = ""
        self._acted: tuple[int, ...] = ()  # who the last action or relation of the clause is of
        self._was_negated = False  # the last phrase was
        self._is_clause_start = True
        self._of_all = False  # what follows is of all roots

    def facts(self, words: str, core: str, texts: Sequence[str], styles: Iterable[str]) -> PromptFacts:
        """Return what the prompt states."""
        for at, element in enumerate(self._elements):
            self._take(at, element)
        if self._pending or self._passive:
            self.doubts.add("unfinished")
        self._settle()
        kept = [at for at, node in enumerate(self._nodes) if not node.is_gone]
        index = {at: n for n, at in enumerate(kept)}
        if not kept and not self.background:
            self.doubts.add("nothing")
        nouns = [self._nodes[at].phrase.noun for at in kept]
        return PromptFacts(
            language="words",
            words=words,
            things=tuple(self._nodes[at].thing() for at in kept),
            relations=tuple(_turned(self._relations, index, nouns)),
            absent=frozenset(self.absent),
            background=frozenset(self.background),
            texts=tuple(texts),
            styles=frozenset(styles) | self.praise,
            core=core,
            doubts=frozenset(self.doubts),
        )

    def _take(self, at: int, element: Element) -> None:
        if isinstance(element, NounPhrase):
            self._take_phrase(at, element)
        elif isinstance(element, Described):
            self._describe(element)
        elif isinstance(element, Action):
            self._act(at, element)
        elif isinstance(element, All):
            self._of_all = True
            return
        else:
            self._link(at, element)
        self._of_all = False
        if isinstance(element, Link) and element.kind is Kind.AND and self._is_clause_start:
            return  # ", and without"
        self._is_clause_start = isinstance(element, Link) and element.kind is Kind.COMMA

    # --- what stands between things

    def _link(self, at: int, link: Link) -> None:
        if link.kind is Kind.PLACE:
            if self._last is None or self._place_is_of_next(at):
                self._front_places.append(link.name)
            else:
                self._nodes[self._owner(self._last)].place.add(link.name)
        elif link.kind is Kind.POSSESSIVE:
            self._pending = ((), "of", False)
        elif link.kind is Kind.PREPOSITION:
            self._prepose(at, link)
        elif link.kind is Kind.COMMA:
            if self._pending:
                self.doubts.add("unfinished")
            self._pending, self._group, self._acted = None, [], ()
        elif self._was_negated and link.kind is Kind.AND:
            following = self._following(at)
            if isinstance(following, NounPhrase) and not following.has_determiner and not following.is_negated:
                self.doubts.add("scope")

    def _turn_round(self, name: str) -> bool:
        """Read "a cake with a cherry on top" as a cherry on top of a cake."""
        if self._last is None or name not in lexicon.SPATIAL:
            return False
        node = self._nodes[self._last]
        if node.by != "with" or node.subject is None or node.phrase.noun in lexicon.WORN:
            return False
        owner, node.subject, node.by = node.subject, None, ""
        self._relations.remove(Relation(owner, "with", self._last))
        self._relations.append(Relation(self._last, name, owner))
        return True

    def _than(self, node: _Node) -> str:
        """Return the comparison whose word stands before "than"."""
        found = sorted(node.traits & lexicon.COMPARISONS)
        if len(found) != 1:
            return "than"
        node.traits.discard(found[0])
        return f"{found[0]} than"

    def _is_after_and(self, at: int) -> bool:
        """Whether what follows joins another of the same subject: "wearing a hat and holding a cane"."""
        before = self._elements[at - 1] if at else None
        return isinstance(before, Link) and before.kind is Kind.AND

    def _place_is_of_next(self, at: int) -> bool:
        """Whether a place begins a clause, and a thing follows: "on the left a cat"."""
        before = self._elements[at - 1] if at else None
        begins = before is None or (isinstance(before, Link) and before.kind in (Kind.COMMA, Kind.AND))
        return begins and isinstance(self._following(at), NounPhrase)

    def _following(self, at: int) -> Element | None:
        return self._elements[at + 1] if at + 1 < len(self._elements) else None

    def _prepose(self, at: int, link: Link) -> None:
        name = f"not {link.name}" if link.is_negated else link.name
        following = self._following(at)
        if name == "by" and self._passive and isinstance(following, NounPhrase):
            return  # `_passive` is waiting for who does it
        if name.startswith("which ") and self._last is not None and isinstance(following, NounPhrase):
            self._passive, self._passive_name = (self._last,), name.removeprefix("which ")
            return
        if name == "by":
            name = "near"
        if isinstance(following, Link) and following.kind is Kind.PREPOSITION and not link.is_negated:
            self._elements[at + 1] = Link(Kind.PREPOSITION, f"{name} {following.name}", following.is_negated)
            return  # "up on"
        if not isinstance(following, NounPhrase | Described):
            if isinstance(following, Action):
                self.doubts.add("unfinished")
            if not self._turn_round(name):
                self._note(name)
            return
        if name == "than" and self._last is not None:
            name = self._than(self._nodes[self._last])
        is_hand = isinstance(following, NounPhrase) and following.is_owned and following.noun in ("hand", "arm")
        if name == "in" and isinstance(following, NounPhrase) and following.noun in lexicon.WORN and not is_hand:
            name = "with"
        is_back = isinstance(following, NounPhrase) and following.noun in lexicon.PRONOUNS
        subjects = (self._last,) if is_back and self._last is not None else self._subjects(name)
        if self._is_after_and(at) and self._acted:
            subjects = self._acted
        self._acted = subjects
        self._pending = (subjects, name.removesuffix("without") or "without", name == "without")

    def _subjects(self, name: str) -> tuple[int, ...]:
        """The subjects of a relation; none yet at the beginning of a prompt."""
        if self._last is None:
            return ()
        if self._of_all:
            return tuple(self._roots)
        if self._is_clause_start and self._roots:
            return () if name == "without" else (self._roots[0],)
        last = self._owner(self._last) if name in lexicon.SPATIAL or name == "without" else self._last
        if name in lexicon.SPATIAL or name == "without":
            return self._all_of_group(last)
        return (last,)

    def _all_of_group(self, last: int) -> tuple[int, ...]:
        others = [at for at in self._group if at != last]
        if last in self._group and others and not any(self._has_own(at) for at in others):
            return tuple(self._group)
        return (last,)

    def _has_own(self, at: int) -> bool:
        node = self._nodes[at]
        return bool(node.lacks or node.place) or any(relation.subject == at for relation in self._relations)

    def _owner(self, at: int) -> int:
        """The wearer of a thing that is worn, or what the thing is a part of."""
        node = self._nodes[at]
        while node.subject is not None and (
            node.by == "of" or (node.by == "with" and node.phrase.noun in lexicon.WORN)
        ):
            at, node = node.subject, self._nodes[node.subject]
        return at

    def _actor(self, at: int) -> int:
        """The actor of the action that follows: nothing that is worn, stands still or is a place acts."""
        at = self._owner(at)
        node = self._nodes[at]
        while node.subject is not None and (
            node.by in _CONTAINING or node.phrase.noun in lexicon.STILL or node.phrase.noun in lexicon.SETTINGS
        ):
            at = self._owner(node.subject)
            node = self._nodes[at]
        return at

    def _act(self, at: int, action: Action) -> None:
        name = f"not {action.name}" if action.is_negated else action.name
        following = self._following(at)
        if not self._roots or self._last is None:  # "holding a sword, a knight", "on a table sits a cat"
            is_inverted = bool(self._front or self._settings)
            if isinstance(following, NounPhrase) and not is_inverted:
                self._pending = ((), name, False)
            else:
                self._front_traits.append(name)
            return
        subject = self._roots[0] if self._is_clause_start else self._actor(self._last)
        subjects = tuple(self._roots) if self._of_all else self._all_of_group(subject)
        if self._is_after_and(at) and self._acted:
            subjects = self._acted
        self._acted = subjects
        is_by = (
            isinstance(following, Link) and following.name == "by" and isinstance(self._following(at + 1), NounPhrase)
        )
        if action.is_passive and is_by:
            self._passive, self._passive_name = subjects, name
            return
        if isinstance(following, NounPhrase):
            self._pending = (subjects, name, False)
            return
        for each in subjects:
            self._nodes[each].traits.add(name)
        self._last = subject

    def _describe(self, described: Described) -> None:
        names = {f"not {word.name}" if described.is_negated else word.name: word for word in described.words}
        if self._pending is not None:  # "a woman in red"
            subjects, name, is_negated = self._pending
            self._pending = None
            phrase = NounPhrase(noun=" ".join(sorted(names)))
            if is_negated:
                self._lack(subjects, phrase)
            else:
                self._object(subjects, name, phrase)
            return
        if self._last is None:
            self.background |= names.keys()
            return
        described_ones = (
            self._roots if self._of_all else [self._roots[-1] if self._is_clause_start and self._roots else self._last]
        )
        for at in described_ones:
            self._describe_one(self._nodes[at], described, names)

    def _describe_one(self, node: _Node, described: Described, names: Mapping[str, Word]) -> None:
        for name, word in names.items():
            if word.kind is Kind.NUMBER:
                if node.phrase.count not in (SOME, word.name):
                    self.doubts.add("number")
                node.phrase = replace(node.phrase, count=word.name)
            elif word.raw in lexicon.COLOURS or word.name in lexicon.COLOURS:
                node.colours.add(name)
            elif word.raw in lexicon.SIZES:
                node.sizes.add(name)
            elif word.raw in lexicon.PRAISE and not described.is_negated:
                self.praise.add(word.raw)
            elif word.raw.endswith("less") and word.raw not in lexicon.LESS and not described.is_negated:
                node.lacks.add(inflection.noun(word.raw.removesuffix("less")))
            else:
                node.traits.add(name)

    def _note(self, name: str) -> None:
        """Keep a word whose object is missing: "a man looking up"."""
        if self._last is None:
            self.background.add(name)
        else:
            self._nodes[self._actor(self._last)].traits.add(name)

    # --- things

    def _take_phrase(self, at: int, phrase: NounPhrase) -> None:
        self.praise |= phrase.praise
        phrase = self._without_times(phrase)
        known = self._known(phrase)
        if known is not None and not self._passive and self._relate_known(at, phrase, known):
            return
        if self._passive:
            self._take_agent(phrase)
            return
        if self._pending is not None:
            subjects, name, is_negated = self._pending
            self._pending = None
            self._take_object(subjects, name, phrase, is_negated=is_negated)
            return
        before = self._elements[at - 1] if at else None
        is_joined = isinstance(before, Link) and before.kind in (Kind.AND, Kind.OR)
        if phrase.is_negated or (self._was_negated and isinstance(before, Link) and before.kind is Kind.OR):
            self.absent.add(phrase.described())
            self._was_negated = True
            return
        if isinstance(before, Link) and before.kind is Kind.OR:
            phrase = replace(phrase, traits=phrase.traits | {"or"})
        if is_joined and self._last is not None and self._is_second_object(at):
            subjects = tuple(each.subject for each in self._relations if each.object == self._last)
            self._object(subjects, self._nodes[self._last].by, phrase)
            return
        if phrase.noun in lexicon.TIMES and not phrase.has_determiner and self._is_alone(at):
            self.background.add(phrase.described())
            return
        if phrase.noun == "background" and self._is_alone(at) and self._roots:
            self.background.add(phrase.described())
            return
        if phrase.is_owned and self._roots:
            self._object((self._top(),), "with", phrase)
            return
        self._new_root(phrase, joins=is_joined)

    def _take_agent(self, phrase: NounPhrase) -> None:
        """Read who does what a passive verb says: "a ball kicked by a boy"."""
        subjects, self._passive = self._passive, ()
        node = self._add(phrase)
        for each in subjects:
            self._relations.append(Relation(node, self._passive_name, each))
        self._last, self._was_negated = node, phrase.is_negated
        if phrase.is_negated:
            self.doubts.add("negation")

    def _take_object(self, subjects: tuple[int, ...], name: str, phrase: NounPhrase, *, is_negated: bool) -> None:
        """Read what a verb or preposition of these subjects leads to: "a boy holding a ball"."""
        if name == "of" and not subjects and self._last is not None:  # "a woman's hat"
            owner, self._last = self._last, None
            self._roots = [each for each in self._roots if each != owner]
            self._group = [each for each in self._group if each != owner]
            node = (
                self._new_root(phrase, joins=False)
                if self._nodes[owner].subject is None
                else self._inherit(owner, phrase)
            )
            self._relate((node,), "of", owner)
            self._last = node
            return
        if name == "in" and phrase.noun in ("hand", "arm") and phrase.is_owned and self._are_in_hand(subjects):
            return
        if is_negated and phrase.is_negated:
            self.doubts.add("negation")
        if is_negated or phrase.is_negated:
            if name != "without" and name != "with" and not is_negated:
                phrase = replace(phrase, noun=f"{name} {phrase.noun}")
            self._lack(subjects, phrase)
            return
        self._place(subjects, name, phrase)

    def _without_times(self, phrase: NounPhrase) -> NounPhrase:
        """Read "a snowy forest", "a night street" as when the place is shown."""
        if phrase.is_negated or phrase.noun not in lexicon.SETTINGS - lexicon.TIMES:
            return phrase
        times = {each: lexicon.TIME_ADJECTIVES.get(each, each) for each in phrase.traits}
        found = {each for each, time in times.items() if time in lexicon.TIMES}
        self.background |= {times[each] for each in found}
        return replace(phrase, traits=phrase.traits - found)

    def _is_alone(self, at: int) -> bool:
        """Whether a phrase is all of its clause."""
        around = (self._elements[at - 1] if at else None, self._following(at))
        return all(each is None or (isinstance(each, Link) and each.kind is Kind.COMMA) for each in around)

    def _known(self, phrase: NounPhrase) -> int | None:
        """Return the thing that a pronoun, or "the cat" after "a cat", means."""
        if phrase.noun in lexicon.PRONOUNS and not phrase.is_negated:
            return self._top() if self._roots else None
        if not phrase.refers or phrase.is_negated:
            return None
        same = [at for at, node in enumerate(self._nodes) if node.phrase.noun == phrase.noun]
        if len(same) != 1:
            return None
        node = self._nodes[same[0]]
        is_less = phrase.colours <= node.colours and phrase.sizes <= node.sizes and phrase.traits <= node.traits
        return same[0] if is_less and not (phrase.parts or phrase.lacks) else None

    def _top(self) -> int:
        """Return the root that the last thing belongs to."""
        at = self._last if self._last is not None else self._roots[-1]
        seen = {at}
        while (subject := self._nodes[at].subject) is not None and subject not in seen:
            at = subject
            seen.add(at)
        return at

    def _relate_known(self, at: int, phrase: NounPhrase, known: int) -> bool:
        """Relate a thing that is known already; False where no relation to it can begin."""
        if self._pending is not None:
            subjects, name, is_negated = self._pending
            if is_negated or known in subjects or not subjects:
                return False
            self._pending = None
            for subject in subjects:
                if (
                    self._nodes[subject].by == "with" and self._nodes[subject].subject == known
                ):  # "a box with a cat on it"
                    self._relations.remove(Relation(known, "with", subject))
                    self._nodes[subject].subject, self._nodes[subject].by = None, ""
                self._relations.append(Relation(subject, name, known))
            self._last, self._was_negated = (subjects[-1] if phrase.noun in lexicon.PRONOUNS else known), False
            return True
        before = self._elements[at - 1] if at else None
        if isinstance(before, NounPhrase):
            return False
        self._last, self._was_negated = known, False
        self._is_clause_start = False
        return True

    def _are_in_hand(self, things: tuple[int, ...]) -> bool:
        """Whether things are in their owner's hand ("with a sword in his hand"); if so, the relation becomes "hold"."""
        if not all(self._nodes[each].by in _HOLDING for each in things):
            return False
        for at in things:
            self._nodes[at].by = "hold"
            self._relations = [
                each._replace(name="hold") if each.object == at and each.name in _HOLDING else each
                for each in self._relations
            ]
        return bool(things)

    def _is_second_object(self, at: int) -> bool:
        """Whether what follows "and" belongs where the thing before it does: "with a hat and a scarf"."""
        assert self._last is not None
        node = self._nodes[self._last]
        if node.subject is None or not (node.by in lexicon.BOTH_OBJECTS or node.by not in lexicon.SPATIAL):
            return False
        if node.by == "between":
            return True
        element, following = self._elements[at], self._following(at)
        if isinstance(following, Action) and isinstance(element, NounPhrase):
            return element.noun in lexicon.WORN or element.noun in lexicon.STILL
        return following is None or (isinstance(following, Link) and following.kind in (Kind.AND, Kind.COMMA))

    def _new_root(self, phrase: NounPhrase, *, joins: bool) -> int:
        node = self._add(phrase)
        self._roots.append(node)
        self._group = [*self._group, node] if joins else [node]
        self._nodes[node].place.update(self._front_places)
        self._nodes[node].traits.update(self._front_traits)
        self._front_places, self._front_traits = [], []
        for name, other in self._front:
            if not any(setting.node == other for setting in self._settings):
                self._relate((node,), name, other)
        for setting in self._settings:
            if not setting.subjects:
                setting.subjects = (node,)
        self._front = []
        self._last, self._was_negated, self._acted = node, False, ()
        return node

    def _inherit(self, owner: int, phrase: NounPhrase) -> int:
        """Put a thing in the place of its owner: "with a woman's hat" is with the hat."""
        node = self._add(phrase)
        self._nodes[node].subject, self._nodes[node].by = self._nodes[owner].subject, self._nodes[owner].by
        self._relations = [
            each._replace(object=node) if each.object == owner and each.name == self._nodes[owner].by else each
            for each in self._relations
        ]
        self._nodes[owner].subject, self._nodes[owner].by = None, ""
        return node

    def _place(self, subjects: tuple[int, ...], name: str, phrase: NounPhrase) -> None:
        """Relate a new thing to those before it, or take it for a part of the background."""
        if name in lexicon.SETTING_PREPOSITIONS or (name == "below" and phrase.noun in ("sky", "moonlight")):
            if phrase.noun in lexicon.TIMES:
                self.background.add(phrase.described())
                self._was_negated = False
                return
            is_behind = phrase.noun == "background" or name in ("against",)
            if (name == "with" and phrase.noun == "background") or (
                name != "with" and (phrase.noun in lexicon.SETTINGS or is_behind)
            ):
                node = self._add(phrase)
                self._nodes[node].by = name
                first = subjects[0] if subjects else None
                self._nodes[node].subject = first
                self._settings.append(_Setting(node, name, subjects, len(self._relations)))
                if not subjects:
                    self._front.append((name, node))
                self._last, self._was_negated = node, False
                return
        if not subjects:
            node = self._add(phrase)
            self._front.append((name, node))
            self._last, self._was_negated = node, False
            return
        self._object(subjects, name, phrase)

    def _object(self, subjects: tuple[int, ...], name: str, phrase: NounPhrase) -> None:
        is_bare = phrase.count == ONE and not (phrase.has_determiner or phrase.colours or phrase.traits or phrase.parts)
        is_made = name == "made" or (
            name == "of" and all(self._nodes[each].phrase.noun not in lexicon.MEASURES for each in subjects)
        )
        if is_made and is_bare and subjects and phrase.noun in lexicon.MATERIALS:
            for each in subjects:
                self._consist(each, lexicon.MATERIALS[phrase.noun])
            return
        if name == "of" and subjects and self._is_kind_of(subjects, phrase):
            for each in subjects:
                self._nodes[each].traits.add(phrase.noun)
            return
        node = self._add(phrase)
        if not subjects:
            self._front.append((name, node))
        self._relate(subjects, name, node)
        self._last, self._was_negated = node, False

    def _is_kind_of(self, subjects: Iterable[int], phrase: NounPhrase) -> bool:
        """Whether "of" says what a noun before it would: a bouquet of roses is a rose bouquet, not so a cup of tea."""
        is_bare = phrase.count in (ONE, SOME) and not (
            phrase.has_determiner or phrase.colours or phrase.sizes or phrase.traits or phrase.parts or phrase.lacks
        )
        holding = lexicon.CONTAINERS | {"glass"}
        return is_bare and not any(self._nodes[each].phrase.noun in holding for each in subjects)

    def _consist(self, at: int, material: str) -> None:
        """Say what a thing is made of, as an adjective does: gold as its colour."""
        node = self._nodes[at]
        if material in lexicon.COLOURS:
            node.colours.add(lexicon.COLOURS[material])
        else:
            node.traits.add(material)

    def _relate(self, subjects: Iterable[int], name: str, target: int) -> None:
        for subject in subjects:
            self._relations.append(Relation(subject, name, target))
            self._nodes[target].subject, self._nodes[target].by = subject, name

    def _lack(self, subjects: tuple[int, ...], phrase: NounPhrase) -> None:
        self._was_negated = True
        if not subjects or len(subjects) > 1:
            self.absent.add(phrase.described())
            return
        self._nodes[subjects[0]].lacks.add(phrase.described())

    def _add(self, phrase: NounPhrase) -> int:
        self._nodes.append(_Node(phrase, set(phrase.colours), set(phrase.sizes), set(phrase.traits), set(phrase.lacks)))
        at = len(self._nodes) - 1
        for part in phrase.parts:
            self._relate((at,), "with", self._add(part))
        return at

    # --- at the end

    def _settle(self) -> None:
        """Decide which places are of the whole scene, and where a thing is said to be missing."""
        last = len(self._nodes) - 1
        trailing = {s.node for s in self._settings if self._is_trailing(s, last)}
        has_middle = any(s.subjects and s.node not in trailing and not self._is_harmless(s) for s in self._settings)
        fronted = {s.node for s in self._settings if not s.subjects or self._nodes[s.node].subject is None}
        for setting in self._settings:
            node = self._nodes[setting.node]
            is_bare = not any(setting.node in (each.subject, each.object) for each in self._relations)
            is_scene = setting.node in fronted or (
                not has_middle and (setting.node in trailing or self._is_harmless(setting))
            )
            if is_bare and not node.place and (is_scene or not setting.subjects):
                node.is_gone = True
                in_water = "in " if node.phrase.noun in lexicon.WATER and setting.name == "in" else ""
                named = replace(
                    node.phrase,
                    colours=frozenset(node.colours),
                    sizes=frozenset(node.sizes),
                    traits=frozenset(node.traits),
                    lacks=frozenset(node.lacks),
                )
                self.background.add(in_water + named.described())
            else:
                self._relate(setting.subjects, setting.name, setting.node)
        if self._front_traits or self._front_places:
            self.doubts.add("order")
            self.background |= {*self._front_traits, *self._front_places}
        for name, node_at in self._front:
            if not self._nodes[node_at].is_gone and not any(node_at == each.object for each in self._relations):
                self.background.add(name)
        self._merge()
        roots = [at for at, node in enumerate(self._nodes) if not node.is_gone and node.subject is None]
        if len(roots) == 1:
            self.absent |= self._nodes[roots[0]].lacks
            self._nodes[roots[0]].lacks.clear()

    def _merge(self) -> None:
        """Count equal things together: "a bolt and a bolt" are two bolts."""
        seen = dict[Thing, int]()
        for at, node in enumerate(self._nodes):
            is_lone = not any(at in (each.subject, each.object) for each in self._relations)
            if node.is_gone or not is_lone or not node.phrase.count.isdigit():
                continue
            plain = replace(node.thing(), count=ONE)
            if (first := seen.setdefault(plain, at)) != at:
                total = int(self._nodes[first].phrase.count) + int(node.phrase.count)
                self._nodes[first].phrase = replace(self._nodes[first].phrase, count=str(total))
                node.is_gone = True

    def _is_trailing(self, setting: _Setting, last: int) -> bool:
        """Whether only places of the scene come after it."""
        places = {each.node for each in self._settings}
        return all(at in places for at in range(setting.node, last + 1)) and len(self._relations) == setting.relations

    def _is_harmless(self, setting: _Setting) -> bool:
        """Whether all that follows belongs to the one thing that is there: "a girl in a forest wearing a hat"."""
        if len(self._roots) != 1 or setting.subjects != (self._roots[0],):
            return False
        later = self._relations[setting.relations :]
        return all(each.subject == self._roots[0] and each.name in _HOLDING for each in later)


def _with_lists(elements: list[Element]) -> list[Element]:
    """Read the commas of "a cat, a dog and a bird" as "and"."""
    out = list(elements)
    for at, element in enumerate(elements):
        if not (isinstance(element, Link) and element.kind is Kind.COMMA):
            continue
        ahead = at + 1
        while (
            ahead + 1 < len(elements)
            and isinstance(elements[ahead], NounPhrase)
            and isinstance(link := elements[ahead + 1], Link)
            and link.kind is Kind.COMMA
        ):
            ahead += 2
        after, then = (elements[k] if k < len(elements) else None for k in (ahead, ahead + 1))
        if isinstance(after, Link) and after.kind is Kind.AND and isinstance(then, NounPhrase):
            if ahead > at + 1 or _ends_list(out, at):  # ", and" after two others
                out[at] = Link(Kind.AND, "and")
        elif isinstance(after, NounPhrase) and isinstance(then, Link) and then.kind is Kind.AND:
            out[at] = Link(Kind.AND, "and")
    return [
        element
        for at, element in enumerate(out)
        if not (
            isinstance(element, Link)
            and element.kind is Kind.AND
            and at
            and isinstance(before := out[at - 1], Link)
            and before.kind in (Kind.AND, Kind.COMMA)
        )
    ]


def _ends_list(elements: Sequence[Element], at: int) -> bool:
    """Whether the phrase before a comma was joined to others by commas read as "and"."""
    before = elements[at - 2] if at > 1 else None
    return isinstance(elements[at - 1], NounPhrase) and isinstance(before, Link) and before.kind is Kind.AND


def _turned(relations: Iterable[Relation], index: Mapping[int, int], nouns: Sequence[str]) -> Iterable[Relation]:
    """Give each relation its one direction."""
    for subject, name, target in relations:
        if subject not in index or target not in index:
            continue
        one, other = index[subject], index[target]
        if name in lexicon.INVERSES:
            one, name, other = other, lexicon.INVERSES[name], one
        if name == "in" and nouns[other] in lexicon.CONTAINERS:
            yield Relation(other, "with", one)
        elif name in lexicon.SYMMETRIC:
            yield Relation(one, name, other)
            yield Relation(other, name, one)
        else:
            yield Relation(one, name, other)
