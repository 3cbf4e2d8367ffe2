"""Word lists behind the rule features, typed by hand for prompts; no list was copied."""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words on how an image is made, not on what it shows: never an object, an action or a name.
MEDIUM: Final = _words(
    """
    painting paintings picture pictures drawing drawings sketch sketches illustration illustrations photo photos
    photograph photography portrait image images art artwork artworks render renders rendering rendered style styles
    background closeup close up view shot angle wallpaper poster cover concept design artstation deviantart behance
    cgsociety pinterest trending resolution quality detail details lighting focus canvas oil acrylic watercolor
    watercolour gouache ink pencil charcoal masterpiece octane unreal engine vray blender hd uhd hdr dof bokeh mm
    lens film camera depth field composition aesthetic color colour colors colours palette tone tones award winning
    artist artists painter painters illustrator photographer
    """
)

# Modifiers, also where the tagger takes them for nouns or names ("a rose box").
COLOURS: Final = _words(
    """
    red crimson scarlet ruby pink rose magenta orange tangerine amber yellow golden gold green emerald teal turquoise
    blue azure cyan navy indigo purple violet lavender lilac black ebony white ivory grey gray silver brown beige bronze
    """
)

# Words on the place in the image: not an object, and not the verb that "left" can be.
PLACE: Final = _words(
    """
    left right top bottom middle center centre corner side sides edge front back foreground row rows line half
    upper lower
    """
)

# One word that states a relation in space between two things, or between a thing and the image.
SPATIAL: Final = _words(
    """
    above below over under underneath beneath behind beside besides between among amid amidst around near inside within
    outside against across along alongside atop onto into through beyond opposite facing surrounding on in at upon
    underwater down toward towards
    """
)
_CORNERS: Final = tuple((row, side) for row in ("top", "bottom", "upper", "lower") for side in ("left", "right"))
# Several words that state one relation; counted instead of the words within. Longer ones first.
SPATIAL_PHRASES: Final = (
    *(("in", "the", *corner) for corner in _CORNERS),
    ("in", "the", "middle", "of"),
    ("to", "the", "left", "of"),
    ("to", "the", "right", "of"),
    ("in", "front", "of"),
    ("on", "top", "of"),
    ("next", "to"),
    ("close", "to"),
    ("left", "of"),
    ("right", "of"),
    ("out", "of"),
    *_CORNERS,
)

# "in" and "on" before these say how, not where.
NOT_PLACES: Final = MEDIUM | _words("style love general particular mood fashion manner form shape color colour")

STATIVE: Final = _words(
    """
    is are was were be been being am has have had having seem seems look looks looking like likes made make makes
    contain contains containing feature features featuring include includes including wear wears wearing depict depicts
    depicting show shows showing inspired based called named titled detailed do does did can will would may might
    """
)

NUMBERS: Final[dict[str, int]] = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "pair": 2, "both": 2, "twin": 2, "dozen": 12,
}  # fmt: skip

ABSTRACT: Final = _words(
    """
    freedom hope love hate fear joy grief sorrow anger rage peace war death life time memory memories dream dreams idea
    ideas thought thoughts mind soul spirit faith truth lie lies justice power glory honor honour pride shame guilt
    wisdom knowledge beauty chaos order void nothing everything eternity infinity future past destiny fate luck magic
    mystery secret secrets nostalgia melancholy despair bliss harmony balance energy emotion emotions feeling feelings
    mood vibe vibes essence concept meaning universe reality fantasy nightmare consciousness subconscious philosophy
    religion science history culture society economy politics democracy revolution progress success failure victory
    defeat courage betrayal envy greed lust sin virtue evil good karma zen trust doubt logic paradox dimension
    dimensions silence sound music song rhythm motion change growth decay entropy gravity
    spiritual ethereal eternal infinite abstract surreal conceptual metaphysical mystical psychedelic cosmic divine
    sublime transcendent symbolic emotional poignant melancholic nostalgic existential
    """
)
ABSTRACT_SUFFIXES: Final = (
    "ness", "ity", "ism", "dom", "hood", "tion", "sion", "ance", "ence", "ology", "ship", "itude",
)  # fmt: skip
# Things one can point at in spite of their ending, and the words of the medium.
CONCRETE: Final = MEDIUM | _words(
    """
    city university kingdom station television mansion ambulance fence ship spaceship airship starship warship
    battleship steamship neighborhood neighbourhood hood explosion construction reflection
    location intersection decoration costume witness wilderness harness lioness governess prism audience entrance
    """
)
