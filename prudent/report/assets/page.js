// Draws the plots of a report and lets a reader choose what is shown. Nothing is computed here:
// means, deviations and boxes come with the page. Nothing is fetched: plotly.js and the numbers lie
// in the page, compressed.
"use strict";

const KEPT = "prudent-report"; // what was chosen, across reloads
const QUARTERS = ["1st", "2nd", "3rd", "4th"];
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

async function unpacked(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// Plotly reads tags and entities in texts; names are to be shown as they are.
const literally = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const isDark = matchMedia("(prefers-color-scheme: dark)");

// Dark shades would drown on a dark page.
function visible(colour) {
  if (!isDark.matches) return colour;
  const lighter = (at) => {
    const part = parseInt(colour.slice(at, at + 2), 16);
    return Math.round(part + 0.28 * (255 - part)).toString(16).padStart(2, "0");
  };
  return `#${lighter(1)}${lighter(3)}${lighter(5)}`;
}

function faded(colour, opacity) {
  const part = (at) => parseInt(colour.slice(at, at + 2), 16);
  return `rgba(${part(1)},${part(3)},${part(5)},${opacity})`;
}

function choices() {
  const off = (name) =>
    new Set(all(`input[name=${name}]`).filter((box) => !box.checked).map((box) => box.value));
  const checked = (id) => document.getElementById(id)?.checked ?? false;
  return {
    tasks: off("task"),
    algorithms: off("algorithm"),
    groups: new Set(all(".group[aria-pressed=false]").map((button) => button.dataset.key)),
    seeds: document.getElementById("seeds").value,
    sampled: checked("sampled"),
    logarithmic: checked("logarithmic"),
  };
}

function isShown(task, index, chosen) {
  const group = task.groups[index];
  return !chosen.algorithms.has(group.algorithm) && !chosen.groups.has(`${task.index}-${index}`);
}

function curveTraces(task, panel, chosen) {
  const traces = [];
  for (const curve of panel.curves) {
    if (!isShown(task, curve.group, chosen) || (curve.sampled && !chosen.sampled)) continue;
    const { label, seeds } = task.groups[curve.group];
    const colour = visible(task.groups[curve.group].colour);
    const name = literally(curve.sampled ? `${label}, sampled` : label);
    const dash = curve.sampled ? "dot" : "solid";
    const base = { type: "scatter", mode: "lines", x: curve.steps, showlegend: false };
    const hover = (words) => `${words}<br>step %{x:,}: %{y:.5~g}<extra></extra>`;
    if (curve.low) {
      const edge = { ...base, line: { width: 0 }, hoverinfo: "skip" };
      traces.push({ ...edge, y: curve.low });
      traces.push({ ...edge, y: curve.high, fill: "tonexty", fillcolor: faded(colour, 0.16) });
    }
    if (chosen.seeds === "always" || (chosen.seeds === "auto" && !curve.low)) {
      curve.seeds.forEach((values, at) => traces.push({
        ...base, y: values, name, line: { color: faded(colour, 0.5), width: 1, dash },
        hovertemplate: hover(`%{fullData.name}, seed ${seeds[at]}`),
      }));
    }
    const mean = seeds.length > 1 ? `, mean of ${seeds.length} seeds` : `, seed ${seeds[0]}`;
    traces.push({
      ...base, y: curve.mean, name, line: { color: colour, width: 2.2, dash },
      mode: curve.mean.length > 1 ? "lines" : "markers", marker: { color: colour },
      hovertemplate: hover(`<b>%{fullData.name}</b>${mean}`),
    });
  }
  return traces;
}

// Side by side within each quarter, as wide as their number allows.
function boxTraces(task, panel, chosen) {
  const shown = panel.boxes.filter((box) => isShown(task, box.group, chosen));
  const width = 0.84 / shown.length;
  return shown.flatMap((box, place) => {
    const colour = visible(task.groups[box.group].colour);
    const name = literally(task.groups[box.group].label);
    const quarters = box.quarters.map((quarter, index) => ({
      ...quarter, at: index + 1 - 0.42 + (place + 0.5) * width, name: QUARTERS[index],
    })).filter((quarter) => quarter.episodes);
    const of = (key) => quarters.map((quarter) => quarter[key]);
    const dots = quarters.flatMap((quarter) => quarter.shown.map((cost) => [quarter.at, cost]));
    const said = quarters.map((q) =>
      `<b>${name}</b>, ${q.name} quarter<br>${q.episodes} episodes: median ${q.med}, ` +
      `half within ${q.q1} to ${q.q3}<br>whiskers ${q.whislo} to ${q.whishi}, ${q.beyond} beyond`);
    const base = { showlegend: false, name };
    return [
      {
        ...base, type: "box", x: of("at"), q1: of("q1"), median: of("med"), q3: of("q3"),
        lowerfence: of("whislo"), upperfence: of("whishi"), width: 0.85 * width, hoverinfo: "skip",
        line: { color: colour, width: 1.3 }, fillcolor: faded(colour, 0.35), boxpoints: false,
      },
      {
        ...base, type: "scatter", mode: "markers", x: dots.map((dot) => dot[0]),
        y: dots.map((dot) => dot[1]), marker: { color: faded(colour, 0.6), size: 3 },
        hovertemplate: "<b>%{fullData.name}</b><br>an episode of cost %{y}<extra></extra>",
      },
      { // what a box says when the pointer is near one of its three lines
        ...base, type: "scatter", mode: "markers", x: [...of("at"), ...of("at"), ...of("at")],
        y: [...of("med"), ...of("q1"), ...of("q3")], text: [...said, ...said, ...said],
        marker: { color: colour, size: Math.max(4, Math.min(14, 160 * width)), opacity: 0 },
        hovertemplate: "%{text}<extra></extra>",
      },
    ];
  });
}

function layout(panel, chosen) {
  const ink = style("--ink"), line = style("--line"), soft = style("--soft");
  const axis = { gridcolor: line, zeroline: false, linecolor: line, automargin: true };
  const isBoxes = panel.name === "boxes";
  const isBudget = panel.name === "cost" || isBoxes;
  return {
    margin: { l: 48, r: 10, t: 10, b: 40 }, paper_bgcolor: "transparent",
    plot_bgcolor: "transparent", hovermode: "closest", boxmode: "overlay",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
    hoverlabel: { align: "left", namelength: -1 },
    // Else it is made of the transparent paper, which comes out as a dark bar over the curves.
    modebar: { bgcolor: "transparent", color: soft, activecolor: ink },
    xaxis: {
      ...axis, type: chosen.logarithmic && !isBoxes ? "log" : "linear",
      title: { text: isBoxes ? "quarter of training" : "environment steps after warm-up",
        font: { size: 11, color: soft }, standoff: 8 },
      ...(isBoxes ? { range: [0.5, 4.5], tickvals: [1, 2, 3, 4], ticktext: QUARTERS } : {}),
    },
    yaxis: axis,
    shapes: panel.marks.map((mark) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: mark, y1: mark,
      line: { color: ink, width: 1.2, dash: isBudget ? "dash" : "solid" },
      opacity: isBudget ? 1 : 0.4,
    })),
    annotations: (panel.marks.length > 1 ? panel.marks : []).map((mark) => ({
      text: `budget ${mark}`, xref: "paper", x: 1, xanchor: "right", y: mark, yanchor: "bottom",
      showarrow: false, font: { size: 10.5, color: ink }, bgcolor: faded(style("--card"), 0.7),
    })),
  };
}

function draw(figure, tasks, chosen) {
  const task = tasks[figure.dataset.task];
  const panel = task.panels[figure.dataset.panel];
  const traces = panel.boxes ? boxTraces(task, panel, chosen) : curveTraces(task, panel, chosen);
  const name = `${task.task}-${panel.name}`.replaceAll(/[^\w.-]+/g, "-");
  const canvas = figure.querySelector(".canvas");
  figure.dataset.traces = traces.length;
  return Plotly.react(canvas, traces, layout(panel, chosen), {
    responsive: true, displaylogo: false,
    showSendToCloud: false, plotlyServerURL: "", // the page is offline, and its data its reader's
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    toImageButtonOptions: { filename: name, scale: 2 },
  });
}

// What is out of sight is drawn when it comes into sight.
function drawer(tasks) {
  const stale = new Set(), inSight = new Set();
  const refresh = () => {
    const chosen = choices();
    for (const figure of [...stale].filter((each) => inSight.has(each))) {
      stale.delete(figure);
      draw(figure, tasks, chosen);
    }
  };
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      isIntersecting ? inSight.add(target) : inSight.delete(target);
    }
    refresh();
  }, { rootMargin: "400px" });
  const figures = all("figure.plot");
  figures.forEach((figure) => { stale.add(figure); watch.observe(figure); });
  return () => { figures.forEach((figure) => stale.add(figure)); refresh(); };
}

function hideUnchosen(tasks) {
  const chosen = choices();
  let visible = 0;
  for (const section of all("section.task")) {
    const task = tasks[section.dataset.task];
    const some = task.groups.some((group) => !chosen.algorithms.has(group.algorithm));
    section.hidden = chosen.tasks.has(section.dataset.task) || !some;
    visible += !section.hidden;
  }
  for (const part of all("[data-group]")) {
    const task = tasks[part.dataset.of];
    const hiddenHere = part.matches(".group")
      ? chosen.algorithms.has(task.groups[part.dataset.group].algorithm)
      : !isShown(task, part.dataset.group, chosen);
    part.hidden = hiddenHere || (part.dataset.sampled === "true" && !chosen.sampled);
  }
  document.getElementById("nothing").hidden = visible > 0;
}

function keep() {
  const chosen = choices();
  for (const name of ["tasks", "algorithms", "groups"]) chosen[name] = [...chosen[name]];
  try { sessionStorage.setItem(KEPT, JSON.stringify(chosen)); } catch { /* not allowed: forgotten */ }
}

function restore() {
  let kept = null;
  try { kept = JSON.parse(sessionStorage.getItem(KEPT)); } catch { /* nothing kept */ }
  if (!kept) return;
  for (const [name, values] of [["task", kept.tasks], ["algorithm", kept.algorithms]]) {
    all(`input[name=${name}]`).forEach((box) => { box.checked = !values.includes(box.value); });
  }
  for (const button of all(".group")) {
    button.setAttribute("aria-pressed", String(!kept.groups.includes(button.dataset.key)));
  }
  document.getElementById("seeds").value = kept.seeds;
  for (const id of ["sampled", "logarithmic"]) {
    const box = document.getElementById(id);
    if (box) box.checked = kept[id];
  }
}

function listen(changed) {
  all(".filters input, .filters select").forEach((part) => part.addEventListener("change", changed));
  for (const button of all("button[data-all]")) {
    button.addEventListener("click", () => {
      const boxes = all(`input[name=${button.dataset.all}]`);
      const some = boxes.some((box) => !box.checked);
      boxes.forEach((box) => { box.checked = some; });
      changed();
    });
  }
  for (const button of all(".group")) {
    button.addEventListener("click", () => {
      const pressed = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!pressed));
      changed();
    });
  }
  isDark.addEventListener("change", changed);
}

function reloadWhileFollowed() {
  const seconds = Number(document.body.dataset.reload);
  const pause = document.getElementById("pause");
  if (!seconds || !pause) return;
  const isRead = () => pause.checked || document.hidden || document.querySelector(".plot:hover");
  const reload = () => { if (!isRead()) location.reload(); };
  setInterval(reload, 1000 * seconds);
}

async function start() {
  restore();
  reloadWhileFollowed();
  const tasks = JSON.parse(await unpacked("contents"));
  tasks.forEach((task, index) => { task.index = index; });
  hideUnchosen(tasks);
  const script = document.createElement("script");
  script.textContent = await unpacked("plotly");
  document.head.append(script);
  const redraw = drawer(tasks);
  listen(() => { hideUnchosen(tasks); redraw(); keep(); });
  document.body.dataset.ready = "true";
}

start().catch((error) => {
  const words = document.getElementById("failed");
  words.hidden = false;
  words.append(` (${error})`);
});
