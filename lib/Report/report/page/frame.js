// The frame of a page: the first pane at the left, tabs of the others at the right, the keyboard, the theme.
const systemTheme = matchMedia("(prefers-color-scheme: dark)");
if (systemTheme.matches) document.documentElement.dataset.theme = "dark";
function setTheme(isDark) {
  if (isDark === dark()) return;
  document.documentElement.dataset.theme = isDark ? "dark" : "";
  redraw(); describe();
}
systemTheme.addEventListener("change", () => setTheme(systemTheme.matches));
// A notebook has a theme of its own, and says so to the frame that the page is in.
addEventListener("message", (e) => { if (parent !== window && e.source === parent && e.data && ["light", "dark"].includes(e.data.theme)) setTheme(e.data.theme === "dark"); });
const themeButton = () => el("button", {id: "theme", title: "light or dark", "aria-label": "light or dark",
  on: {click: () => setTheme(!dark())}}, "◐");
function frame() {
  const button = (p, i) => el("button", {id: "tab-" + p.id, class: "tab-" + p.id, role: "tab", "aria-selected": false, title: "key " + (i + 1), on: {click: () => show(p.id)}}, p.title);
  const pane = (p) => el("section", {class: "pane", id: "pane-" + p.id, "data-pane": p.id, "data-title": p.title, tabindex: -1, hidden: p.id !== "source"});
  byId("main").append(el("div", {class: "side left", id: "left"}, pane(panes[0])), el("div", {id: "splitter", role: "separator", title: "drag to resize"}),
    el("div", {class: "side", id: "right"}, el("nav", {role: "tablist"}, panes.map(button)), panes.slice(1).map(pane)));
  const splitter = byId("splitter");
  splitter.addEventListener("pointerdown", (e) => { splitter.setPointerCapture(e.pointerId); splitter.onpointermove = (m) => byId("main").style.setProperty("--left", Math.min(Math.max(m.clientX, 400), innerWidth - 300) + "px"); });
  splitter.addEventListener("pointerup", () => { splitter.onpointermove = null; redraw(); });
  addEventListener("keydown", (e) => {
    const typing = /INPUT|SELECT|TEXTAREA/.test(e.target.tagName);
    if (e.key === "Escape") { e.target.blur(); select(""); return; }
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "/") { e.preventDefault(); byId("search").focus(); return; }
    if (/^[1-9]$/.test(e.key) && Number(e.key) <= panes.length) { show(panes[Number(e.key) - 1].id); return; }
    if (e.key === "Enter" && e.target.dataset && e.target.dataset.k) select(e.target.dataset.k.split(" ")[0], e.target);
    // From the line that has the focus, or the selected one, or else the first. Other panes scroll.
    const left = e.target === document.body || (e.target.closest && e.target.closest("#pane-source"));
    if ((e.key === "ArrowDown" || e.key === "ArrowUp") && left) {
      const rows = [...document.querySelectorAll(".source .row[tabindex='0'], .source .drow[tabindex='0']")].filter((r) => r.offsetParent);
      const focused = rows.indexOf(e.target), at = focused >= 0 ? focused : rows.findIndex((r) => state.selected && r.classList.contains("lit"));
      const next = rows[at < 0 ? 0 : at + (e.key === "ArrowDown" ? 1 : -1)];
      if (next) { e.preventDefault(); next.focus(); if (next.dataset.k && !next.classList.contains("layer")) select(next.dataset.k.split(" ")[0], next); }
    }
    if (state.pane === "graph" && graphPane.zoom && "+-=0".includes(e.key)) {
      const b = graphPane.box;
      if (e.key === "0") fitGraph(b, true); else graphPane.zoom(e.key === "-" ? 0.8 : 1.25, b.clientWidth / 2, b.clientHeight / 2);
    }
  });
  // Paper is white, and shows all panes. Drawings are made for the width of the page, on which each pane is laid out.
  let theme = "";
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme || "", document.documentElement.dataset.theme = "";
    document.body.classList.add("print");
    state.drawn.clear();
    for (const p of panes) drawPane(p);
    if (typeof graphPane !== "undefined" && graphPane.box) fitGraph(graphPane.box);
  });
  addEventListener("afterprint", () => {
    document.body.classList.remove("print"), document.documentElement.dataset.theme = theme;
    redraw();
  });
  let timer = 0, width = innerWidth;
  addEventListener("resize", () => { clearTimeout(timer); if (innerWidth !== width && !document.body.classList.contains("print")) timer = setTimeout(() => { width = innerWidth; redraw(); }, 150); });
}
