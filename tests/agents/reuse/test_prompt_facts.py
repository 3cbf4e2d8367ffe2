"""Facts of prompts: what means one thing reads alike, what differs by a word does not, and no text is an error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.lab.world import free_form, scenes
from agents.lab.world.stream import STANDARD
from agents.reuse.prompt_facts import FactReader
from agents.reuse.tagger import PromptTagger, Tagged
from planner.reuse.facts import Relation, Thing
from planner.reuse.guard import Difference, GuardShares, Verdict, allowed_share

SAME = (
    ("a cat and a dog", "a dog and a cat"),
    ("two red cats on a table", "2 red cats on top of a table"),
    ("a man with a hat", "a man wearing a hat"),
    ("a red ball next to a blue cube", "a blue cube beside a red ball"),
    ("a dog running on the beach", "on the beach, a dog is running"),
    ("a cat left of a dog", "a dog to the right of a cat"),
    ("a horse ridden by a man", "a man riding a horse"),
    ("a hatless man", "a man without a hat"),
    ("a man with no hat", "a man without any hat"),
    ("an oil painting of a castle at night", "a castle at night, digital art, trending on artstation"),
    ("a ball that is red", "a red ball"),
    ("a blue-eyed girl", "a girl with blue eyes"),
    ("a pair of shoes", "two shoes"),
    ("a cloudless sky over a field", "a sky with no clouds over a field"),
    ("a cat on the left and a dog on the right", "a dog on the right and a cat on the left"),
    ("a woman in a red dress in a forest", "in a forest, a woman wearing a red dress"),
    ("a cat and a dog on a sofa", "a dog and a cat on a couch"),
    ("a car", "automobile"),
    ("a red heart and a blue star without any moons", "a red heart and a blue star and no moons"),
    ("two red hearts", "2 red hearts"),
    ("a tiny red star above a blue circle at night", "at night, a small crimson star above an azure ball, digital art"),
    ('a sign that says "open"', 'a sign saying "open"'),
    ("a table with a vase and two books", "a table with two books and a vase"),
    ("a portrait of a woman, red hair, green eyes", "a woman, green eyes, red hair, portrait"),
    ("a beautiful sunset over the ocean", "sunset over the sea"),
    ("a bird above a house", "a house below a bird"),
    ("three apples in a bowl", "a bowl with three apples"),
    ("a boy holding a balloon in the park", "a boy in the park holding a balloon"),
    ("A Cat Sitting On A Mat", "a cat sits on a mat"),
    ("a cat behind a tree", "a tree in front of a cat"),
    ("a castle on a hill, by greg rutkowski", "a castle on a hill"),
    ("a black and white cat", "a white and black cat"),
    ("a girl with long blonde hair", "a girl with blond long hair"),
    ("a woman's red hat on a table", "a red hat of a woman on a table"),
    ("four birds flying over the sea", "4 birds flying above the ocean"),
    ("a photo of a dog wearing sunglasses", "a dog wearing sunglasses, photograph, 4k"),
    ("a knight fighting a dragon", "a dragon being fought by a knight"),
    ("an old man with a long white beard", "an elderly man with a white long beard"),
    ("a cup of tea on a wooden table", "on a wooden table, a cup of tea"),
    ("a city street at night in the rain", "a city street in the rain at night"),
    ("a robot playing the piano", "a robot plays piano"),
    ("a green frog sitting on a lily pad", "a frog that is green sitting on a lily pad"),
    ("a beach with no people", "a beach without any people"),
    ("a lighthouse on a cliff, stormy sea, dramatic lighting", "a lighthouse on a cliff, stormy sea"),
    ("a red apple and a green pear on a plate", "a green pear and a red apple on a plate"),
    ("a big house with a red roof", "a large house that has a red roof"),
    ("two small green stars above a huge purple box", "2 tiny emerald stars over a giant violet box"),
    ("a red heart top left, a blue star bottom right", "a blue star bottom right, a red heart top left"),
    ("there are three cats in the garden", "three cats in the garden"),
    ("a white horse galloping across a meadow", "a white horse that is galloping across a meadow"),
    ("a couple of dogs playing in the snow", "two dogs playing in the snow"),
    ("a cozy cabin in the woods in winter", "in winter, a cozy cabin in the woods"),
    ("a bicycle leaning against a brick wall", "a bike leaning against a brick wall"),
    ("a girl with a red umbrella walking in the rain", "in the rain, a girl with a red umbrella walking"),
    ("a sketch of a sleeping cat", "a cat sleeping, pencil sketch"),
    ("an astronaut riding a horse on the moon", "on the moon, an astronaut rides a horse"),
    ("a teapot between two cups", "a teapot in between two cups"),
    ("a room without windows", "a windowless room"),
    ("a tall tree", "a tree that is tall"),
    ("a hat and a scarf, no gloves", "a scarf and a hat without gloves"),
    ("a blue cat under a red moon", "a red moon above a blue cat"),
    ("a huge yellow heart in the snow", "a giant golden heart in winter"),
    ("a red fish in the sky", "in the clouds, a crimson fish, masterpiece"),
    ("a table on which there is a vase", "a vase on a table"),
    ("a man wearing a hat and holding a cane", "a man holding a cane and wearing a hat"),
    ("a snowy forest", "a forest in the snow"),
    ("a rainy street with a red car", "a street with a red car in the rain"),
    ("this is a picture of a cat", "a cat"),
    ("a bouquet of roses in a vase", "a rose bouquet in a vase"),
    ("a crown with a ball above it", "a ball above a crown"),
    ("a man who is holding a sword in his hand", "a man with a sword in his hands"),
    ("a mountain covered in snow", "a mountain covered with snow"),
    ("a cat taller than a dog", "a dog shorter than a cat"),
    ("a moon and a tree, both blue", "a blue moon and a blue tree"),
    ("nobody on the beach, a red umbrella", "a red umbrella, no one on the beach"),
    ("a snowman", "A snowman!!!"),
    ("holding a sword, a knight", "a knight holding a sword"),
    ("on the table sits a cat", "a cat sits on the table"),
    ("a cake with a cherry on top", "a cherry on top of a cake"),
    ("twenty-one candles", "21 candles"),
    ("a police officer", "a cop"),
    ("an old horse near a creek", "an elderly steed beside a stream"),
    ("a five-year-old boy", "a 5 year old boy"),
    ("a two-headed dragon", "a dragon with two heads"),
    ("a hundred candles", "100 candles"),
    ("a group of three cats", "three cats"),
    ("a hat worn by a man", "a man wearing a hat"),
    ("a box containing a cat", "a cat in a box"),
    ("a red cat | a blue dog", "a red cat, a blue dog"),
    ("two dozen eggs", "24 eggs"),
    ("a three story house", "a 3-storey house"),
)
DIFFERENT = (
    ("a rose with a flower, botanical style", "a rose with a saucer, botanical style"),
    ("fantasy rose with flower vintage illustration style", "fantasy rose with saucer vintage illustration style"),
    ("the moon unscrewed by pirates hand", "the moon unscrewed by robots hand"),
    ("a ship attacked by pirates", "a ship attacked by robots"),
    ("a five-year-old boy", "a six-year-old boy"),
    ("a two-headed dragon", "a three-headed dragon"),
    ("a hat worn by a man", "a man worn by a hat"),
    ("a box containing a cat", "a cat containing a box"),
    ("a group of three cats", "a group of four cats"),
    ("(cat:1.3) and dog", "(cat:0.3) and dog"),
    ("on the table sits a cat", "on the cat sits a table"),
    ("a cake with a cherry on top", "a cherry with a cake on top"),
    ("twenty-one candles", "twenty-two candles"),
    ("holding a sword, a knight and a king", "a knight and a king holding a sword"),
    ("flying over a city, a dragon", "a dragon, a city flying over"),
    ("a cat 🐱", "a cat 🐶"),
    ("a cup of tea", "a teacup"),
    ("a table on which there is a vase", "a vase on which there is a table"),
    ("a girl wearing a hat and holding a cat", "a girl holding a cat and a hat"),
    ("a girl holding a cat and wearing a hat", "a girl holding a cat wearing a hat"),
    ("a cat taller than a dog", "a dog taller than a cat"),
    ("a man and a woman with a hat", "a man with a hat and a woman"),
    ("a woman seen from above", "a woman seen from below"),
    ("a black and white photo of a street", "a photo of a street"),
    ("a man with a beard and a woman", "a man and a bearded woman"),
    ("the cat is black, the dog is white", "the cat is white, the dog is black"),
    ("a cat and a dog, the cat is black", "a cat and a dog, the dog is black"),
    ("a box with a cat on it", "a cat with a box on it"),
    ("a box with a cat on it", "a box with a cat in it"),
    ("two cats, one black and one white", "two cats, one black and one grey"),
    (
        "a man holding a red balloon and a woman holding a blue balloon",
        "a man holding a blue balloon and a woman holding a red balloon",
    ),
    ("a forest in the rain", "a forest in the snow"),
    ("a snowy forest", "a rainy forest"),
    ("a red wooden chair", "a red metal chair"),
    ("three cats and two dogs", "two cats and three dogs"),
    ("a cat and a cat and a dog", "a cat and a dog and a dog"),
    ("a tower of glass", "a glass of tower"),
    ("a boy with a dog on a leash", "a dog with a boy on a leash"),
    ("a person on a horse in front of a castle", "a person on a horse behind a castle"),
    ("a half full glass", "a full glass"),
    ("a bed without a pillow but with a blanket", "a bed with a pillow but without a blanket"),
    ("a fully clothed man", "a half clothed man"),
    ("an unhappy clown", "a happy clown"),
    ("a car with its lights on", "a car with its lights off"),
    ("a man facing the camera", "a man facing away from the camera"),
    ("a raised left hand", "a raised right hand"),
    ("people walking towards the camera", "people walking away from the camera"),
    ("a bridge over a river", "a river over a bridge"),
    ("a door opening inward", "a door opening outward"),
    ("an untied shoe", "a tied shoe"),
    ("a man with his eyes closed", "a man with his eyes open"),
    ("a studio", "a street"),
    ("a woman in a studio", "a woman"),
    ("a 5 year old boy", "a 50 year old boy"),
    ("clock showing 3 o'clock", "clock showing 9 o'clock"),
    ("a cake for 10 people", "a cake for 2 people"),
    ("the number 7", "the number 8"),
    ("a map of france", "a map of italy"),
    ("a portrait of obama", "a portrait of trump"),
    ("a view of paris", "a view of london"),
    ("tom holding jerry", "jerry holding tom"),
    ("a red cube on top of a blue cube", "a blue cube on top of a red cube"),
    ("a teapot between two cups", "a cup between two teapots"),
    ("a cat with a red collar and a dog with a blue collar", "a cat with a blue collar and a dog with a red collar"),
    ("a man wearing a red shirt and blue pants", "a man wearing a blue shirt and red pants"),
    ("a photo of a cat", "a photo of a dog"),
    ("a kitchen with a window", "a kitchen without a window"),
    ("a smiling woman", "a woman not smiling"),
    ("a dog with a bone", "a dog with no bone"),
    ("four stars over a house", "five stars over a house"),
    ("a red heart above a blue star", "a blue star above a red heart"),
    ("two red hearts and a blue star", "a red heart and two blue stars"),
    ("a red heart and a blue star", "a blue heart and a red star"),
    ("a small red heart and a huge blue star", "a huge red heart and a small blue star"),
    ("a heart that is not red", "a heart that is red"),
    ("a heart that is not red", "a heart that is not blue"),
    ("a red heart without any stars", "a red heart without any moons"),
    ("a red heart without any stars", "a red heart and a star"),
    ("a red heart at night", "a red heart on the beach"),
    ("a bird inside a cage", "a bird outside a cage"),
    ("a full glass of water", "an empty glass of water"),
    ("a closed door", "an open door"),
    ("a cat in front of a box", "a cat behind a box"),
    ("a boy giving a flower to a girl", "a girl giving a flower to a boy"),
    ("a cat looking at a dog", "a dog looking at a cat"),
    ("an apple and two oranges", "two apples and an orange"),
    ("a black cat and a white dog", "a white cat and a black dog"),
    ("a car in the left lane", "a car in the right lane"),
    ("a woman with glasses", "a woman with no glasses"),
    ("two men and one woman", "one man and two women"),
    ("a cake with three candles", "a cake with four candles"),
    ("a sunny beach", "a rainy beach"),
    ("a large elephant next to a small mouse", "a small elephant next to a large mouse"),
    ("a tree without leaves", "a tree with leaves"),
    ("a dog on the left of a cat", "a cat on the left of a dog"),
    ("a snowman with a carrot nose", "a snowman without a carrot nose"),
    ("a red rose in a white vase", "a white rose in a red vase"),
    ("a man holding an umbrella next to a woman", "a man next to a woman holding an umbrella"),
    ("a woman in a red dress and a man in a black suit", "a woman in a black dress and a man in a red suit"),
    ("a boat on the water", "a boat under the water"),
    ("a plane flying above the clouds", "a plane flying below the clouds"),
    ("a dozen eggs", "six eggs"),
    ("several cats", "a cat"),
    ("a pair of dogs", "a dog"),
    ("a watercolor of a red barn", "a watercolor of a blue barn"),
    ("a cat, not a dog", "a dog, not a cat"),
    ("a cup without a handle on a table", "a cup with a handle on a table"),
    ('a shirt that says "cats"', 'a shirt that says "dogs"'),
    ("a green bottle to the left of a red book", "a red bottle to the left of a green book"),
    ("two cats", "three cats"),
    ("a cat", "cats"),
    ("a red car and a blue house", "a blue car and a red house"),
    ("a man with a hat", "a man without a hat"),
    ("a dog chasing a cat", "a cat chasing a dog"),
    ("a cat on a table", "a cat under a table"),
    ("a cat left of a dog", "a cat right of a dog"),
    ("a girl wearing a hat holding a cat", "a girl holding a cat wearing a hat"),
    ("a man with a red hat and a woman with a blue scarf", "a man with a blue hat and a woman with a red scarf"),
    ("a ball that is red", "a ball that is not red"),
    ("a castle at night", "a castle at dawn"),
    ("a small dog", "a large dog"),
    ("a man in the water looking at a dog", "a man looking at a dog in the water"),
    ("a man with a hat and a woman without a hat", "a man without a hat and a woman with a hat"),
    ('a sign that says "open"', 'a sign that says "closed"'),
    ("a cat and a dog", "a cat and no dog"),
    ("a cat on the left and a dog on the right", "a dog on the left and a cat on the right"),
    ("a cloudless sky", "a cloudy sky"),
    ("a street with people", "a street without people"),
    ("a cat sleeping on a mat", "a cat not sleeping on a mat"),
    ("a glass of milk", "a milk of glass"),
    ("a horse riding a man", "a man riding a horse"),
    ("two dogs and a cat", "a dog and two cats"),
    ("a big red ball and a small blue ball", "a small red ball and a big blue ball"),
    ("a cat on a mat and a dog", "a cat and a dog on a mat"),
    ("a book on a box", "a box on a book"),
    ("a spoon in a cup", "a cup in a spoon"),
    ("a man and a woman, the man is tall", "a man and a woman, the woman is tall"),
    ("a house beside a lake", "a house in a lake"),
)


@pytest.fixture(scope="module")
def reader() -> FactReader:
    return FactReader(PromptTagger())


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_ways_to_say_one_thing_pass(reader: FactReader, one: str, other: str) -> None:
    assert reader.compare(one, other).verdict in (Verdict.EQUAL, Verdict.STYLE)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_by_a_fact_does_not_pass(reader: FactReader, one: str, other: str) -> None:
    assert reader.compare(one, other).verdict in (Verdict.DIFFERS, Verdict.UNSURE)


def test_a_prompt_reads_as_things_relations_background_and_style(reader: FactReader) -> None:
    facts = reader.words("An oil painting of two red cats on a wooden table without any plates, at night, digital art")
    assert [thing.noun for thing in facts.things] == ["cat", "table"]
    assert facts.things[0] == Thing(noun="cat", count="2", colours=frozenset({"red"}))
    assert facts.things[1].traits == {"wood"}
    assert facts.relations == (Relation(0, "on", 1),)
    assert facts.background == {"night"}
    assert facts.absent | facts.things[1].lacks == {"plate"}
    assert facts.styles == {"oil painting", "digital art"}
    assert facts.is_sure


def test_words_that_changed_nothing_but_style_pass_though_the_rest_was_not_understood(reader: FactReader) -> None:
    prompt = "neither here nor there, whose cat is which"
    assert not reader.words(prompt).is_sure
    assert reader.compare(prompt, f"a painting of {prompt}, 4k, highly detailed").verdict is Verdict.STYLE


def test_what_was_cut_off_or_not_read_never_passes_for_equal(reader: FactReader) -> None:
    long = "a cat on a mat and " * 25
    assert reader.compare(f"{long} a dog", f"{long} a fox").verdict is Verdict.UNSURE
    assert reader.compare("a cat \U0001f431", "a cat \U0001f436").verdict is Verdict.UNSURE


def test_hardly_a_word_of_real_prompts_is_lost(reader: FactReader) -> None:
    rng = np.random.default_rng(7)
    prompts = [free_form.sentence(rng) for _ in range(200)]
    assert sum("lost" in reader.words(prompt).doubts for prompt in prompts) <= 6


def test_an_image_without_colours_shows_something_else(reader: FactReader) -> None:
    assert reader.compare("a black and white photo of a street", "a photo of a street").verdict is Verdict.DIFFERS


def test_the_world_decides_by_its_grammar_where_places_have_a_meaning(reader: FactReader) -> None:
    """ "A heart and a star" puts the heart on the left in the world; elsewhere the order of a list means nothing."""
    assert reader.compare("a red heart and a blue star", "a blue star and a red heart").verdict is Verdict.DIFFERS
    plain = FactReader(PromptTagger(), knows_world=False)
    assert plain.compare("a red heart and a blue star", "a blue star and a red heart").verdict is Verdict.EQUAL


def test_synonyms_of_the_world_hold_only_among_things_of_the_world(reader: FactReader) -> None:
    assert reader.compare("2 red balls", "2 crimson discs").verdict is Verdict.EQUAL
    assert reader.compare("2 red balls and a dog", "2 red discs and a dog").verdict is Verdict.DIFFERS


def test_a_sampled_caption_equals_itself_in_other_words_and_no_other_caption(reader: FactReader) -> None:
    rng = np.random.default_rng(5)
    drawn = [scenes.sample(rng, stream=STANDARD) for _ in range(60)]
    for one in drawn:
        again = f"A painting of {one.caption}".upper() if one.caption[:2] in ("a ", "an") else one.caption
        if not one.caption.startswith(("a painting", "a picture", "a drawing", "a sketch", "a photo")):
            assert reader.compare(one.caption, again).verdict in (Verdict.EQUAL, Verdict.STYLE)
        for other in drawn:
            is_same = set(one.objects) == set(other.objects) and (one.absent, one.background) == (
                other.absent,
                other.background,
            )
            passed = reader.compare(one.caption, other.caption).verdict in (Verdict.EQUAL, Verdict.STYLE)
            assert passed == is_same, (one.caption, other.caption)


def test_a_caption_amid_other_words_keeps_its_facts(reader: FactReader) -> None:
    rng = np.random.default_rng(6)
    for _ in range(40):
        scene = scenes.sample(rng)
        prompt = f"{scene.caption}, {free_form.sentence(rng)}"
        assert reader.compare(prompt, prompt.upper()).verdict is Verdict.EQUAL
        other = replace(scene, caption=scenes.sample(rng).caption).caption
        if other != scene.caption:
            assert reader.compare(prompt, prompt.replace(scene.caption, other)).verdict is not Verdict.EQUAL


@pytest.mark.parametrize(
    "prompt",
    [
        "a cat \U0001f431",
        "\u732b",
        "chat \u00e0 la fen\u00eatre noir \u00f8",
        "(cat:1.3), [dog]",
        "x" * 401,
        "neither a cat nor a dog",
        "",
        "   ",
        ",,,",
    ],
)
def test_what_is_not_understood_is_only_equal_to_itself(reader: FactReader, prompt: str) -> None:
    assert reader.compare(prompt, prompt).verdict is Verdict.EQUAL
    assert reader.compare(prompt, f"{prompt} dog").verdict in (Verdict.DIFFERS, Verdict.UNSURE)


FRAGMENTS = """
a the two no not without and or , . ' - red blue small cat dogs hat table box sitting holding ridden by of on in left
right behind with is are that "x" at night on the left , hatless blue-eyed 's to between 3 very
"""


@settings(deadline=None, max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.sampled_from(FRAGMENTS.split()),
        max_size=14,
    ).map(" ".join)
    | st.text(max_size=40)
)
def test_no_text_is_an_error_and_every_text_equals_itself(reader: FactReader, text: str) -> None:
    assert reader.words(text) == reader.words(text)
    assert reader.compare(text, text).verdict is Verdict.EQUAL


class CountingTagger(PromptTagger):
    """Counts the texts that it tags."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = list[str]()

    def tags(self, text: str) -> Tagged:
        self.asked.append(text)
        return super().tags(text)


JUNK = "octane render jfkw"


def test_prompts_that_name_many_other_things_of_the_world_differ_without_being_tagged() -> None:
    tagger = CountingTagger()
    compared = FactReader(tagger).compare(
        f"{JUNK} a red heart and a blue star", f"a green boat and a pink fish, {JUNK}"
    )
    assert compared.verdict is Verdict.DIFFERS
    assert compared.differences == set(Difference) - {Difference.STYLE}
    assert not tagger.asked


@pytest.mark.parametrize("strictest", [kind for kind in Difference if kind is not Difference.STYLE])
def test_the_guard_allows_prompts_that_were_not_read_what_it_allows_the_strictest_kind(
    reader: FactReader, strictest: Difference
) -> None:
    compared = reader.compare(f"{JUNK} a red heart and a blue star", f"{JUNK} a green boat and a pink fish")
    shares = dict.fromkeys(Difference, 0.5) | {strictest: 0.1}
    assert allowed_share(GuardShares(equal=0.6, unsure=0.6, differs=shares), compared) == 0.1


def test_an_edit_of_one_thing_is_read_and_its_kind_is_known(reader: FactReader) -> None:
    compared = reader.compare(f"{JUNK} a red heart and a blue star", f"{JUNK} a red heart and a blue boat")
    assert compared.differences == {Difference.OBJECT}


def test_two_captions_are_compared_by_kind_however_far_apart_they_are(reader: FactReader) -> None:
    compared = reader.compare("a red heart above a blue star", "a red boat above a blue fish")
    assert compared.differences == {Difference.OBJECT}


def test_models_of_another_world_have_every_prompt_read() -> None:
    tagger = CountingTagger()
    FactReader(tagger, knows_world=False).compare("a heart and a star", "a boat and a fish")
    assert len(tagger.asked) == 2


def test_a_prompt_is_tagged_once_whatever_it_is_compared_with() -> None:
    tagger = CountingTagger()
    reader = FactReader(tagger)
    for other in ("a cat on a mat", "a cat on a sofa", "a dog on a mat"):
        reader.compare("a cat on a mat at noon", other)
    assert len(tagger.asked) == len(set(tagger.asked)) == 4
