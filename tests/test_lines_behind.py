"""How much code stands behind a role's file: who follows a request should not have to load the whole house."""

import pytest

from tests.lines_behind import ROLES, lines_behind, parts_behind, table

# Wanted was 3,300 behind the ledger: its own rules, records and clients alone have these. Lower them when code leaves.
# 550 behind either are the table of all metrics and its histogram, 300 behind the ledger what spans it asks for.
# 50 are the console's message, topic, settings and metrics; behind the router 70 where late requests go, 21 who leaves;
# 9 behind either the kinds of events. 730 behind the router are soft deadlines, levels that honour what is asked, and
# what is done about images that cannot be read; 320 behind the ledger how unknown schemas are waited for, strangers in
# groups. 40 behind the router are what is done instead of a quality, and which field a refusal names,
# and 40 are differences of quality with their errors. 25 behind the ledger load numpy with its first segment, and
# 105 find a member whose fetches stand still, and 90 are the effects of the ledger's machine.
# 5 behind either are the source of the time.
# 92 behind the router are what options declare about themselves, for all doors; less stands at the doors instead.
# 25 behind the ledger keep it from ending what its unread outcomes have ended.
# 24 behind the router are the list of its checks, to which features add theirs.
# 23 behind the router are what a job says of its options, and how that is read.
# 11 behind the router, and 4 behind the ledger, limit texts, and refuse limits that no door checks.
# 8 of the router's and 10 of the ledger's are room: a declared option, or a field of a message, is a line behind each.
# 134 behind the router and 25 behind the ledger: what catalogs say of models and devices, and workers of theirs.
# 150 behind the router and 60 behind the ledger: what a request is promised of quality, and by which bound.
# 70 behind the router are what a catalog says of a judge of images, and its times by batch size.
# 160 behind the router are what catalogs promise of images, and the levels that a promise asks for.
# 60 behind either are sets of ids that take an eighth of the memory.
# 5 behind either are the limit of images, which documents and settings take from one declaration.
# 60 behind the router and 4 behind the ledger are who is alive, and two processes under one id.
# 84 behind the ledger have a process of its own ask for the members of a group.
# 7 behind the router say which models could do what the named one cannot.
# 5 behind either say which name was meant, and what else helps, before all known names.
# 7 behind the ledger have a watchdog ask whether what is overdue hangs.
# 12 behind the router and 8 behind the ledger: clocks put back, properties that roles decide, an end without a broker.
MAX_LINES = {"router": 8569, "ledger": 6177}


@pytest.mark.parametrize("role", ROLES)
def test_no_more_code_gathers_behind_a_role(role: str) -> None:
    assert lines_behind(ROLES[role]) <= MAX_LINES[role], table({role: ROLES[role]})


def test_a_module_counts_itself_its_packages_and_what_its_functions_import() -> None:
    names = {part.module for part in parts_behind("streams.commands.opening")}
    assert {"streams.commands.opening", "streams.commands", "streams", "streams.broker.probe"} <= names
