// Keys and live parts, and nothing that a page needs to work: `/` goes to the search, `?` to the help, arrows through results.
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

  // What goes on by itself: the server says when there is news, and that part of the page is asked for again. A page that
  // nobody sees lets go of its stream, since a browser has six connections for all tabs. Without streams, we ask by the clock.
  let stream = null, asking = 0;
  const live = () => document.querySelector("[data-live]");
  const look = () => { const node = live(); if (node) htmx.trigger(node, "news"); };
  const leave = () => { stream?.close(); stream = null; clearInterval(asking); asking = 0; };
  const poll = () => { leave(); asking = setInterval(look, 2000); };
  const follow = () => {
    const node = live();
    if (!node || document.hidden) { leave(); return; }
    const place = node.dataset.live.split("?")[0];
    if (asking || stream?.place === place) return;
    leave();
    stream = new EventSource(node.dataset.live);
    stream.place = place;
    stream.onmessage = look;
    stream.addEventListener("end", () => { leave(); look(); });
    stream.onerror = () => { if (stream?.readyState === EventSource.CLOSED) poll(); };
  };
  document.addEventListener("htmx:afterSettle", follow);
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", follow);

  // What somebody opened stays open when its part of the page is drawn again.
  const opened = new Set();
  document.addEventListener("toggle", ({ target }) => { if (target.id) opened[target.open ? "add" : "delete"](target.id); }, true);
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  });

  // Choosing all held deletions at once.
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const one of event.target.form.querySelectorAll("input[name=url]")) one.checked = event.target.checked;
  });
})();
