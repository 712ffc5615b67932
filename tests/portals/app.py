"""A single-page app on loopback: an empty shell, a script that fills it, and data that the script asks for."""

import json
import os
import shutil

import pytest

from tests.portals.site import Page, Site

needs_chromium = pytest.mark.skipif(
    not os.environ.get("CI") and not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    reason="there is no Chromium; .ci/install-browser installs one",
)

SHELL = """<!doctype html><html lang=en><head><title>{title}</title></head><body><noscript>Please enable JavaScript.
</noscript><div id=app></div><script type=module src=/app.js></script></body></html>"""

# Shows the data of the path, or of the route behind the #; a card keeps its words in a shadow tree.
SCRIPT = """
customElements.define('x-card', class extends HTMLElement {
  connectedCallback() {
    this.attachShadow({mode: 'open'}).innerHTML = '<p>Card: <slot></slot></p><slot name=more><p>No more.</p></slot>'
  }
})
const path = location.hash.startsWith('#/') ? location.hash.slice(1) : location.pathname
const answer = await fetch('/api' + path + '.json')
const data = await answer.json()
document.title = data.title
document.querySelector('#app').innerHTML = `<main data-nonce="${Math.random()}"><h1>${data.title}</h1>
  <p>${data.text}</p><x-card>${data.card}</x-card>
  <ul>${data.links.map(link => `<li><a href="${link}">to ${link}</a></li>`).join('')}</ul></main>`
"""


class App(Site):
    """Every page is the same shell."""

    def __init__(self) -> None:
        super().__init__()
        self.pages["/app.js"] = Page(SCRIPT.encode(), headers={"Content-Type": "text/javascript"})

    def show(self, path: str, title: str, text: str, *, links: tuple[str, ...] = (), card: str = "clover") -> None:
        """A page of the app: its shell and its data."""
        self.pages[path] = Page(SHELL.format(title="App").encode())
        self.tell(path, title, text, links=links, card=card)

    def tell(self, path: str, title: str, text: str, *, links: tuple[str, ...] = (), card: str = "clover") -> None:
        """The data of a page or a route."""
        body = json.dumps({"title": title, "text": text, "links": links, "card": card}).encode()
        self.pages[f"/api{path}.json"] = Page(body, headers={"Content-Type": "application/json"})

    def script(self, path: str, script: str, *, body: str = "") -> None:
        """A page with a script of its own."""
        self.pages[path] = Page(f"<!doctype html><title>Odd</title><body>{body}<script>{script}</script>".encode())
