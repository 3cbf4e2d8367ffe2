"""Word lists behind the facts of prompts, typed by hand; no list was copied.

A synonym stands here only where no image could tell it from the first word of its group. A word that is missing costs
a paraphrase, one that should not be here lets another image through.
"""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _groups(text: str) -> dict[str, str]:
    """Each word of a line -> the first word of the line; "_" stands for a space within a word."""
    groups = (line.split() for line in text.strip().splitlines())
    return {word: group[0] for group in groups for word in group}


def _phrases(table: dict[str, str]) -> dict[tuple[str, ...], str]:
    """Several words -> their meaning; longer ones first."""
    found = {tuple(phrase.split()): name for name, phrases in table.items() for phrase in phrases.split(" / ")}
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


NUMBERS: Final = {
    "one": "1", "single": "1", "lone": "1", "solitary": "1", "two": "2", "twin": "2", "three": "3", "four": "4",
    "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
    "thirteen": "13", "fourteen": "14", "fifteen": "15", "sixteen": "16", "twenty": "20", "thirty": "30",
    "fifty": "50", "hundred": "100", "thousand": "1000", "dozen": "12", "several": "several", "multiple": "several",
    "various": "several", "many": "many", "numerous": "many", "countless": "many", "few": "few", "hundreds": "hundreds",
    "thousands": "thousands", "dozens": "dozens",
}  # fmt: skip
# Several words that say how many of the noun that follows.
QUANTITIES: Final = _phrases(
    {
        "2": "a pair of / pair of / a couple of / couple of / two of / a duo of",
        "3": "a trio of / trio of / three of",
        "4": "a quartet of",
        "12": "a dozen / a dozen of / one dozen",
        "6": "half a dozen / half-a-dozen",
        "several": "a number of",
        "many": "lots of / a lot of / plenty of / a great many / a large number of",
        "few": "a few / a handful of",
        "group": "a group of / groups of / a bunch of / a set of / a collection of / a cluster of",
        "herd": "a herd of / a flock of / a pack of / a swarm of",
        "crowd": "a crowd of",
    }
)

COLOURS: Final = _groups(
    """
    red crimson scarlet
    blue azure
    green
    yellow
    orange
    purple violet
    pink
    black
    white
    grey gray
    brown
    turquoise teal
    cyan
    magenta
    beige
    navy
    golden gold
    silver silvery
    bronze
    indigo
    lavender
    lilac
    maroon
    emerald
    amber
    ivory
    cream
    tan
    blonde blond
    """
)
SIZES: Final = _groups(
    """
    small little tiny miniature mini
    big large
    huge giant enormous gigantic massive colossal
    tall
    short
    long
    wide
    narrow
    thin
    thick
    medium-sized
    """
)

SYNONYMS: Final = _groups(
    """
    car automobile
    sofa couch
    bicycle bike
    motorcycle motorbike
    airplane aeroplane plane aircraft
    child kid
    puppy pup
    kitten kitty
    rabbit bunny
    spectacles eyeglasses glasses
    street road
    forest woods woodland
    house home
    cottage cabin
    stone rock
    ship vessel
    mug cup
    ocean sea
    beach seashore seaside shore
    lady woman
    man gentleman guy male
    girl lass
    boy lad
    photograph photo
    tv television
    phone telephone
    smartphone cellphone
    lamp lantern
    trousers pants
    jumper sweater pullover
    coat overcoat
    hat
    picture image
    gift present
    autumn fall
    dusk twilight
    dawn daybreak
    sunrise sunup
    sunset sundown
    night nighttime
    day daytime
    store shop
    doctor physician
    donkey
    fog mist
    meadow grassland
    hill hillock
    dog hound
    cat feline
    feather plume
    snake serpent
    flower blossom
    carpet rug
    cap
    robe
    path trail
    tap faucet
    movie film
    pistol handgun
    bucket pail
    baby infant
    pony
    pig hog
    chick
    monster
    sailor seaman
    policeman cop
    teen teenager
    backpack rucksack
    garbage trash rubbish
    taxi cab
    truck lorry
    torch flashlight
    soccer football
    cookie biscuit
    wooden wood
    metal metallic
    old aged elderly
    young youthful
    happy joyful cheerful
    sad unhappy sorrowful
    round circular
    shiny glossy
    scary frightening
    angry furious
    quick fast
    broken shattered
    ancient
    snowy snow-covered
    wet
    bearded
    bald
    striped stripy
    spotted spotty
    rainy
    cloudy overcast
    sunny sunlit
    asleep sleep nap slumber
    jump leap
    run sprint
    look gaze stare
    hold carry grasp clutch
    shout yell
    smile grin
    sit seat perch
    cry weep
    chase pursue
    beneath
    """
)
IRREGULAR_NOUNS: Final = {
    "men": "man", "women": "woman", "children": "child", "people": "people", "feet": "foot", "teeth": "tooth",
    "mice": "mouse", "geese": "goose", "wolves": "wolf", "knives": "knife", "leaves": "leaf", "loaves": "loaf",
    "shelves": "shelf", "halves": "half", "elves": "elf", "dwarves": "dwarf", "wives": "wife", "scarves": "scarf",
    "oxen": "ox", "dice": "die", "cacti": "cactus", "thieves": "thief", "fishes": "fish", "buses": "bus",
    "glasses": "spectacles", "trousers": "trousers", "pants": "trousers", "jeans": "jeans", "shorts": "shorts",
    "clothes": "clothes", "gloves": "glove", "movies": "movie", "cookies": "cookie", "shoes": "shoe", "toes": "toe",
    "potatoes": "potato", "tomatoes": "tomato", "heroes": "hero", "volcanoes": "volcano", "photos": "photo",
    "pianos": "piano", "zombies": "zombie", "ties": "tie", "pies": "pie", "woods": "woods", "axes": "axe",
    "horses": "horse", "houses": "house", "roses": "rose", "vases": "vase", "noses": "nose", "cases": "case",
    "bases": "base", "nurses": "nurse", "purses": "purse", "buddies": "buddy", "policemen": "policeman",
    "firemen": "fireman", "snowmen": "snowman", "businessmen": "businessman", "fishermen": "fisherman",
    "cheeses": "cheese", "mooses": "moose", "eclipses": "eclipse", "causes": "cause", "blouses": "blouse",
    "mazes": "maze", "prizes": "prize", "bridges": "bridge", "axles": "axle", "aches": "ache",
}  # fmt: skip
SINGULAR_S: Final = _words(
    """
    grass glass bus dress chess cactus octopus cross walrus virus lens compass mattress fortress princess actress
    waitress goddess lioness hourglass sandglass plus moss boss iris canvas gas atlas christmas paris circus fungus
    lotus crocus class mess brass harness darkness wilderness news series species venus mars chaos
    """
)
IRREGULAR_VERBS: Final = {
    "sat": "sit", "sitting": "sit", "seated": "sit", "ridden": "ride", "rode": "ride", "riding": "ride",
    "held": "hold", "wore": "wear", "worn": "wear", "ate": "eat", "eaten": "eat", "drank": "drink", "ran": "run",
    "running": "run", "flew": "fly", "flown": "fly", "flies": "fly", "stood": "stand", "lying": "lie", "lain": "lie",
    "lay": "lie", "laying": "lie", "slept": "sleep", "swam": "swim", "swimming": "swim", "drove": "drive",
    "driven": "drive", "driving": "drive", "threw": "throw", "thrown": "throw", "caught": "catch", "fought": "fight",
    "built": "build", "broke": "break", "broken": "broken", "hidden": "hide", "hid": "hide", "hiding": "hide",
    "chasing": "chase", "chased": "chase", "bitten": "bite", "biting": "bite", "made": "make", "making": "make",
    "taken": "take", "taking": "take", "sang": "sing", "sung": "sing", "grew": "grow", "grown": "grow", "left": "leave",
    "leaving": "leave", "dying": "die", "tied": "tie", "tying": "tie", "carries": "carry", "carried": "carry",
    "cries": "cry", "cried": "cry", "read": "read", "jumping": "jump", "dancing": "dance", "danced": "dance",
    "gazing": "look", "staring": "look", "smiling": "smile", "smiled": "smile", "baking": "bake", "baked": "bake",
    "facing": "face", "faced": "face", "writing": "write", "written": "write", "wrote": "write", "closed": "close",
    "closing": "close", "drawn": "draw", "drew": "draw", "given": "give", "giving": "give", "blown": "blow",
    "using": "use", "used": "use", "having": "have", "has": "have", "had": "have", "shining": "shine", "torn": "tear",
    "shaking": "shake", "skating": "skate", "racing": "race", "placed": "place", "rising": "rise", "raising": "raise",
    "raised": "raise", "surrounded": "surround", "crossed": "cross", "does": "do", "goes": "go", "seen": "see",
}  # fmt: skip

# Relations. "behind" and "right" are turned round, so that each relation has one direction.
RELATIONS: Final = _phrases(
    {
        "left": "to the left of / on the left of / on the left side of / at the left of / left of / to left of",
        "right": "to the right of / on the right of / on the right side of / at the right of / right of / to right of",
        "near": "next to / beside / besides / alongside / adjacent to / close to / near / nearby / near to"
        " / by the side of "
        "/ at the side of",
        "front": "in front of / ahead of / before",
        "behind": "behind / in back of / at the back of",
        "on": "on top of / on / upon / atop / resting on / placed on / onto / on to",
        "above": "above / over / up above",
        "below": "below / under / beneath / underneath / down below",
        "in": "inside / inside of / within / in / into / in the inside of",
        "outside": "outside of / outside",
        "between": "in between / between",
        "around": "surrounding / all around / around",
        "opposite": "opposite to / opposite / across from",
        "with": "with / has / have / having / wearing / wears / wear / worn by / dressed in / clad in"
        " / featuring / had "
        "/ equipped with / who wears / along with / together with / accompanied by",
        "without": "without / with no / without any / with zero / without a single / having no / has no"
        " / have no / wearing no / wears no / devoid of "
        "/ free of / lacking / missing / minus / sans / with not a single / not wearing any"
        " / not wearing / not having / with not any / without having / not wearing a "
        "/ empty of / that has no / does not have / do not have / not containing / containing no / contains no",
        "full": "full of / filled with",
        "covered": "covered in / covered with / covered by",
        "made": "made of / made from / made out of / out of",
    }
)
INVERSES: Final = {"right": "left", "behind": "front", "below": "above"}  # turned round
SYMMETRIC: Final = frozenset({"near", "opposite"})
BOTH_OBJECTS: Final = frozenset({"with", "between", "of", "full", "covered", "made"})  # "with a hat and a scarf"
SPATIAL: Final = frozenset(
    {"left", "right", "near", "front", "behind", "on", "above", "below", "in", "outside", "around", "opposite", "at",
     "against", "under"}
)  # fmt: skip

_SIDES: Final = {
    "left": "left / left side / left-hand side / left hand side / far left",
    "right": "right / right side / right-hand side / right hand side / far right",
    "top": "top / upper part / upper side / top part / top side",
    "bottom": "bottom / lower part / lower side / bottom part / bottom side",
    "top left": "top left / upper left / top left corner / upper left corner / top-left corner / upper-left corner "
    "/ top-left / upper-left / left top corner",
    "top right": "top right / upper right / top right corner / upper right corner / top-right corner"
    " / upper-right corner "
    "/ top-right / upper-right / right top corner",
    "bottom left": "bottom left / lower left / bottom left corner / lower left corner / bottom-left corner "
    "/ lower-left corner / bottom-left / lower-left",
    "bottom right": "bottom right / lower right / bottom right corner / lower right corner / bottom-right corner "
    "/ lower-right corner / bottom-right / lower-right",
    "centre": "center / centre / middle",
    "background": "background / distance / backdrop",
    "foreground": "foreground",
}
PLACES: Final = _phrases(
    {
        name: " / ".join(
            f"{before} {side}{of}"
            for side in sides.split(" / ")
            for before in ("in the", "on the", "at the", "to the")
            for of in ("", " of the image", " of the picture", " of the frame", " of the scene")
        )
        for name, sides in _SIDES.items()
    }
    | {
        f"{name} ": " / ".join(side for side in sides.split(" / ") if " " in side or "-" in side)
        for name, sides in _SIDES.items()
        if " " in name
    }
)

# Where and when the whole scene is.
TIMES: Final = _words(
    """
    night day sunset sunrise dawn dusk noon midday midnight morning evening afternoon winter summer spring autumn
    rain snow fog storm thunderstorm snowstorm blizzard moonlight sunlight daylight starlight candlelight sunshine
    rainstorm snowfall christmas halloween
    """
)
SETTINGS: Final = TIMES | _words(
    """
    beach forest jungle desert city town village street room kitchen bedroom bathroom garden park field meadow sky
    cloud sand grass ocean lake river sea pond mountain hill island cave castle library classroom office restaurant
    cafe bar station airport harbor harbour port space universe galaxy moon underwater background wall countryside
    farm barn stage stadium arena market store museum gallery church cathedral temple hall hallway corridor alley
    rooftop balcony bridge road path highway dock pier swamp canyon valley tundra savanna savannah prairie orchard
    vineyard courtyard plaza square attic basement garage laboratory lab hospital workshop studio
    """
)
SETTING_PREPOSITIONS: Final = frozenset({"in", "on", "at", "during", "against", "with"})
WATER: Final = _words("lake sea ocean river pond water pool")  # in it is not on it

# What is worn or grown: it does nothing itself, so what follows is said of its owner.
WORN: Final = _words(
    """
    hat cap helmet crown mask spectacles sunglasses goggles dress shirt tshirt t-shirt skirt coat jacket suit tie
    bowtie scarf glove boot shoe sock trousers jeans shorts robe cloak cape armor armour uniform hoodie jumper vest
    apron backpack bag necklace earring bracelet ring belt collar ribbon bow veil kimono gown costume tuxedo
    headphone watch hair beard mustache moustache eye ear nose mouth tail wing horn fur mane skin face leg arm hand
    foot tooth claw freckle tattoo ponytail braid sandal turban hood
    """
)
# What is in one of these is what it has: "apples in a bowl" are "a bowl with apples".
CONTAINERS: Final = _words(
    """
    bowl basket vase box cup mug glass jar bottle bucket barrel crate plate dish tray pot bag cage tank aquarium
    """
)
# What stands and lies there: it does nothing itself.
STILL: Final = _words(
    """
    tree table chair sofa bed bench desk shelf box basket bowl plate cup mug vase bottle glass book lamp candle
    window door wall floor roof house building tower castle bridge fence car truck bus train boat ship bicycle
    motorcycle rock stone mountain hill pillow blanket rug carpet stool fountain statue umbrella ball balloon sword
    shield guitar piano flower rose bush plant cake pizza apple clock mirror box bucket barrel crate
    """
)

# On how an image is made. A clause of these alone states no fact; one of MEDIA must be among them.
MEDIA: Final = _words(
    """
    painting paintings picture drawing drawings sketch illustration photo photograph photography portrait image art
    artwork render rendering rendered style styled artstation deviantart behance cgsociety pinterest trending
    resolution quality detail details detailed lighting light lights lit focus focused canvas oil acrylic watercolor
    watercolour watercolors gouache ink pencil charcoal pastel crayon masterpiece octane unreal engine vray blender
    hd uhd hdr dof bokeh 4k 8k 16k 2k lens film depth aesthetic award artist painter illustrator photographer
    cinematic minimal minimalist minimalistic photorealistic hyperrealistic realistic realism surrealism
    impressionism impressionist cubism cubist anime manga cartoon comic pixel lowpoly isometric closeup shot
    composition wallpaper poster render 3d 2d vector voxel claymation hyperdetailed ultradetailed intricate sharp
    professional raytracing exposure colors colours color colour palette tones vibrant macro view perspective angle
    wide-angle monochrome sepia grain grainy polaroid dslr beautiful stunning gorgeous amazing breathtaking epic
    elegant high-quality award-winning high-resolution photo-realistic hyper-realistic ultra-realistic
    hyper-detailed ultra-detailed best-quality lifelike ghibli pixar disney studio trending ray tracing global
    illumination volumetric atmosphere atmospheric moody mood dramatic
    """
)
# Words that may stand beside them in such a clause.
BESIDE_MEDIA: Final = _words(
    """
    a an the of in on by with and & high highly very ultra super hyper extremely best top soft hard warm cold cool
    natural studio ambient rim back bright dim volumetric digital concept fine modern classic classical traditional
    famous great field low poly close up wide full body half upper mid long medium ratio rule thirds award winning
    35mm 50mm 85mm f/1.8 f1.8 nikon canon sony kodak fujifilm leica shallow smooth clean simple fantasy matte glossy
    flat line for as made artgerm pop retro vintage contemporary abstract fully fine well professionally hand drawn
    painted brush strokes stroke texture textures crisp reality true life to effect effects mode camera post
    processing graded grading black white winner contest national geographic magazine awardwinning popular featured
    feature favorite website artistic creative unique hour golden shadows shadow contrast tone is it photo-real 1 2
    from
    """
)
# Words of praise: of a thing, too, they say how the image is made.
PRAISE: Final = _words(
    """
    beautiful stunning gorgeous amazing awesome incredible breathtaking lovely magnificent wonderful fantastic
    superb detailed intricate realistic photorealistic hyperrealistic cinematic elaborate exquisite impressive
    splendid high-quality award-winning epic aesthetic nice great perfect highly-detailed hyperdetailed
    """
)
# In front of a noun these name the medium.
MEDIUM_TRAITS: Final = _words(
    """
    watercolor watercolour anime cartoon manga comic pixel-art lowpoly low-poly claymation
    """
)
# "A ... of" at the beginning.
MEDIA_OF: Final = _words(
    """
    painting picture drawing sketch illustration photo photograph portrait image artwork render rendering closeup
    close-up shot view depiction artpiece watercolor watercolour poster wallpaper engraving etching print cartoon
    snapshot scene art selfie doodle mural close-ups paintings photos pictures
    """
)

INTENSIFIERS: Final = _words(
    """
    very really extremely quite so just incredibly truly rather simply highly currently both all
    """
)
NEUTRAL: Final = _words(
    """
    a an the this these those my your his her its their our is are was were be been being there that which who whom
    's am also another other depicting showing shows featuring displaying while please where here can
    """
)
OWN_DETERMINERS: Final = _words(
    """
    a an the this these those my your his her its their our some any another every each
    """
)
SINGULAR_DETERMINERS: Final = _words(
    """
    a an another every each one this
    """
)
NEGATIONS: Final = _words(
    """
    not n't never no without nor cannot neither none nothing nobody nowhere except unless instead hardly barely
    scarcely almost
    """
)
NO: Final = _words(
    """
    no zero 0
    """
)
NOT: Final = _words(
    """
    not n't never
    """
)
UNREADABLE: Final = _words(
    """
    nor neither none nothing nobody nowhere except unless instead either hardly barely scarcely almost whose
    respectively former latter unlike besides apart aside only
    """
)

LESS: Final = _words(
    """
    seamless endless timeless countless flawless priceless ageless boundless effortless restless reckless fearless
    homeless unless regardless nonetheless wireless limitless bless less harmless careless ruthless stainless
    hopeless lifeless soulless relentless tireless weightless selfless helpless useless mindless
    """
)
STEMS_OF_LESS: Final = {"leaf": "leaf", "shoe": "shoe", "sleeve": "sleeve"}
HAS_PARTS: Final = {"eyed": "eye", "haired": "hair", "winged": "wing", "tailed": "tail", "legged": "leg"}
TRANSITIVE: Final = _words(
    """
    hold wear ride carry eat drink read chase play drive throw catch fight build watch push pull kick hug kiss feed
    paint draw cut cook follow lead face hunt bite lick touch
    """
)
# What may follow "on the left": another word makes it "on the left shelf".
AFTER_PLACES: Final = _words(
    """
    and a an the with is are there in on two three four five six one but while no without or of
    """
)
