"""Words of everyday prompts that mean nothing in the tiny world. The models learn to look past them."""

from typing import Final

from agents.world.words import COLOURS, SHAPES, SIZES

_TEXT: Final = """
portrait woman man girl boy face eyes hair dress king queen warrior knight wizard witch elf dragon eagle lion wolf
horse dog bird owl fox bear tiger robot cyborg android astronaut alien spaceship rocket planet galaxy nebula cosmic
city street castle tower ruins temple church cathedral bridge village forest jungle mountain valley river lake ocean
sea waves storm rain fog mist sunset sunrise dawn dusk summer spring autumn garden flower flowers roses leaves
desert island cave ice fire flames smoke water crystal gold silver metal glass wood stone marble beautiful dark
light bright gloomy dreamy epic majestic ancient futuristic surreal abstract realistic photorealistic hyperrealistic
detailed intricate elegant ornate delicate symmetrical dramatic cinematic moody cozy cute scary creepy horror gothic
baroque renaissance steampunk cyberpunk fantasy medieval victorian modern retro vintage anime manga cartoon comic
style painting oil canvas watercolor ink pencil charcoal pastel illustration concept art artwork artstation trending
octane render unreal engine blender vray ray tracing volumetric lighting studio soft focus sharp smooth bokeh depth
field close up wide angle shot lens film photo photograph photography polaroid hd uhd resolution quality best ultra
very highly extremely award winning masterpiece by artist famous painter greg rutkowski mucha monet gogh picasso
dali klimt turner hopper style of from with without and the a an in on at under over behind wearing holding standing
sitting running dancing flying looking sleeping riding walking fighting smiling crying floating glowing shining
burning frozen broken lost hidden small big tiny giant huge old young little long short tall round white brown grey
hat crown sword shield armor cloak mask helmet glasses book lamp clock chair table window door room kitchen library
train car motorcycle bicycle airplane balloon music guitar piano coffee cup tea cake bread apple fruit cheese pizza
burger soup butterfly bee spider snake frog turtle whale shark octopus jellyfish penguin panda rabbit mouse deer
skeleton skull ghost demon angel god goddess princess prince pirate ninja samurai soldier scientist chef teacher
child baby family friends crowd people person human creature monster beast character design poster logo icon pattern
texture background wallpaper landscape scenery view interior exterior architecture building
"""
_KNOWN: Final = {word for table in (SHAPES, COLOURS, SIZES) for words in table.values() for word in words}
FREE_WORDS: Final[tuple[str, ...]] = tuple(word for word in _TEXT.split() if word not in _KNOWN)
