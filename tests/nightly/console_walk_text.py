"""Prompts that mean harm, or are only unlike others."""

HOSTILE = (
    '<script>window.hacked = true</script><img src=x onerror="window.hacked = true">',
    '"><svg onload="window.hacked=true"></svg><a href="javascript:window.hacked=true">a red heart</a>',
    "W" * 3000,
    "a red heart " * 300,
    "\N{ARABIC LETTER MEEM}\N{ARABIC LETTER REH}\N{ARABIC LETTER HAH}\N{ARABIC LETTER BEH} " * 12 + "(a red heart)",
    "\N{RIGHT-TO-LEFT OVERRIDE}traeh der a\N{POP DIRECTIONAL FORMATTING} reversed",
    "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER} \N{WAVING WHITE FLAG}\N{VARIATION SELECTOR-16} a star " * 6,
    "a\N{COMBINING ACUTE ACCENT}" * 40 + "Z" + "\N{COMBINING GRAVE ACCENT}" * 60,
    "{{ 7 * 7 }} {% raw %} ${7*7} a blue boat",
    "first line\nsecond line\ttabbed\x1b[31mred",
)
