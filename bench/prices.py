"""Draws the table of prices that comes with the program from the data of the package genai-prices (MIT).

pip install genai-prices && python -m bench.prices

Only figures are taken: for each host and model what a million tokens cost, sent and received, in the lowest tier. The
package itself is no dependency: it brings an HTTP client of its own, and five packages more.
"""

import json
import re
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "src" / "rowen" / "enrich" / "data" / "prices.json"
# Those with an API that we can speak: OpenAI's and what imitates it, Anthropic's, Gemini's.
ADDRESSES = (
    *("https://api.openai.com/v1", "https://api.anthropic.com/v1", "https://generativelanguage.googleapis.com/v1beta"),
    *("https://api.deepseek.com/v1", "https://api.mistral.ai/v1", "https://api.groq.com/openai/v1"),
    *("https://api.x.ai/v1", "https://api.together.xyz/v1", "https://api.cerebras.ai/v1", "https://api.perplexity.ai"),
)
# The figures of a tier hold from some size on; a page is far below.
TOKENS = 1_000


def names_of(model: Any) -> set[str]:
    """The names that mean a model exactly; what only begins with one may be another."""
    clauses = [model.match, *(getattr(model.match, "or_", None) or ())]
    return {model.id, *(str(one.equals) for one in clauses if hasattr(one, "equals"))}


def drawn() -> dict[str, Any]:
    """The table: by host and name, with where it is from."""
    prices, data = import_module("genai_prices"), import_module("genai_prices.data")
    hosts: dict[str, dict[str, list[float]]] = {}
    for address in ADDRESSES:
        provider = next((one for one in data.providers if re.match(one.api_pattern, address)), None)
        if provider is None:
            continue
        table = hosts.setdefault(address.split("/")[2], {})
        for model in provider.models:
            usage = prices.Usage(input_tokens=TOKENS, output_tokens=TOKENS)
            try:
                found = prices.calc_price(usage, model.id, provider_id=provider.id)
            except LookupError:
                continue
            parts = found.input_price, found.output_price
            sent, received = (round(float(part or 0) * 1e6 / TOKENS, 6) for part in parts)
            if sent:
                table |= {name: [sent, received] for name in names_of(model)}
    return {
        "from": f"genai-prices {version('genai-prices')}",
        "drawn": datetime.now(UTC).date().isoformat(),
        "hosts": {host: dict(sorted(table.items())) for host, table in sorted(hosts.items())},
    }


def written(table: dict[str, Any]) -> str:
    """One line a model, so that a diff shows what changed."""
    text = json.dumps(table, indent=1)
    return re.sub(r"\[\s+([\d.e-]+),\s+([\d.e-]+)\s+\]", r"[\1, \2]", text) + "\n"


if __name__ == "__main__":
    TABLE.write_text(written(drawn()), "utf-8")
    print(f"{TABLE.name}: {sum(map(len, json.loads(TABLE.read_text())['hosts'].values())):,} prices")
