"""`rowen get` takes what people have at hand."""

from contextlib import closing

from tests.cli.conftest import Cli
from tests.portals.ckan import CkanPortal

NEAR = {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0"}


def test_get_accepts_a_path_within_a_source_from_any_folder(docs: Cli) -> None:
    whole = docs("get", "docs/hay.md")
    (docs.folder / "elsewhere").mkdir()
    docs.folder = docs.folder / "elsewhere"

    assert whole.code == 0
    assert docs("get", "hay.md").out == docs("get", "docs/hay.md").out == whole.out


def test_get_accepts_the_name_of_a_source_with_one_item(docs: Cli) -> None:
    docs.write({"one.md": "# One\n\nAlone.\n"})
    docs("sync", "./one.md")
    name = next(fact["name"] for fact in docs("sources", "--json").facts if fact["items"] == 1)

    assert "Alone." in docs("get", name).out
    many = docs("get", "docs")
    assert (many.code, "is a source with more than one item" in many.err) == (2, True)


def test_a_dataset_is_found_by_its_landing_page_and_shown_with_title_and_files(cli: Cli) -> None:
    cli.environment |= NEAR
    with closing(CkanPortal()) as portal:
        portal.make("hay")
        cli("sync", portal.url)
    [item] = cli("search", "hay", "--json").facts[:1]
    entry = cli("get", item["url"], "--json").facts[0]

    done = cli("get", entry["record"]["landing_page"])

    assert done.out.startswith(f"# {entry['title']}\n")
    assert [one["url"] for one in entry["record"]["resources"] if one["url"] not in done.out] == []
    assert "## Files" in done.out
