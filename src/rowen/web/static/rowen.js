// Keys, and nothing that a page needs to work: `/` goes to the search, `?` to the help, arrows through results.
"use strict";
(() => {
  const typing = (node) => node && (node.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName));
  const box = () => document.querySelector("#find");
  const links = () => [...document.querySelectorAll("[data-result]")];

  const step = (by) => {
    const all = links();
    if (!all.length) return false;
    const place = all.indexOf(document.activeElement);
    if (place < 0 && by < 0) return false;
    if (place === 0 && by < 0) { box()?.focus(); return true; }
    all[Math.min(all.length - 1, place + by)]?.focus();
    return true;
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inside = typing(event.target);
    if (event.key === "/" && !inside) { box()?.focus(); box()?.select(); event.preventDefault(); }
    else if (event.key === "?" && !inside) { location.href = document.querySelector("#help-link").href; }
    else if (event.key === "Escape" && inside) { event.target.blur(); }
    else if (event.key === "ArrowDown" && (event.target === box() || !inside)) { if (step(1)) event.preventDefault(); }
    else if (event.key === "ArrowUp" && !inside) { if (step(-1)) event.preventDefault(); }
  });

  // A menu closes when something else is clicked, and with Escape.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keyup", (event) => {
    if (event.key === "Escape") for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
  });

  // Choosing all held deletions at once.
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const one of event.target.form.querySelectorAll("input[name=url]")) one.checked = event.target.checked;
  });
})();
