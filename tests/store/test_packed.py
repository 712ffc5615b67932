"""Records are stored in two parts and joined again."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rowen.model.hashes import canonical_json, storable
from rowen.store.items.items import pack, whole, whole_json

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text('aé"\\')
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner), max_leaves=8)
names = st.sampled_from(["identifier", "resources", "source", "spatial", "é"])


@given(st.dictionaries(names, values))
def test_a_record_stored_in_two_parts_is_whole_again(record: Mapping[str, Any]) -> None:
    record, written = storable(record)

    facts, packed = written.facts(), pack(written)

    assert written.whole() == canonical_json(record)
    assert whole(json.loads(facts), packed) == record
    assert (packed is not None) == ("source" in record)


@given(st.dictionaries(names, values))
def test_a_record_is_whole_again_without_parsing(record: Mapping[str, Any]) -> None:
    record, written = storable(record)
    packed = pack(written)
    facts = json.loads(written.facts())
    if packed is not None:
        facts.pop("resources", None)

    assert json.loads(whole_json(json.dumps(facts).encode(), packed)) == record


def test_queries_see_the_addresses_of_files_but_not_their_descriptions() -> None:
    files = [{"url": "https://a.example/1", "name": "One"}, "broken", {"name": "nowhere"}]

    _, written = storable({"issued": "2026", "resources": files, "source": {"id": "a"}})

    assert json.loads(written.facts()) == {"issued": "2026", "resources": [{"url": "https://a.example/1"}, {}, {}]}
