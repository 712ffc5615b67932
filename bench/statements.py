"""What statements cost: CPU of a page at several sizes, and what is spared by classifying pages first.

python -m bench.statements [--pages 400] [--folder DIR of pages of your own]

The figures beside ours are those of other processors on the same sizes, measured once, on a machine of two cores.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from turbohtml import parse

from rowen.content.page_statements import page_type, statements_in
from rowen.content.readers import read
from rowen.formats.rdf.rdfa import read_rdfa
from rowen.model.items import Raw
from tests.portals.council import PREFIXES, TYPES

URL = "https://council.example/page"
OTHERS_MS = {
    49: {"pyRdfa3": 54.0, "rdfa-streaming-parser": 21.0},
    450: {"pyRdfa3": 528.0, "rdfa-streaming-parser": 100.0},
}
WORDS = "Het college verleent principiële toestemming voor het gebruik van het plein en de wegen errond. " * 4


def page(size_bytes: int, kind: str = "decision list") -> str:
    """A list of decisions of about this size: each with a title, a description, a date and a vote."""
    decisions, made, number = [], 0, 0
    while made < size_bytes:
        piece = (
            f'<div typeof="besluit:BehandelingVanAgendapunt" resource="http://data.example/id/behandeling/{number}">'
            f'<div property="prov:generated" typeof="besluit:Besluit" resource="http://data.example/id/besluit/{number}">'
            f'<h3 property="eli:title">Besluit {number}</h3><p property="eli:description">{WORDS}</p>'
            f'<span property="eli:date_publication" datatype="xsd:date" content="2026-01-02">2 januari</span></div>'
            f'<div property="besluit:heeftStemming" typeof="besluit:Stemming" resource="http://data.example/id/s/{number}">'
            f'<span property="besluit:gevolg">goedgekeurd</span><span property="besluit:aantalVoorstanders" '
            f'datatype="xsd:integer">{number}</span></div></div>'
        )
        decisions.append(piece)
        made += len(piece)
        number += 1
    typed = f'typeof="foaf:Document type:{TYPES[kind]}"' if kind else ""
    return (
        f'<!doctype html><html lang="nl"><head><title>Lijst</title></head><body prefix="{PREFIXES}"><main>'
        f'<div resource="http://data.example/id/lijst" {typed}>{"".join(decisions)}</div></main></body></html>'
    )


def overview(size_bytes: int) -> str:
    """A page of the same size that only leads on."""
    link = '<li><a property="besluit:heeftAgenda" href="/agenda/{}">Agenda van de zitting {}</a></li>'
    count = size_bytes // len(link)
    return f"<!doctype html><html><body><ul>{''.join(link.format(n, n) for n in range(count))}</ul></body></html>"


def cpu_ms(work: Callable[[], object], times: int = 7) -> float:
    """The cheapest of some tries."""
    spent = []
    for _ in range(times):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return 1000 * min(spent)


def sizes() -> None:
    print(f"{'page':>8} {'statements':>10} {'RDFa':>9} {'with repair':>12} {'page and all':>13}   others")
    for kb, others in OTHERS_MS.items():
        html = page(kb * 1000)
        body = html.encode()
        rdfa = cpu_ms(lambda html=html: read_rdfa(html, URL))
        kept = cpu_ms(lambda html=html: statements_in(html, URL, "documents"))
        whole = cpu_ms(lambda body=body: read(Raw(URL, body, media_type="text/html", statements="documents")))
        told = " · ".join(f"{name} {ms:.0f} ms ({ms / rdfa:.0f} times)" for name, ms in others.items())
        print(f"{kb:>5} kB {len(read_rdfa(html, URL)):>10,} {rdfa:>6.1f} ms {kept:>9.1f} ms {whole:>10.1f} ms   {told}")


def classification(pages: int) -> None:
    """A site that is made so that two pages in three only lead on: what that spares, not how often it is so."""
    site = [overview(49_000) if number % 3 else page(49_000) for number in range(pages)]
    parsed = [parse(html) for html in site]
    skipped = sum(page_type(one) == "overview" for one in parsed)
    classify = cpu_ms(lambda: [page_type(one) for one in parsed], 3) / pages
    with_all = cpu_ms(lambda: [statements_in(html, URL, "all") for html in site], 1) / pages
    with_some = cpu_ms(lambda: [statements_in(html, URL, "documents") for html in site], 1) / pages
    print(
        f"{pages} pages of 49 kB: {skipped / pages:.0%} skip RDFa; to classify one costs {classify:.3f} ms; "
        f"a page costs {with_some:.2f} ms, without classification {with_all:.2f} ms"
    )


def of_folder(folder: Path) -> None:
    for path in sorted(folder.rglob("*.html")):
        html = path.read_text("utf-8", "replace")
        spent = cpu_ms(lambda html=html: read_rdfa(html, URL))
        print(f"{path.name}: {len(html) / 1000:.0f} kB, {len(read_rdfa(html, URL)):,} statements, {spent:.1f} ms")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    sizes()
    classification(asked.pages)
    if asked.folder is not None:
        of_folder(asked.folder)


if __name__ == "__main__":
    main()
