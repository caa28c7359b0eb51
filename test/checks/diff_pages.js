// Runs in a page of `dtc diff` (test/checks/report_pages.py): drives it as a reader does, and writes what is wrong.
(() => {
  const wrong = [], {doc, state, select, show, panes} = window.dtcReport;
  const say = (where, what) => { if (wrong.length < 40) wrong.push(where + ": " + what); };
  const narrow = innerWidth <= 760;
  function layout(where, pane) {
    if (document.documentElement.scrollWidth > innerWidth) say(where, `the page is ${document.documentElement.scrollWidth} px wide, the window ${innerWidth}`);
    if (pane.scrollWidth > pane.clientWidth + 1) say(where, `the pane has ${pane.scrollWidth} px, of which ${pane.clientWidth} are seen`);
    for (const cell of pane.querySelectorAll("td, .chip, button, .note, h2, .cell, .item")) {
      const r = cell.getBoundingClientRect();
      if (r.width > 0 && r.right > innerWidth + 1 && !cell.closest(".wide")) say(where, `'${cell.textContent.slice(0, 40)}' is cut off`);
    }
  }
  const lit = (id, what) => [...byId("pane-" + id).querySelectorAll(what + ".lit")].filter((e) => e.offsetParent);
  try {
    for (const one of panes) {
      show(one.id);
      if (!byId("pane-" + one.id).childElementCount) say(one.id, "is empty");
      layout(one.id, byId("pane-" + one.id));
    }
    // A cause lights up in the list, and its lines in the source.
    doc.causes.forEach((c, i) => {
      if (!c.rows.length) return;
      show("causes"), select("x" + i);
      if (!lit("causes", ".item").length) say("causes", `cause ${i} does not light up`);
      if (narrow) show("source");
      const rows = lit("source", ".drow").length;
      if (rows < c.rows.length) say("source", `${rows} lines of cause ${i} light up, of ${c.rows.length}`);
      if (!byId("selection").textContent) say("causes", "the selection is not described");
      select("");
    });
    doc.collectives.forEach((c, i) => {
      if (!c.rows.length) return;
      show("collectives"), select("m" + i);
      if (!lit("collectives", ".item").length) say("collectives", `${i} does not light up`);
      if (narrow) show("source");
      if (lit("source", ".drow").length < c.rows.length) say("source", `lines of collective ${i} do not light up`);
      select("");
    });
    // A message that several lines need is not charged to each of them as if it were its own.
    if (doc.collectives.some((c) => (c.row_counts || []).reduce((t, n) => t + n, 0) > c.count) && !byId("pane-source").textContent.includes("shared with other lines")) say("source", "a shared message is not called shared");
    if (doc.before_schedule !== byId("pane-causes").textContent.includes("no schedule")) say("causes", "whether both have a schedule is not said");
    if (document.querySelectorAll(".lit").length) say("page", "the selection does not end");
    // The keys: the next change, the second pane, the end of the selection.
    const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    press("n");
    if (doc.changed && doc.causes.some((c) => c.rows.length) && state.selected[0] !== "r") say("keys", "n selects no line");
    if (state.selected[0] === "r" && !byId("pane-source").querySelector(".drow.lit .cause, .drow.lit .prop, .drow.lit mark, .drow.lit .bad, .drow.lit .none")) say("keys", "n selects a line that shows no change");
    if (timeText(-2.22638) !== "−" + timeText(2.22638)) say("times", "negative ones have another unit");
    if (spanText(149.0123, 0.0645) === "149 µs to 149 µs" || spanText(1, 1) !== "1.00 µs to 2.00 µs") say("times", "a short span has equal ends: " + spanText(149.0123, 0.0645) + ", " + spanText(1, 1));
    if (!doc.compares_costs)
      for (const id of ["collectives", "time", "memory"]) {
        show(id);
        if (!byId("pane-" + id).textContent.includes("not compile")) say(id, "does not say that a program does not compile");
      }
    // A badge with two digits is one line, also in a narrow cell.
    show("time");
    const cell = byId("pane-time").appendChild(el("table", {style: "width:8px;table-layout:fixed"}, el("tr", {}, el("td", {}, el("span", {class: "cause follows"}, 15)))));
    const range = document.createRange();
    range.selectNodeContents(cell.querySelector(".cause"));
    if (range.getClientRects().length !== 1) say("time", "the number of a cause breaks");
    cell.remove();
    press("Escape");
    if (state.selected) say("keys", "Escape does not end the selection");
    press("3");
    if (state.pane !== panes[2].id) say("keys", "3 does not show the third pane");
    byId("theme").click();
    show("causes");
    layout("causes, other theme", byId("pane-causes"));
  } catch (e) {
    say("script", e.stack || String(e));
  }
  document.body.replaceChildren(Object.assign(document.createElement("pre"), {id: "result", textContent: JSON.stringify({wrong: [...(window.pageErrors || []), ...wrong]})}));
})();
