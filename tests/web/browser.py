"""The system's Chromium, looking at pages: nothing may be asked of others, nothing may go wrong, all can be read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

from rowen.net.render import find_chromium

# WCAG 2.2 at level AA, and what is good practice beyond it. What is in order need not be told, which takes long.
RULES = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
}
# The rows of a long list are alike: looking at the contrast of each would take most of the time.
ALIKE = {"exclude": [["tbody tr:nth-child(n+7)"], [".lines > li:nth-child(n+7)"], [".hits > li:nth-child(n+4)"]]}
# A loaded machine takes ten times as long as a quiet one.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)

DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}

# How far things moved that were on the screen already, without anybody having touched them; as browsers count it.
SHIFTS = """
window.shifted = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) {
    if (one.hadRecentInput) continue;
    const what = one.sources.map((source) => (source.node?.outerHTML ?? source.node?.textContent ?? "").slice(0, 120));
    window.shifted.push({value: one.value, what});
  }
}).observe({type: "layout-shift", buffered: true});
"""
# Below this, a page counts as one in which nothing moves.
MOST_SHIFT = 0.1


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

    async def await_on(self, path: str, selector: str, text: str) -> None:
        """Open a page again and again until it shows what is done behind it; each look waits a second for it."""
        for _ in range(PATIENCE_MS // 1_000):
            await self.visit(path)
            with suppress(AssertionError):
                await expect(self.page.locator(selector).first).to_contain_text(text, timeout=1_000)
                return
        raise AssertionError(f"{path} never showed {text!r} at {selector}")

    async def examine(self, name: str) -> None:
        """Look at what is shown: readable by all, no wider than the window; and keep a picture."""
        found = await Axe().run(self.page, ALIKE, RULES)
        for one in found.response["violations"]:
            where = "; ".join(node["html"][:160] for node in one["nodes"][:3])
            self.troubles.append(f"{name}: {one['id']}: {one['help']}: {where}")
        await self.picture(name)

    async def picture(self, name: str) -> None:
        """Keep a picture of all that is shown; it must not be wider than the window."""
        width = await self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if width > 0:
            self.troubles.append(f"{name}-{self.look}: {width} px too wide")
        await self.page.screenshot(path=self.pictures / f"{name}-{self.look}.png", full_page=True)

    async def settle(self, name: str) -> None:
        """Hold it against a page if what it showed has moved since it was opened."""
        shifts = await self.page.evaluate("window.shifted")
        if sum(shift["value"] for shift in shifts) > MOST_SHIFT:
            self.troubles.append(f"{name}: it moved: {shifts}")


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
            await context.add_init_script(SHIFTS)
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
