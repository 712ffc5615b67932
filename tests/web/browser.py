"""The system's Chromium, looking at pages: nothing may be asked of others, nothing may go wrong, all can be read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright

from rowen.fetch.render import find_chromium

# WCAG 2.2 at level AA, and what is good practice beyond it.
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
}
# A loaded machine takes ten times as long as a quiet one.
PATIENCE_MS = 60_000


@dataclass
class Eyes:
    """One tab, and all that went wrong in it."""

    page: Page
    base: str
    pictures: Path
    look: str
    troubles: list[str] = field(default_factory=list)

    async def visit(self, path: str) -> None:
        await self.page.goto(self.base + path)

    async def examine(self, name: str) -> None:
        """Look at what is shown: readable by all, no wider than the window; and keep a picture."""
        found = await Axe().run(self.page, options=RULES)
        for one in found.response["violations"]:
            where = "; ".join(node["html"][:160] for node in one["nodes"][:3])
            self.troubles.append(f"{name}: {one['id']}: {one['help']}: {where}")
        width = await self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if width > 0:
            self.troubles.append(f"{name}: {width} px too wide")
        await self.page.screenshot(path=self.pictures / f"{name}-{self.look}.png", full_page=True)


@asynccontextmanager
async def eyes(base: str, pictures: Path, look: str, **window: Any) -> AsyncIterator[Eyes]:
    """A tab of a new browser that reports each request to others, each error of a script and of the network."""
    async with async_playwright() as playwright:
        chromium: Browser = await playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            context = await chromium.new_context(**window)
            context.set_default_timeout(PATIENCE_MS)
            seen = Eyes(await context.new_page(), base, pictures, look)
            seen.page.on("request", lambda asked: _own(seen, asked.url))
            seen.page.on("pageerror", lambda problem: seen.troubles.append(f"script: {problem}"))
            seen.page.on("console", lambda told: told.type == "error" and seen.troubles.append(f"console: {told.text}"))
            yield seen
        finally:
            await chromium.close()


def _own(seen: Eyes, url: str) -> None:
    if not url.startswith(f"{seen.base}/"):
        seen.troubles.append(f"asked somebody else: {url}")
