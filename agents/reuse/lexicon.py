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
    "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11",
    "twelve": "12", "thirteen": "13", "fourteen": "14", "fifteen": "15", "sixteen": "16", "seventeen": "17",
    "eighteen": "18", "nineteen": "19", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50",
    "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90", "hundred": "100", "thousand": "1000",
    "dozen": "12", "several": "several", "multiple": "several", "various": "several", "many": "many",
    "numerous": "many", "countless": "many", "few": "few", "hundreds": "hundreds", "thousands": "thousands",
    "dozens": "dozens",
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
    car automobile motorcar auto
    sofa couch
    bicycle bike
    motorcycle motorbike
    airplane aeroplane plane aircraft
    child kid youngster tot
    puppy pup
    kitten kitty
    rabbit bunny
    spectacles eyeglasses glasses spectacle eyeglass
    street road
    forest woods woodland
    house home residence dwelling
    cottage cabin
    stone rock
    ship vessel
    mug cup
    ocean sea
    beach seashore seaside shore
    lady woman
    man gentleman guy chap bloke fellow dude
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
    picture image
    gift present
    autumn fall
    dusk twilight nightfall
    dawn daybreak
    sunrise sunup
    sunset sundown
    night nighttime
    day daytime
    shop store
    doctor physician
    fog mist
    meadow grassland
    hill hillock
    dog hound pooch doggo
    cat feline
    feather plume
    snake serpent
    flower blossom bloom
    carpet rug
    path trail footpath pathway
    tap faucet
    pistol handgun
    bucket pail
    baby infant
    pig hog
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
    wood wooden
    metal metallic
    old aged elderly
    young youthful
    happy joyful cheerful merry
    sad unhappy sorrowful
    round circular
    shiny glossy gleaming polished
    angry furious
    quick fast rapid swift speedy
    shattered smashed
    snowy snow-covered
    striped stripy
    spotted spotty speckled dotted polka-dotted
    cloudy overcast
    sunny sunlit sun-drenched sunlight-drenched
    woollen wool woolen
    cobblestone cobbled cobble
    crocodile croc
    hippo hippopotamus
    rhino rhinoceros
    chimp chimpanzee
    rooster cockerel
    ladybug ladybird
    firefly glowworm
    nightgown nightdress
    luggage baggage
    wallet billfold
    cutlery silverware
    napkin serviette
    donut doughnut
    icecream ice-cream
    whisky whiskey
    yoghurt yogurt
    chilli chili
    courgette zucchini
    prawn shrimp
    supper dinner
    holiday vacation
    author writer
    lawyer attorney
    teacher schoolteacher
    chef cook
    fireman firefighter
    mailman postman
    astronaut cosmonaut spaceman
    alien extraterrestrial
    spaceship spacecraft starship
    robot android automaton
    ghost phantom spectre specter
    demon devil
    sorceress enchantress
    warrior fighter
    archer bowman
    sculpture statue
    swamp marsh
    waterfall cascade
    blizzard snowstorm
    cavern grotto
    railway railroad
    tram streetcar trolley
    subway metro
    helicopter chopper
    staircase stairway stairs
    attic loft
    cellar basement
    wardrobe closet
    bulb lightbulb
    pc computer
    screen monitor
    parcel package
    puzzle jigsaw
    racket racquet
    violin fiddle
    mic microphone
    sceptre scepter
    sabre saber
    axe ax
    telescope spyglass
    potion elixir
    bush shrub
    cougar puma
    tranquil peaceful serene calm
    delicious tasty yummy
    noisy loud
    silent quiet soundless
    glittering sparkling glittery twinkling
    pointed pointy
    fluffy fuzzy furry
    crooked bent
    empty vacant
    magical magic enchanted
    injured wounded hurt
    dead deceased
    naked nude
    barefoot shoeless
    scared afraid frightened
    surprised astonished amazed
    brave courageous fearless
    evil wicked
    cosy cozy comfy comfortable snug
    flat apartment
    eerie spooky creepy scary frightening
    misty foggy
    wet damp soaked
    harbour harbor
    luminous glowing
    tired weary exhausted
    rich wealthy
    movie film
    headlight headlamp
    streetlight streetlamp
    detective sleuth
    cloak cape mantle
    jewel gem gemstone
    mansion manor
    jungle rainforest
    hut shack shanty
    stream brook creek
    cliff precipice bluff
    peak summit
    curtain drape
    cupboard cabinet
    stove oven
    fridge refrigerator
    bin dustbin
    pavement sidewalk
    lift elevator
    petrol gasoline
    aubergine eggplant
    maize corn
    sweet candy
    drawing sketch
    soldier trooper
    king monarch
    wizard sorcerer mage magician
    thief robber burglar
    pupil student
    pirate buccaneer
    donkey mule ass
    grave tomb
    graveyard cemetery
    prison jail
    alone solo
    crowded packed
    messy untidy cluttered
    tidy neat
    dirty filthy grimy
    clean spotless
    strong muscular
    fat chubby plump overweight
    slim slender
    cute adorable
    funny comical
    odd strange weird
    colourful colorful multicolored multicoloured
    transparent see-through
    rusty rusted
    abandoned deserted derelict
    burning flaming blazing
    frozen icy iced
    lit illuminated
    theatre theater
    centre center
    jewellery jewelry
    armour armor
    plough plow
    tyre tire
    moustache mustache
    storey story
    kerb curb
    crowd throng
    campfire bonfire
    fireplace hearth
    backyard garden-yard
    noon midday
    horse steed
    mother mom mum mommy mummy
    father dad daddy papa
    grandmother grandma granny
    grandfather grandpa granddad
    friend buddy pal
    singer vocalist
    bookshop bookstore
    pharmacy drugstore
    cafe coffeehouse
    skyscraper high-rise
    clothes clothing garments attire apparel
    watch wristwatch
    drink beverage
    burger hamburger
    highway motorway freeway
    storm tempest
    elegant graceful
    vast immense
    snow-capped snow-topped snowcapped
    bustling lively busy
    checkered chequered checked
    fierce ferocious
    sleepy drowsy
    brilliant bright
    clever smart intelligent
    cold chilly
    hot scorching
    thatched straw-roofed
    veggie vegetable
    tornado twister
    cyclist bicyclist
    thick dense
    tattered ragged
    torn ripped
    lush verdant
    withered wilted
    stony rocky
    wooded forested
    candlelit candle-lit
    moonlit moon-lit
    """
)
VERB_SYNONYMS: Final = _groups(
    """
    sleep nap slumber doze
    jump leap
    run sprint
    look gaze stare glance
    hold carry grasp clutch
    shout yell
    smile grin
    sit seat perch
    cry weep sob
    chase pursue
    walk stroll
    begin start
    close shut
    repair mend fix
    construct build
    collect gather
    illuminate light
    talk chat speak
    eat devour munch
    drink sip
    fly soar
    wander roam
    climb scale
    fight battle
    hug embrace cuddle snuggle
    shine gleam
    bloom blossom flower
    burn blaze
    rest relax lounge
    peek peer
    row paddle
    throw toss hurl
    help assist
    laugh giggle chuckle
    buy purchase
    crouch squat
    observe watch
    """
)
ADJECTIVES_OF_VERBS: Final = {
    "asleep": "sleep",
    "ablaze": "burn",
    "aflame": "burn",
    "adrift": "drift",
    "afloat": "float",
}
# Nouns in -ing; other words in -ing after a noun say what it does, whatever the tagger says.
NOUNS_IN_ING: Final = _words(
    """
    painting building ring wing king string ceiling clothing morning evening lighting wedding earring swing
    spring thing being drawing railing awning icing topping sibling duckling gosling viking pudding lightning
    frosting stocking legging nothing anything everything something rigging dwelling crossing filling ping sling
    bring sing underling sapling herring sterling darling dumpling farthing offspring
    """
)
# What a thing may be made of: "a table of wood" is a wooden table.
MATERIALS: Final = _groups(
    """
    wood wooden
    metal metallic
    glass
    stone rock
    crystal
    ice
    paper
    leather
    woollen wool woolen
    silk silken
    cotton
    steel
    iron
    brick
    marble
    clay
    jade
    wax waxen
    porcelain
    plastic
    copper
    gold golden
    silver
    bronze
    straw
    cardboard
    rubber
    concrete
    sand
    snow
    bamboo
    velvet
    chocolate
    """
)
# A thing that is "bearded" is with a beard.
PARTED: Final = {
    "bearded": "beard", "winged": "wing", "horned": "horn", "hooded": "hood", "masked": "mask", "caped": "cloak",
    "crowned": "crown", "armored": "armour",
    "armoured": "armour", "moustached": "moustache", "bespectacled": "spectacles",
}  # fmt: skip
PARTS_IN_PAIRS: Final = _words("eye wing horn leg ear arm foot hand spectacles tooth")
PRONOUNS: Final = _words("it them him he she they")
POSSESSIVES: Final = _words("his her its their")
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
    "pluses": "plus", "lightnings": "lightning", "mazes": "maze",
    "prizes": "prize", "bridges": "bridge", "axles": "axle", "aches": "ache",
}  # fmt: skip
SINGULAR_S: Final = _words(
    """
    grass glass bus dress chess cactus octopus cross walrus virus lens compass mattress fortress princess
    actress waitress goddess lioness hourglass sandglass plus moss boss iris canvas gas atlas christmas paris
    circus fungus lotus crocus class mess brass harness darkness wilderness news series species venus mars chaos
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
    "taken": "take", "taking": "take", "sang": "sing",
    "sung": "sing", "grew": "grow", "grown": "grow", "left": "leave",
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
        "on": "on top of / on top / on / upon / atop / resting on / placed on / onto / on to",
        "above": "above / over / up above",
        "below": "below / under / beneath / underneath / down below",
        "in": "inside / inside of / within / in / into / in the inside of",
        "outside": "outside of / outside",
        "between": "in between / between",
        "around": "surrounding / all around / around / encircling",
        "surrounded": "surrounded by / encircled by / ringed by",
        "opposite": "opposite to / opposite / across from",
        "with": "with / has / have / having / wearing / wears / wear / dressed in / clad in"
        " / featuring / had "
        "/ equipped with / who wears / along with / together with / accompanied by",
        "without": "without / with no / without any / with zero / without a single / having no / has no"
        " / have no / wearing no / wears no / devoid of "
        "/ free of / lacking / missing / minus / sans / with not a single / not wearing any"
        " / not wearing / not having / with not any / without having / not wearing a "
        "/ empty of / that has no / does not have / do not have / not containing / containing no / contains no",
        "worn": "worn by",
        "containing": "containing / contains",
        "full": "full of / filled with",
        "covered": "covered in / covered with / covered by",
        "cover": "covering / covers",
        "made": "made of / made from / made out of / out of / built of / built from / built out of"
        " / carved from / carved out of"
        " / carved of / crafted from / constructed of / constructed from / formed of / sculpted from",
    }
)
INVERSES: Final = {"right": "left", "behind": "front", "below": "above", "surrounded": "around", "cover": "covered", 
    "worn": "with", "containing": "in",
    "shorter than": "taller than", "smaller than": "larger than", "younger than": "older than",
    "thinner than": "thicker than", "lighter than": "heavier than", "slower than": "faster than",
    "narrower than": "wider than",
    "lower than": "higher than", "weaker than": "stronger than", "darker than": "brighter than",
}  # fmt: skip
# Before "than".
COMPARISONS: Final = frozenset(
    name.split()[0] for pair in INVERSES.items() for name in pair if " than" in name
)  # turned round
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
    night day sunset sunrise dawn dusk noon midday midnight morning evening afternoon winter summer spring
    autumn rain snow fog storm thunderstorm snowstorm blizzard moonlight sunlight daylight starlight candlelight
    sunshine rainstorm snowfall christmas halloween
    """
)
SETTINGS: Final = TIMES | _words(
    """
    beach forest jungle desert city town village street room kitchen bedroom bathroom garden park field meadow
    sky cloud sand grass ocean lake river sea pond mountain hill island cave castle library classroom office
    restaurant cafe bar station airport harbor harbour port space universe galaxy moon underwater background
    wall countryside farm barn stage stadium arena market store museum gallery church cathedral temple hall
    hallway corridor alley rooftop balcony bridge road path highway dock pier swamp canyon valley tundra savanna
    savannah prairie orchard vineyard courtyard plaza attic basement garage laboratory lab hospital
    workshop studio
    """
)
# Of a place these say when it is, as "in the snow" does.
TIME_ADJECTIVES: Final = {
    "snowy": "snow", "rainy": "rain", "foggy": "fog", "misty": "fog", "moonlit": "moonlight", "stormy": "storm",
    "sunlit": "sunlight", "wintry": "winter", "autumnal": "autumn", "nighttime": "night", "starlit": "starlight",
}  # fmt: skip
SETTING_PREPOSITIONS: Final = frozenset({"in", "on", "at", "during", "against", "with"})
WATER: Final = _words("lake sea ocean river pond water pool")  # in it is not on it

# What is worn or grown: it does nothing itself, so what follows is said of its owner.
WORN: Final = _words(
    """
    hat cap helmet crown mask spectacles sunglasses goggles dress shirt tshirt t-shirt skirt coat jacket suit
    tie bowtie scarf glove boot shoe sock trousers jeans shorts robe cloak cape armor armour uniform hoodie
    jumper vest apron backpack bag necklace earring bracelet ring belt collar ribbon bow veil kimono gown
    costume tuxedo headphone watch hair beard mustache moustache eye ear nose mouth tail wing horn fur mane skin
    face leg arm hand foot tooth claw freckle tattoo ponytail braid sandal turban hood
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
    cane stick staff sword spear bow axe hammer knife gun rifle pistol torch flag kite drum violin flute trumpet
    camera phone smartphone laptop computer newspaper letter pen pencil paintbrush brush bag purse basket
    suitcase bouquet scroll map coin key rope ladder broom shovel bone bread egg fruit pear banana lemon cherry
    strawberry pumpkin carrot teapot teacup kettle pot pan spoon fork bicycle scooter skateboard sled wagon cart
    tent sign poster painting picture roof tree table chair sofa bed bench desk shelf box bowl plate cup mug
    vase bottle glass book lamp candle window door wall floor house building tower castle bridge fence car truck
    bus train boat ship motorcycle rock stone mountain hill pillow blanket rug carpet stool fountain statue
    umbrella ball balloon shield guitar piano flower rose bush plant cake pizza apple clock mirror bucket barrel
    crate
    """
)

# On how an image is made. A clause of these alone states no fact; one of MEDIA must be among them.
MEDIA: Final = _words(
    """
    hq uhq painterly brushwork photoreal cgi vfx raytraced cinematography stylized stylised aesthetics
    photograph photographs concept-art concept matte-painting speedpaint speedpainting impasto chiaroscuro
    lineart linework cel-shaded cell-shaded shading shaded zbrush maya houdini cinema4d c4d redshift arnold
    corona keyshot procreate photoshop instagram flickr 500px unsplash behance dribbble conceptart wow amazing
    best-quality pbr ssao subsurface scattering fisheye telephoto macro-photography hasselblad kodachrome
    storybook woodcut linocut engraving etching lithograph screenprint fresco mosaic tempera ukiyo-e papercut
    origami-style pop-art art-deco art-nouveau baroque rococo expressionism expressionist pointillism fauvism
    retrowave synthwave vaporwave dreamlike painting paintings picture drawing drawings sketch illustration
    photo photography portrait image art artwork render rendering rendered style styled artstation deviantart
    cgsociety pinterest trending resolution quality detail details detailed lighting light lights lit focus
    focused canvas oil acrylic watercolor watercolour watercolors gouache ink pencil charcoal pastel crayon
    masterpiece octane unreal engine vray blender hd uhd hdr dof bokeh 4k 8k 16k 2k lens film depth aesthetic
    award artist painter illustrator photographer cinematic minimal minimalist minimalistic photorealistic
    hyperrealistic realistic realism surrealism impressionism impressionist cubism cubist anime manga cartoon
    comic pixel lowpoly isometric closeup shot composition wallpaper poster 3d 2d vector voxel claymation
    hyperdetailed ultradetailed intricate sharp professional raytracing exposure colors colours color colour
    palette tones vibrant macro view perspective angle wide-angle monochrome sepia grain grainy polaroid dslr
    beautiful stunning gorgeous breathtaking epic elegant high-quality award-winning high-resolution
    photo-realistic hyper-realistic ultra-realistic hyper-detailed ultra-detailed lifelike ghibli pixar disney
    ray tracing global illumination volumetric atmosphere atmospheric moody mood dramatic
    """
)
# Words that may stand beside them in such a clause.
BESIDE_MEDIA: Final = _words(
    """
    this here scene quick rough loose candid blurry faded crude childish stock vintage movie action delicate
    simple colorful colourful colored insanely incredibly perfect perfectly extreme intensely amazing awesome
    gorgeous cool nice good great work piece quality dark light bokeh-filled style wow best ever new by hd
    very-detailed mid-journey midjourney 5 6 v4 v5 four eight k megapixels uncropped unframed centered centred
    symmetrical symmetry dynamic pose vivid saturated muted pastel deep rich moody evocative nostalgic whimsical
    dreamy hazy hq uhq painterly brushwork photoreal cgi vfx raytraced cinematography stylized stylised
    aesthetics photograph photographs concept-art concept matte-painting speedpaint speedpainting impasto
    chiaroscuro lineart linework cel-shaded cell-shaded shading shaded zbrush maya houdini cinema4d c4d redshift
    arnold corona keyshot procreate photoshop instagram flickr 500px unsplash behance dribbble conceptart
    best-quality pbr ssao subsurface scattering fisheye telephoto macro-photography hasselblad kodachrome
    storybook woodcut linocut engraving etching lithograph screenprint fresco mosaic tempera ukiyo-e papercut
    origami-style pop-art art-deco art-nouveau baroque rococo expressionism expressionist pointillism fauvism
    retrowave synthwave vaporwave dreamlike a an the of in on with and & high highly very ultra super hyper
    extremely top soft hard warm cold natural studio ambient rim back bright dim volumetric digital fine modern
    classic classical traditional famous field low poly close up wide full body half upper mid long medium ratio
    rule thirds award winning 35mm 50mm 85mm f/1.8 f1.8 nikon canon sony kodak fujifilm leica shallow smooth
    clean fantasy matte glossy flat line for as made artgerm pop retro contemporary abstract fully well
    professionally hand drawn painted brush strokes stroke texture textures crisp reality true life to effect
    effects mode camera post processing graded grading black white winner contest national geographic magazine
    awardwinning popular featured feature favorite website artistic creative unique hour golden shadows shadow
    contrast tone is it photo-real 1 2 from
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
    still screenshot headshot mugshot polaroid painting picture drawing sketch illustration photo photograph
    portrait image artwork render rendering closeup close-up shot view depiction artpiece footage watercolor
    watercolour poster wallpaper engraving etching print cartoon snapshot scene art selfie doodle mural
    close-ups paintings photos pictures
    """
)

INTENSIFIERS: Final = _words(
    """
    exactly precisely insanely incredibly super ultra very really extremely quite so just truly rather simply
    highly currently
    """
)
NEUTRAL: Final = _words(
    """
    a an the this these those my your his her its their our is are was were be been being there that who whom 's
    am also another other depicting showing shows featuring displaying while please where here can
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
NO: Final = _words("no zero 0 neither")
NOT: Final = _words(
    """
    not n't never
    """
)
UNREADABLE: Final = _words(
    """
    none nothing nowhere except unless instead either hardly barely scarcely almost whose respectively former
    latter unlike besides apart aside only which
    """
)

LESS: Final = _words(
    """
    seamless endless timeless countless flawless priceless ageless boundless effortless restless reckless
    fearless homeless unless regardless nonetheless wireless limitless bless less harmless careless ruthless
    stainless hopeless lifeless soulless relentless tireless weightless selfless helpless useless mindless
    """
)
HAS_PARTS: Final = {
    "eyed": "eye", "haired": "hair", "winged": "wing", "tailed": "tail", "legged": "leg", "bearded": "beard",
    "eared": "ear", "nosed": "nose", "headed": "head", "handed": "hand", "faced": "face", "skinned": "skin",
    "roofed": "roof", "walled": "wall", "feathered": "feather",
    "furred": "fur", "sleeved": "sleeve", "horned": "horn",
    "bellied": "belly", "armed": "arm", "toothed": "tooth", "lipped": "lip",
    "striped": "stripe", "spotted": "spot", "petaled": "petal", "leaved": "leaf", "doored": "door",
}  # fmt: skip
TRANSITIVE: Final = _words(
    """
    hold wear ride carry eat drink read chase play drive throw catch fight build watch push pull kick hug kiss
    feed paint draw cut cook follow lead face hunt bite lick touch
    """
)
# What may follow "on the left": another word makes it "on the left shelf".
AFTER_PLACES: Final = _words(
    """
    and a an the with is are there in on two three four five six one but while no without or of
    """
)
# What holds or measures the material that "of" names.
MEASURES: Final = _words(
    """
    pile heap stack block piece sheet sliver slab chunk lump bar bag bucket bowl cup glass jar box roll ball bit
    sea field sculpture layer cloud grain bed mountain carpet blanket wall drop statue bust road path island
    world land
    """
)
