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
from agents.reuse.phrases import Action, Described, Element, Link, NounPhrase
from agents.reuse.words import Kind
from planner.reuse.facts import ONE, SOME, PromptFacts, Relation, Thing

_CARRIED: Final = frozenset({"with", "hold"})


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
        self._front: list[tuple[str, int, bool]] = []  # relations at the beginning, whose subject comes later
        self._front_places: list[str] = []
        self._roots: list[int] = []
        self._group: list[int] = []  # joined by "and" with the last root
        self._last: int | None = None
        self._pending: tuple[tuple[int, ...], str, bool] | None = None  # subjects, relation, whether it is negated
        self._passive: tuple[int, ...] = ()  # to whom something is done, until it is known by whom
        self._passive_name = ""
        self._was_negated = False  # the last phrase was
        self._is_clause_start = True

    def facts(self, words: str, texts: Sequence[str], styles: Iterable[str]) -> PromptFacts:
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
            doubts=frozenset(self.doubts),
        )

    def _take(self, at: int, element: Element) -> None:
        if isinstance(element, NounPhrase):
            self._take_phrase(at, element)
        elif isinstance(element, Described):
            self._describe(element)
        elif isinstance(element, Action):
            self._act(at, element)
        else:
            self._link(at, element)
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
            self._pending = None
        elif self._was_negated and link.kind is Kind.AND:
            following = self._following(at)
            if isinstance(following, NounPhrase) and not following.has_determiner and not following.is_negated:
                self.doubts.add("scope")

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
        if name == "by":
            name = "near"
        if isinstance(following, Link) and following.kind is Kind.PREPOSITION and not link.is_negated:
            self._elements[at + 1] = Link(Kind.PREPOSITION, f"{name} {following.name}", following.is_negated)
            return  # "up on"
        if not isinstance(following, NounPhrase | Described):
            if isinstance(following, Action):
                self.doubts.add("unfinished")
            self._note(name)
            return
        if name == "in" and isinstance(following, NounPhrase) and following.noun in lexicon.WORN:
            name = "with"
        self._pending = (self._subjects(name), name.removesuffix("without") or "without", name == "without")

    def _subjects(self, name: str) -> tuple[int, ...]:
        """Who a relation is of; nobody yet at the beginning of a prompt."""
        if self._last is None:
            return ()
        if self._is_clause_start and self._roots:
            return (self._roots[0],)
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
        """Who wears it, if it is worn; what it is a part of."""
        node = self._nodes[at]
        while node.subject is not None and (
            node.by == "of" or (node.by == "with" and node.phrase.noun in lexicon.WORN)
        ):
            at, node = node.subject, self._nodes[node.subject]
        return at

    def _actor(self, at: int) -> int:
        """Who does what follows: what is worn, stands still or is a place does nothing."""
        at = self._owner(at)
        node = self._nodes[at]
        while node.subject is not None and (node.phrase.noun in lexicon.STILL or node.phrase.noun in lexicon.SETTINGS):
            at = self._owner(node.subject)
            node = self._nodes[at]
        return at

    def _act(self, at: int, action: Action) -> None:
        name = f"not {action.name}" if action.is_negated else action.name
        following = self._following(at)
        if self._last is None:
            self.doubts.add("order")
            self.background.add(name)
            if isinstance(following, NounPhrase):
                self._pending = ((), name, False)
            return
        subject = self._roots[0] if self._is_clause_start and self._roots else self._actor(self._last)
        subjects = self._all_of_group(subject)
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
        at = self._roots[0] if self._is_clause_start and self._roots else self._last
        node = self._nodes[at]
        for name, word in names.items():
            if word.raw in lexicon.COLOURS:
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
        if self._passive:
            subjects, self._passive = self._passive, ()
            node = self._add(phrase)
            for each in subjects:
                self._relations.append(Relation(node, self._passive_name, each))
            self._last, self._was_negated = node, phrase.is_negated
            if phrase.is_negated:
                self.doubts.add("negation")
            return
        if self._pending is not None:
            subjects, name, is_negated = self._pending
            self._pending = None
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
            if is_negated and phrase.is_negated:
                self.doubts.add("negation")
            if is_negated or phrase.is_negated:
                if name != "without" and name != "with" and not is_negated:
                    phrase = replace(phrase, noun=f"{name} {phrase.noun}")
                self._lack(subjects, phrase)
                return
            self._place(subjects, name, phrase)
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
        if phrase.noun in lexicon.TIMES and not is_joined and not phrase.has_determiner and self._roots:
            self.background.add(phrase.described())
            return
        self._new_root(phrase, joins=is_joined)

    def _is_second_object(self, at: int) -> bool:
        """Whether what follows "and" belongs where the thing before it does: "with a hat and a scarf"."""
        assert self._last is not None
        node = self._nodes[self._last]
        if node.subject is None or not (node.by in lexicon.BOTH_OBJECTS or node.by not in lexicon.SPATIAL):
            return False
        if node.by == "between":
            return True
        following = self._following(at)
        return following is None or (isinstance(following, Link) and following.kind in (Kind.AND, Kind.COMMA))

    def _new_root(self, phrase: NounPhrase, *, joins: bool) -> int:
        node = self._add(phrase)
        self._roots.append(node)
        self._group = [*self._group, node] if joins else [node]
        self._nodes[node].place.update(self._front_places)
        self._front_places = []
        for name, other, is_negated in self._front:
            if is_negated:
                self.doubts.add("order")
            if not any(setting.node == other for setting in self._settings):
                self._relate((node,), name, other)
        self._front = [entry for entry in self._front if any(s.node == entry[1] for s in self._settings)]
        for setting in self._settings:
            if not setting.subjects:
                setting.subjects = (node,)
        self._front = []
        self._last, self._was_negated = node, False
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
        if name in lexicon.SETTING_PREPOSITIONS or (name == "below" and phrase.noun in ("sky", "moonlight", "moon")):
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
                    self._front.append((name, node, False))
                self._last, self._was_negated = node, False
                return
        if not subjects:
            node = self._add(phrase)
            self._front.append((name, node, False))
            self._last, self._was_negated = node, False
            return
        self._object(subjects, name, phrase)

    def _object(self, subjects: tuple[int, ...], name: str, phrase: NounPhrase) -> None:
        node = self._add(phrase)
        if not subjects:
            self._front.append((name, node, False))
        self._relate(subjects, name, node)
        self._last, self._was_negated = node, False

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
        node = _Node(phrase, set(phrase.colours), set(phrase.sizes), set(), set(phrase.lacks))
        self._nodes.append(node)
        at = len(self._nodes) - 1
        for trait in phrase.traits:
            owner, _, part = trait.rpartition("-")
            if part in lexicon.HAS_PARTS and owner:
                self._add_part(at, owner, lexicon.HAS_PARTS[part])
            else:
                node.traits.add(trait)
        return at

    def _add_part(self, at: int, owner: str, part: str) -> None:
        """Read "blue-eyed" as "with blue eyes"."""
        count = lexicon.NUMBERS.get(owner, ONE if part in ("hair", "tail") else SOME)
        colours = frozenset({lexicon.COLOURS[owner]} if owner in lexicon.COLOURS else ())
        sizes = frozenset({lexicon.SIZES[owner]} if owner in lexicon.SIZES else ())
        traits = frozenset() if colours or sizes or owner in lexicon.NUMBERS else frozenset({owner})
        phrase = NounPhrase(noun=part, count=count, colours=colours, sizes=sizes, traits=traits)
        self._relate((at,), "with", self._add(phrase))

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
        for name, node_at, _ in self._front:
            if not self._nodes[node_at].is_gone and not any(node_at == each.object for each in self._relations):
                self.background.add(name)
        roots = [at for at, node in enumerate(self._nodes) if not node.is_gone and node.subject is None]
        if len(roots) == 1:
            self.absent |= self._nodes[roots[0]].lacks
            self._nodes[roots[0]].lacks.clear()

    def _is_trailing(self, setting: _Setting, last: int) -> bool:
        """Whether only places of the scene come after it."""
        places = {each.node for each in self._settings}
        return all(at in places for at in range(setting.node, last + 1)) and len(self._relations) == setting.relations

    def _is_harmless(self, setting: _Setting) -> bool:
        """Whether all that follows belongs to the one thing that is there: "a girl in a forest wearing a hat"."""
        if len(self._roots) != 1 or setting.subjects != (self._roots[0],):
            return False
        later = self._relations[setting.relations :]
        return all(each.subject == self._roots[0] and each.name in _CARRIED for each in later)


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
            out[at] = Link(Kind.AND, "and")  # ", and"
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


def _turned(relations: Iterable[Relation], index: Mapping[int, int], nouns: Sequence[str]) -> Iterable[Relation]:
    """Give each relation its one direction."""
    for subject, name, target in relations:
        if subject not in index or target not in index:
            continue
        one, other = index[subject], index[target]
        if name in lexicon.INVERSES:
            yield Relation(other, lexicon.INVERSES[name], one)
        elif name == "in" and nouns[other] in lexicon.CONTAINERS:
            yield Relation(other, "with", one)
        elif name in lexicon.SYMMETRIC:
            yield Relation(one, name, other)
            yield Relation(other, name, one)
        else:
            yield Relation(one, name, other)
