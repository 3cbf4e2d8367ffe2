"""Pages of the repository as pages of the site: places, links, and Markdown as the generator reads it."""

import pytest

from infra.site.pages import Target, as_python_markdown, links, place, rewritten, shown, titled, unsearched

PAGE = "streams/operator/OPERATING.md"


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("infra/site/index.md", "index.md"),
        ("infra/site/README.md", "infra/site/index.md"),
        ("README.md", "project.md"),
        ("agents/console/README.md", "agents/console/index.md"),
        (".github/CONTRIBUTING.md", "github/contributing.md"),
        ("infra/gallery.png", "infra/gallery.png"),
        ("planner/policies/joint.py", "source/planner/policies/joint.py.md"),
    ],
)
def test_a_file_has_a_place_on_the_site(path: str, there: str) -> None:
    assert place(path) == there


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("[a](PROMISE.md#what-it-needs)", "[a](promise.md#what-it-needs)"),
        ("[a](../../README.md) and [b](../README.md)", "[a](../../project.md) and [b](../index.md)"),
        ("[PROMISE.md](PROMISE.md#x) has more", "[What is promised](promise.md#x) has more"),
        ("[a page whose\nwords wrap](PROMISE.md)", "[a page whose\nwords wrap](promise.md)"),
        ("[`routing.py`](../routing.py)", "[`routing.py`](../../source/streams/routing.py.md)"),
        ("![now](../../infra/now.png)", "![now](../../infra/now.png)"),
        ("see [its folder](../kafka) for more", "see its folder for more"),
        ("[here](#below)", "[here](operating.md#below)"),
        ("[there](https://example.org/README.md)", "[there](https://example.org/README.md)"),
        ("`[a](PROMISE.md)`", "`[a](PROMISE.md)`"),
        ("```text\n[a](PROMISE.md)\n```", "```text\n[a](PROMISE.md)\n```"),
    ],
)
def test_a_link_leads_to_the_place_on_the_site(written: str, read: str) -> None:
    paths = (PAGE, "README.md", "streams/README.md", "streams/routing.py", "infra/now.png")
    there = dict.fromkeys(paths, "") | {"streams/operator/PROMISE.md": "# What is promised\n"}
    assert rewritten(written, PAGE, there) == read


def test_the_links_of_a_page_are_paths_of_the_repository_with_their_headings() -> None:
    text = "[a](PROMISE.md#x), [b](../../infra/now.png)\n```sh\n[no](link.md)\n```\n[c](#below)"
    assert list(links(text, PAGE)) == [
        Target("streams/operator/PROMISE.md", "#x"), Target("infra/now.png", ""), Target(PAGE, "#below"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("# agents/gateway: HTTP for clients\n", "# HTTP for clients\n"),
        ("# pochade-client: ask for images\n", "# Ask for images\n"),
        ("# Security: who may do what\n", "# Security: who may do what\n"),
        ("# Images: containers\n\n# Another\n", "# Images: containers\n\n# Another\n"),
    ],
)
def test_a_page_has_a_title_without_the_path_of_its_room(written: str, read: str) -> None:
    assert titled(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Three ways:\n- a\n- b\n", "Three ways:\n\n- a\n- b\n"),
        ("- a\n  goes on\n- b\n", "- a\n    goes on\n- b\n"),
        ("- a\n\n  ```text\n  x\n    y\n  ```\n", "- a\n\n    ```text\n    x\n      y\n    ```\n"),
        ("1. a\n   - b\n", "1. a\n    - b\n"),
        ("```text\nto do:\n- a\n```\n", "```text\nto do:\n- a\n```\n"),
        ("| `a\\|b` | c \\| d |\n", "| `a|b` | c \\| d |\n"),
    ],
)
def test_what_a_forge_reads_is_written_as_python_markdown_reads_it(written: str, read: str) -> None:
    assert as_python_markdown(written) == read


def test_a_file_of_code_is_shown_whole() -> None:
    assert '``````py\nfence = "```"\n``````\n' in shown("agents/role.py", 'fence = "```"\n')


def test_a_page_that_the_search_passes_over_says_so_beside_what_it_states_itself() -> None:
    assert unsearched("# A page\n") == "---\nsearch:\n  exclude: true\n---\n# A page\n"
    assert unsearched("---\nlicense: mit\n---\n# A card\n") == (
        "---\nlicense: mit\nsearch:\n  exclude: true\n---\n# A card\n"
    )
