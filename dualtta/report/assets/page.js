"use strict";
// All text reaches the page through textContent: nothing that a record says can become markup.
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const DATA = JSON.parse(byId("data").textContent);
const make = (name, text, attributes = {}) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};
const counted = (number) => number.toLocaleString("en");

// Light and dark
const theme = byId("theme");
const nameTheme = () => { theme.textContent = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark"; };
theme.addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("dualtta-theme", next); } catch { /* not remembered, then */ }
  dispatchEvent(new Event("theme"));
});
addEventListener("theme", nameTheme);
nameTheme();

// Tables that sort: numbers by value, high first; words by name; what was not measured last
for (const table of $$("table.sortable")) {
  const body = table.tBodies[0];
  $$("thead button", table).forEach((button, column) => button.addEventListener("click", () => {
    const heading = button.closest("th");
    const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
    const missing = (row) => row.cells[column].querySelector(".none") !== null || key(row) === "–";
    const numeric = [...body.rows].every((row) => missing(row) || (key(row) !== "" && !Number.isNaN(Number(key(row)))));
    const was = heading.getAttribute("aria-sort");
    const order = was === "none" ? (numeric ? "descending" : "ascending") : was === "ascending" ? "descending" : "ascending";
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => (numeric ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b), "en", { numeric: true }));
    $$("thead th", table).forEach((other) => other.setAttribute("aria-sort", "none"));
    heading.setAttribute("aria-sort", order);
    body.append(...[...body.rows].sort((a, b) => missing(a) - missing(b) || sign * compare(a, b)));
  }));
}

// Copy a command
document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  const source = button.parentElement.querySelector("code, pre");
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
});

// Figures
const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
const inks = () => {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ink", "quiet", "line", "card", "sans"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
};
const dressed = (layout, width) => {
  const ink = inks();
  const narrow = width < 640;
  const made = {
    ...layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: ink.sans, color: ink.ink, size: 13 },
    margin: { l: narrow ? 46 : 62, r: 14, t: 26, b: 54 },
    height: (layout.height ?? 440) + (narrow ? 60 : 0),
    legend: narrow ? { orientation: "h", y: -0.22, yanchor: "top" } : { x: 1.01, y: 1, tracegroupgap: 2 },
    hoverlabel: { bgcolor: ink.card, bordercolor: ink.line, font: { color: ink.ink } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: ink.quiet, activecolor: ink.ink },
    dragmode: narrow ? false : "zoom",
  };
  for (const axis of new Set(["xaxis", "yaxis", ...Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))])) {
    made[axis] = { gridcolor: ink.line, zerolinecolor: ink.line, linecolor: ink.line, automargin: true, ...layout[axis] };
    if (made[axis].title) made[axis].title = { standoff: 10, ...made[axis].title, font: { size: 13, color: ink.quiet } };
  }
  if (narrow && layout.grid) { // side by side becomes one below the other
    made.grid = { ...layout.grid, rows: layout.grid.columns, columns: 1, ygap: 0.35 };
    made.yaxis2 = { ...made.yaxis2, showticklabels: true, matches: undefined };
    made.height += 220;
    made.legend = { ...made.legend, y: -0.12 };
  }
  return made;
};
const show = (place, spec) => {
  const data = place.clientWidth < 640 ? spec.data.map((trace) => (trace.type === "heatmap" ? { ...trace, showscale: false } : trace)) : spec.data;
  const config = { ...CONFIG, displayModeBar: place.clientWidth < 640 ? false : "hover" };
  const layout = dressed(spec.layout, place.clientWidth);
  place.style.height = `${layout.height}px`;
  return Plotly.react(place, data, layout, config);
};

const drawn = new Map(); // place -> how to draw it again
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    seen.unobserve(entry.target);
    drawn.get(entry.target)();
    entry.target.dataset.drawn = "yes";
  }
}, { rootMargin: "400px" });
const later = (place, draw) => { drawn.set(place, draw); seen.observe(place); };
const again = () => { for (const [place, draw] of drawn) if (place.dataset.drawn) draw(); };
addEventListener("theme", again);

// Paper: every figure is drawn, in ink on white, as wide as a sheet; then all is as it was
let before = null;
addEventListener("beforeprint", () => {
  before = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  document.documentElement.classList.add("printing");
  for (const [place, draw] of drawn) { seen.unobserve(place); draw(); place.dataset.drawn = "yes"; }
});
addEventListener("afterprint", () => {
  if (before === null) return;
  document.documentElement.dataset.theme = before;
  document.documentElement.classList.remove("printing");
  before = null;
  again();
});

DATA.figures.forEach((figure, number) => {
  const place = byId(`figure-${number}`);
  const choice = byId(`panel-${number}`);
  const detail = byId(`detail-${number}`);
  const draw = () => {
    const panel = figure.panels[choice ? choice.selectedIndex : 0];
    detail.textContent = panel.detail;
    show(place, panel.plot);
  };
  choice?.addEventListener("change", draw);
  later(place, draw);
});

// Samples in the plane of the two drops
const SETS = [
  { name: "D+", color: "#0072b2", marks: ["circle-open", "circle"] },
  { name: "D-", color: "#d55e00", marks: ["diamond-open", "diamond"] },
  { name: "rest", color: "#8a8a8a", marks: ["square-open", "square"] },
];
if (byId("plane")) {
  const place = byId("plane");
  const [runChoice, domainChoice, rightChoice, setChoice] = ["run", "domain", "right", "set"].map((name) => byId(`plane-${name}`));
  const current = () => DATA.plane[Number(runChoice.value)];
  const wanted = (choice, value) => choice.value === "" || Number(choice.value) === value;
  const fillDomains = () => {
    domainChoice.replaceChildren(make("option", "all", { value: "" }));
    current().domains.forEach((name, i) => domainChoice.append(make("option", name, { value: String(i) })));
  };
  const traces = (run) => SETS.flatMap((set, s) => [1, 0].map((right) => {
    const keep = run.x.map((_, i) => i).filter((i) => run.s[i] === s && Number(run.l[i] === run.p[i]) === right
      && wanted(setChoice, s) && wanted(rightChoice, right) && wanted(domainChoice, run.d[i]));
    return {
      type: "scatter", mode: "markers", name: `${set.name}, ${right ? "right" : "wrong"}`,
      x: keep.map((i) => run.x[i]), y: keep.map((i) => run.y[i]),
      text: keep.map((i) => `sample ${run.i[i]}: ${run.labels[run.p[i]]}${right ? "" : `, it is ${run.labels[run.l[i]]}`}<br>confidence ${run.c[i]}`),
      hovertemplate: "%{text}<br>Diff_sa %{x}, Diff_sp %{y}<extra>%{fullData.name}</extra>",
      marker: { color: set.color, symbol: set.marks[right], size: s === 2 ? 5 : 7, opacity: s === 2 ? 0.5 : 0.75 },
    };
  })).filter((trace) => trace.x.length);
  const count = (run) => {
    const rows = SETS.map((set, s) => {
      const domains = run.tally.filter((_, d) => wanted(domainChoice, d));
      const [wrong, right] = [0, 1].map((r) => domains.reduce((sum, domain) => sum + domain[s][r], 0));
      return { name: set.name, right: wanted(rightChoice, 1) ? right : 0, wrong: wanted(rightChoice, 0) ? wrong : 0, shown: wanted(setChoice, s) };
    }).filter((row) => row.shown);
    const table = byId("plane-counts");
    const head = make("tr");
    head.append(...["set", "samples", "right", "wrong", "share right"].map((text, i) => make("th", text, { scope: "col", class: i ? "" : "text" })));
    const body = rows.map((row) => {
      const line = make("tr");
      const all = row.right + row.wrong;
      line.append(make("th", row.name, { scope: "row" }));
      line.append(...[counted(all), counted(row.right), counted(row.wrong), all ? `${(100 * row.right / all).toFixed(1)} %` : "–"].map((text) => make("td", text)));
      return line;
    });
    const [thead, tbody] = [make("thead"), make("tbody")];
    thead.append(head);
    tbody.append(...body);
    table.replaceChildren(thead, tbody);
  };
  const draw = () => {
    const run = current();
    const data = traces(run);
    const points = data.reduce((sum, trace) => sum + trace.x.length, 0);
    const sample = run.x.length < run.total
      ? `${counted(run.x.length)} of its ${counted(run.total)} samples are drawn, picked evenly by a fixed seed; the counts below are of all samples.`
      : `All ${counted(run.total)} samples are drawn.`;
    const unknown = run.unknown ? ` A drop of ${counted(run.unknown)} samples is not known: they count as rest and are not drawn.` : "";
    const taus = run.tau.every((tau) => typeof tau === "number") ? `, τ_sa = ${run.tau[0]}, τ_sp = ${run.tau[1]}` : "";
    byId("plane-said").textContent = `${counted(points)} points. ${sample}${unknown} Drops are ${run.drop}${taus}.`;
    const line = (key, value) => ({ type: "line", [`${key}0`]: value, [`${key}1`]: value, line: { dash: "dash", width: 1.5, color: "#888" },
      ...(key === "x" ? { yref: "paper", y0: 0, y1: 1 } : { xref: "paper", x0: 0, x1: 1 }) });
    const shapes = taus ? [line("x", run.tau[0]), line("y", run.tau[1])] : [];
    show(place, { data, layout: { shapes, height: 560, hovermode: "closest",
      xaxis: { title: { text: "Diff_sa: drop under alteration" } }, yaxis: { title: { text: "Diff_sp: drop under restyling" } } } });
    count(run);
    place.dataset.points = String(points);
  };
  runChoice.addEventListener("change", () => { fillDomains(); draw(); });
  for (const choice of [domainChoice, rightChoice, setChoice]) choice.addEventListener("change", draw);
  fillDomains();
  count(current());
  later(place, draw);
}

// Runs: find one, and see all of it
const find = byId("find");
find?.addEventListener("input", () => {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const row of $$("table.runs tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    found += row.hidden ? 0 : 1;
  }
  byId("found").textContent = `${counted(found)} runs`;
});
document.addEventListener("click", (event) => {
  const key = event.target.closest(".open")?.dataset.run;
  if (!key) return;
  const { where, model, repeat, title, ...rest } = DATA.runs.runs[key];
  const block = (heading, text, copy) => {
    const part = make("div");
    part.append(make("h4", heading));
    if (copy) part.append(make("button", "Copy", { type: "button", class: "copy" }));
    part.append(make("pre", text, { tabindex: "0" }));
    return part;
  };
  const json = (value) => JSON.stringify(value, null, 1);
  const pair = make("div", undefined, { class: "pair" });
  pair.append(block("Settings and cost", json(rest)), block("Versions and machine", json(DATA.runs.shared[where])),
    block("Model", json(DATA.runs.shared[model])), block("Repeat it (Python)", repeat, true));
  byId("run").replaceChildren(make("h3", title), pair);
  byId("run").scrollIntoView({ block: "nearest" });
});

// Where the reader is
const places = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    for (const link of $$(".bar nav a")) {
      if (link.hash !== `#${entry.target.id}`) { link.removeAttribute("aria-current"); continue; }
      link.setAttribute("aria-current", "true");
      link.parentElement.scrollTo({ left: link.offsetLeft - link.parentElement.clientWidth / 2 });
    }
  }
}, { rootMargin: "-20% 0px -70% 0px" });
$$("main > section[id]").forEach((section) => places.observe(section));
let width = innerWidth;
addEventListener("resize", () => { if ((width < 640) !== (innerWidth < 640)) again(); width = innerWidth; });
document.documentElement.dataset.ready = "yes";
