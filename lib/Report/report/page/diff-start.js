// The head of the page of `dtc diff`, and its keys.
let found = [], foundAt = -1;
function search(e, next) {
  const words = byId("search").value.trim().toLowerCase();
  if (!next) found = words ? rows.map((row, r) => [row, r]).filter(([row]) => [row.text, row.text_a, row.text_b].some((t) => t && t.toLowerCase().includes(words))).map(([, r]) => r) : [], foundAt = -1;
  if (found.length) foundAt = (foundAt + 1) % found.length, select("r" + found[foundAt]);
}
// The next or previous run of changed lines.
function step(by) {
  const changes = rows.map((row, r) => r).filter((r) => isChange(rows[r]) && (r === 0 || !isChange(rows[r - 1])));
  if (!changes.length) return;
  const at = state.selected[0] === "r" ? Number(state.selected.slice(1)) : by > 0 ? -1 : rows.length;
  select("r" + (by > 0 ? changes.find((r) => r > at) ?? changes[0] : changes.findLast((r) => r < at) ?? changes[changes.length - 1]));
}
function header() {
  const fact = (name, a, b, text) => a === null || b === null || a === undefined ? "" : el("span", {class: "fact"}, name + " ", el("b", {}, same(a, b) ? text(b) : `${text(a)} → ${text(b)}`), " ", same(a, b) ? "" : el("span", {class: worse(b - a)}, percent(a, b) || signed(b - a, text)));
  const a = doc.a.total || {}, b = doc.b.total || {};
  document.title = "dtc diff: " + doc.a.name.replace(/.*\//, "") + " → " + doc.b.name.replace(/.*\//, "");
  byId("head").replaceChildren(el("h1", {}, "A → B"), fact("time", a.step_seconds, b.step_seconds, seconds), fact("received", a.received_bytes, b.received_bytes, bytesText), fact("memory", a.peak_bytes, b.peak_bytes, bytesText),
    doc.compares_costs ? "" : el("span", {class: "bad"}, "✗ " + (doc.a.diagnostics ? doc.b.diagnostics ? "A and B do" : "A does" : "B does") + " not compile"),
    doc.budgets.some((x) => !x.holds) ? el("span", {class: "bad"}, "✗ " + plural(doc.budgets.filter((x) => !x.holds).length, "limit is", "limits are") + " exceeded") : doc.budgets.length ? el("span", {class: "fact"}, "✓ all limits hold") : "",
    el("span", {class: "tools"}, el("button", {title: "key p", on: {click: () => step(-1)}}, "↑"), el("button", {title: "key n: the next change", on: {click: () => step(1)}}, "↓ change"),
      el("input", {id: "search", type: "search", placeholder: "search  /", "aria-label": "search", on: {input: search, keydown: (e) => e.key === "Enter" && search(e, true)}}), themeButton()));
}
byId("main").style.setProperty("--left", "62%");
header();
frame();
addEventListener("keydown", (e) => {
  if (/INPUT|SELECT|TEXTAREA/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "n" || e.key === "p") step(e.key === "n" ? 1 : -1);
});
state.pane = (location.hash.match(/^#(\w+)/) || [])[1] || "causes";
redraw();
describe();
window.dtcReport = {doc, state, select, show, panes};
