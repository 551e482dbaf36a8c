"use strict";
// Everything that comes from the gateway becomes text nodes: nothing here parses markup.

const byId = (id) => document.getElementById(id);

// el makes an element with attributes and children; strings become text.
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") Object.assign(node.style, value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

// once has run not begin again before it has ended, as for the second click of a double click.
function once(run) {
  let running = false;
  return async (event) => {
    if (running) return;
    running = true;
    await run(event);
    running = false;
  };
}

// What a gateway with tokens wants to be shown. It is kept nowhere else.
const token = byId("token");

async function ask(path, options = {}) {
  const headers = token.value ? { Authorization: "Bearer " + token.value } : {};
  const gone = () => { throw new Error("The gateway does not answer."); };
  const response = await fetch(path, { ...options, headers: { ...options.headers, ...headers } }).catch(gone);
  if (response.status === 401) token.parentElement.hidden = false;
  const body = await response.json().catch(gone);
  if (!response.ok) throw new Error(body.error || body.message);
  return body;
}

const ms = (v) => (v >= 1000 ? (v / 1000).toFixed(2) + " s" : v >= 100 ? v.toFixed(0) + " ms" : v >= 10 ? v.toFixed(1) + " ms" : v.toFixed(2) + " ms");
const seconds = (duration) => 1000 * parseFloat(duration || "0"); // "0.012s" as milliseconds
const percent = (v) => (v >= 9.95 || v === 0 ? v.toFixed(0) : v.toFixed(1)) + " %";

// A leg has the same colour everywhere.
const usual = ["lexical", "dense", "graph"];
const others = [];
function colour(leg) {
  let i = usual.indexOf(leg);
  if (i < 0) {
    if (!others.includes(leg)) others.push(leg);
    i = usual.length + (others.indexOf(leg) % 4);
  }
  return `var(--c${i})`;
}
const place = (leg) => (usual.includes(leg) ? usual.indexOf(leg) : usual.length);
const swatch = (leg) => el("span", { class: "swatch", style: { background: colour(leg) }, "aria-hidden": "true" });

const gravity = { OK: "good", FALLBACK: "good", TRUNCATED: "warn", TIMED_OUT: "bad", FAILED: "bad" };
const stateOf = (state, title) => el("span", { class: "state " + (gravity[state] || ""), title }, state.replace("_", " "));

function table(columns, rows) {
  return [
    el("thead", {}, el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.text ? "text" : null }, c.name)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell, i) => el("td", { class: [columns[i].text ? "text" : "", columns[i].fill ? "fill" : ""].join(" ").trim() || null }, ...[cell].flat()))))),
  ];
}
const right = (name) => ({ name });
const text = (name, fill) => ({ name, text: true, fill });

// --- Ask -----------------------------------------------------------------------------------------------------------------

byId("question").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const result = await ask("api/recall", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        namespaces: [form.namespace.value], query: form.query.value, limit: Number(form.limit.value) || 10,
        budget: (Number(form.budget.value) || 500) / 1000 + "s",
      }),
    });
    showAnswer(result.answer, result.waterfall);
  } catch (error) {
    byId("answer").replaceChildren(el("p", { class: "message bad" }, error.message));
  } finally {
    button.disabled = false;
  }
  refresh();
});

function showAnswer(answer, rows) {
  const legs = answer.legs.map((leg) => leg.leg);
  const sure = answer.score_scale === "SCORE_SCALE_PROBABILITY";
  const top = sure ? 1 : Math.max(...answer.hits.map((hit) => hit.score), 1e-12);
  byId("answer").replaceChildren(
    answer.degraded ? el("p", { class: "message" }, answer.degraded_reason) : "",
    el("p", { class: "legend" },
      el("span", { class: "dim" }, `${answer.hits.length} ${answer.hits.length === 1 ? "hit" : "hits"} in ${ms(seconds(answer.spent))} of ${ms(seconds(answer.budget))}; ${sure ? "a bar is the probability that the memory is relevant, by what each leg speaks for" : "a bar is a score, by what each leg adds to it"}:`),
      ...legs.filter((leg, i) => legs.indexOf(leg) === i).map((leg) => el("span", {}, swatch(leg), leg))),
    el("ol", { class: "hits" }, ...answer.hits.map((hit) => showHit(hit, top, answer.fusion, sure))),
    answer.hits.length === 0 ? el("p", { class: "dim" }, "Searched, and found nothing.") : "",
    el("h3", {}, "What each leg did"),
    el("div", { class: "scroll" }, el("table", {}, ...table(
      [text("leg"), text("state"), right("hits"), right("took"), right("queued"), right("budget"), text("reason", true)],
      answer.legs.map((leg) => [
        [swatch(leg.leg), leg.leg], stateOf(leg.state.replace("LEG_STATE_", "")), String(leg.returned),
        ms(seconds(leg.spent)), ms(seconds(leg.queued)), ms(seconds(leg.budget)), leg.reason || "",
      ])))),
    el("h3", {}, `Waterfall of trace ${answer.trace_id}`),
    waterfall(rows));
}

function showHit(hit, top, fusion, sure) {
  const memory = hit.memory;
  const title = memory && memory.title && !memory.content.startsWith(memory.title) ? memory.title : "";
  const inFavour = (hit.contributions || []).reduce((sum, c) => sum + Math.max(c.value, 0), 0) || 1;
  const share = (c) => (sure ? (hit.score * c.value) / inFavour : c.value / top);
  const contributions = (hit.contributions || []).toSorted((a, b) => place(a.leg) - place(b.leg));
  return el("li", { class: "hit" },
    el("span", { class: "rank" }, String(hit.rank)),
    el("div", {},
      title ? el("span", { class: "title" }, ...marked(memory.title, hit.matches && hit.matches.title)) : "",
      memory && memory.sensitive ? el("span", { class: "badge" }, "sensitive") : "",
      memory ? folded(memory.content, marked(memory.content, hit.matches && hit.matches.content)) : el("p", { class: "dim" }, hit.id),
      hit.why ? el("p", { class: "why" }, "Here for: " + hit.why + ".") : "",
      el("p", {}, linkTo(hit.namespace, hit.id, "Open this memory"))),
    el("div", { class: "side" }, sure ? relevance(hit.score) : `score ${hit.score.toFixed(5)}`,
      el("div", { class: "stack" }, ...contributions.filter((c) => c.value > 0).map((c) =>
        el("i", { title: `${c.leg} ${c.value.toFixed(5)}`, style: { width: 100 * share(c) + "%", background: colour(c.leg) } })))),
    el("details", {}, el("summary", {}, "How the score comes about"),
      el("div", { class: "scroll" }, el("table", {}, ...table(
        [text("leg"), right("rank"), right("raw score"), right("weight"), right("formula"), right("adds")],
        [...contributions.map((c) => [
          [swatch(c.leg), c.leg], c.rank ? String(c.rank) : "–", Number(c.raw_score).toPrecision(4), c.weight.toFixed(2), formula(c, hit, fusion), c.value.toFixed(5),
        ]), ...(sure ? [["before any leg", "", "", "", "log-odds", hit.base_log_odds.toFixed(5)]] : []), [sure ? "log-odds" : "sum", "", "", "", "", contributions.reduce((sum, c) => sum + c.value, sure ? hit.base_log_odds : 0).toFixed(5)]]))),
      el("p", { class: "dim" }, `${hit.id} · importance ${hit.importance.toFixed(2)} · created ${hit.created_at.slice(0, 10)}`)));
}

// folded is a text that shows its first lines if it is long, with a button for the rest. Readers of the screen get all of it.
function folded(content, nodes) {
  const body = el("p", {}, ...nodes);
  if (content.length <= 600 && content.split("\n").length <= 8) return body;
  body.classList.add("fold");
  const button = el("button", { type: "button", class: "more", "aria-expanded": "false" }, "Show all of it");
  button.addEventListener("click", () => {
    const open = body.classList.toggle("fold") === false;
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Show less" : "Show all of it";
  });
  return el("div", {}, body, button);
}

// relevance says how likely a memory answers. The bounds are those of the command line.
function relevance(probability) {
  const percent = probability < 0.01 ? "<1" : probability > 0.99 ? ">99" : (100 * probability).toFixed(0);
  return `${probability >= 0.5 ? "likely" : probability >= 0.08 ? "maybe" : "unlikely"}, ${percent} %`;
}

function formula(c, hit, fusion) {
  if (fusion.method === "FUSION_METHOD_CALIBRATED") return "log-odds";
  const factor = `× ${hit.prior.toFixed(3)}` + (hit.entity_boost > 1 ? ` × ${hit.entity_boost.toFixed(2)}` : "");
  const weight = Number(c.weight.toFixed(2));
  return fusion.method === "FUSION_METHOD_RRF" ? `${weight} / (${fusion.k} + ${c.rank}) ${factor}` : `${weight} × ${c.normalized_score.toFixed(4)} ${factor}`;
}

// marked is a text with the query's words marked. The ranges count bytes of UTF-8.
function marked(content, ranges) {
  if (!ranges || ranges.length === 0) return [content];
  const bytes = new TextEncoder().encode(content);
  const cut = (from, to) => new TextDecoder().decode(bytes.slice(from, to));
  const out = [];
  let at = 0;
  for (const { start, end } of ranges) {
    if (start < at || end <= start || end > bytes.length) continue;
    out.push(cut(at, start), el("mark", {}, cut(start, end)));
    at = end;
  }
  return [...out, cut(at, bytes.length)];
}

function waterfall(rows) {
  if (rows.length === 0) return el("p", { class: "dim" }, "No spans were recorded.");
  const total = Math.max(...rows.map((row) => row.start + row.took), 1);
  const at = (from, took) => ({ left: (100 * Math.max(from, 0)) / total + "%", width: (100 * took) / total + "%" });
  const cells = rows.flatMap((row) => [
    el("span", { class: "name" + (row.failed ? " failed" : ""), style: { paddingLeft: Math.min(row.depth, 12) * 0.7 + "rem" }, title: `${row.service}: ${row.name}` },
      row.name, " ", row.state ? stateOf(row.state, row.reason) : el("span", { class: "dim" }, row.service)),
    el("span", { class: "bar" }, el("i", { style: at(row.start, row.took) }), ...(row.critical || []).map(([from, took]) => el("i", { class: "critical", style: at(from, took) }))),
    el("span", { class: "took", title: "begins after " + ms(row.start / 1000) }, ms(row.took / 1000)),
  ]);
  return el("div", {}, el("p", { class: "legend" },
    el("span", {}, el("span", { class: "swatch", style: { background: "var(--c1)" } }), "critical path: what the recall waited for"),
    el("span", {}, el("span", { class: "swatch", style: { background: "var(--c0)", opacity: 0.4 } }), "beside it, or spent further down")),
    el("div", { class: "falls" }, ...cells));
}

// --- Legs ----------------------------------------------------------------------------------------------------------------

function showLive(unsorted) {
  const legs = unsorted.toSorted((a, b) => (a.leg !== "") - (b.leg !== "") || place(a.leg) - place(b.leg));
  byId("live").replaceChildren(...table(
    [text("leg"), right("searches"), right("p50"), right("p95"), right("p99"), right("budget"), text("p95 of budget"), text("states", true)],
    legs.map((l) => {
      const share = l.budget > 0 ? (100 * l.p95) / l.budget : 0;
      const level = share > 90 ? "bad" : share > 60 ? "warn" : "good";
      const states = l.leg === "" ? { answered: l.states.OK || 0, degraded: l.states.TRUNCATED || 0, failed: l.states.FAILED || 0 } : l.states;
      return [
        l.leg === "" ? "whole recall" : [swatch(l.leg), l.leg], String(l.searches), ms(l.p50), ms(l.p95), ms(l.p99), ms(l.budget),
        [el("span", { class: "meter", style: { color: `var(--${level})` }, role: "img", "aria-label": percent(share) }, el("i", { style: { width: Math.min(share, 100) + "%" } })), " ", percent(share)],
        el("span", { class: "states" }, ...Object.entries(states).filter(([, n]) => n > 0).map(([state, n]) => el("span", {}, stateOf(state), " " + n))),
      ];
    })));
  draw(legs);
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");

// What is plotted of a step: see view.go.
const charts = [
  { title: "Time", unit: (v) => ms(v), log: true, columns: [["p50", 1, "--c0"], ["p95", 2, "--c1"], ["p99", 3, "--c3"], ["budget", 4, "--dim"]] },
  { title: "A second", unit: (v) => v.toFixed(1) + " /s", columns: [["recalls or searches a second", 5, "--c2"]] },
  { title: "Degraded", unit: (v) => v.toFixed(1) + " %", columns: [["share that lacks something", 6, "--c4"]] },
];
let plots = [];
let plotted = "";
const which = byId("which");
which.addEventListener("change", refresh);

// draw plots the last hour of a leg, or of recalls as a whole.
function draw(legs) {
  if (legs.length && [...which.options].map((o) => o.value).join(" ") !== legs.map((l) => l.leg).join(" ")) {
    const chosen = which.value;
    which.replaceChildren(...legs.map((l) => el("option", { value: l.leg }, l.leg || "whole recall")));
    which.value = legs.some((l) => l.leg === chosen) ? chosen : "";
  }
  const leg = legs.find((l) => l.leg === which.value);
  const box = byId("chart");
  if (!leg || leg.series.length < 2) {
    box.replaceChildren(el("p", { class: "dim" }, "Charts follow when there have been recalls for 20 seconds."));
    plots = [];
    return;
  }
  const first = leg.series[0][0], steps = (leg.series.at(-1)[0] - first) / 10 + 1;
  const times = Array.from({ length: steps }, (_, i) => first + 10 * i);
  const known = new Map(leg.series.map((p) => [p[0], p]));
  const at = (t, i) => (known.has(t) ? known.get(t)[i] : i === 5 ? 0 : null); // a step without searches has only a rate
  const data = (chart) => [times, ...chart.columns.map(([, i]) => times.map((t) => at(t, i)))];
  const shape = leg.leg + " " + dark.matches;
  if (plots.length && plotted === shape) {
    plots.forEach((plot, i) => plot.setData(data(charts[i])));
    return;
  }
  plotted = shape;
  const axis = { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 } };
  const points = { show: times.length < 40, size: 5 };
  box.replaceChildren();
  plots = charts.map((chart) => {
    const of = leg.leg || "whole recall";
    const figure = el("figure", { role: "img", "aria-label": `${chart.title} of ${of}, last hour: ${chart.columns.map(([name, i]) => `${name} now ${chart.unit(leg.series.at(-1)[i])}`).join(", ")}` });
    box.append(figure);
    return new uPlot({
      title: `${chart.title}, ${of}`, width: figure.clientWidth, height: chart.log ? 240 : 150, cursor: { y: false, sync: { key: "hour" } },
      scales: { y: chart.log ? { distr: 3 } : { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [axis, { ...axis, size: 70, values: (_, ticks) => ticks.map((v) => (v == null ? "" : chart.unit(v))) }],
      series: [{}, ...chart.columns.map(([label, , tint]) => ({
        label, stroke: css(tint), width: label === "budget" ? 1.5 : 2, dash: label === "budget" ? [6, 4] : undefined, spanGaps: true,
        value: (_, v) => (v == null ? "–" : chart.unit(v)), points: label === "budget" ? { show: false } : points,
      }))],
    }, data(chart), figure);
  });
}
addEventListener("resize", () => plots.forEach((plot) => plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height })));

// --- Recent --------------------------------------------------------------------------------------------------------------

let kind = "degraded";
let opened = null; // the id of the recall that is shown

for (const button of document.querySelectorAll(".tabs button")) {
  button.addEventListener("click", () => {
    kind = button.dataset.kind;
    opened = null;
    for (const other of document.querySelectorAll(".tabs button")) other.setAttribute("aria-pressed", String(other === button));
    refreshRecent();
  });
}

async function refreshRecent() {
  const asked = kind;
  const recalls = await ask("api/recalls?limit=30&kind=" + encodeURIComponent(kind));
  if (asked !== kind || opened !== null) return; // what somebody reads stays
  const list = byId("recalls");
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.recall : undefined;
  list.replaceChildren(...recalls.map(showRecall));
  if (recalls.length === 0) list.append(el("p", { class: "dim" }, kind === "all" ? "No recall yet." : "None is remembered."));
  if (focused !== undefined) {
    const again = list.querySelector(`[data-recall="${Number(focused)}"]`);
    if (again) again.focus();
  }
}

function showRecall(recall) {
  const button = el("button", { type: "button", "aria-expanded": "false", "data-recall": recall.id },
    el("span", { class: "dim" }, new Date(recall.start).toLocaleTimeString([], { hour12: false })),
    el("span", {}, `${ms(recall.took)} of ${ms(recall.budget)}`),
    el("span", { class: "why" }, ...(recall.failed
      ? [stateOf("FAILED"), " " + recall.failed]
      : recall.degraded ? [recall.degraded] : [el("span", { class: "dim" }, `${recall.hits} ${recall.hits === 1 ? "hit" : "hits"}`)])));
  const row = el("div", { class: "recall" }, button);
  button.addEventListener("click", once(async () => {
    const open = row.querySelector(".open");
    if (open) {
      open.remove();
      opened = null;
      button.setAttribute("aria-expanded", "false");
      return;
    }
    for (const other of byId("recalls").querySelectorAll(".open")) {
      other.parentElement.querySelector("button").setAttribute("aria-expanded", "false");
      other.remove();
    }
    opened = recall.id;
    let rows;
    try {
      rows = waterfall(await ask("api/recalls/" + Number(recall.id)));
    } catch (error) {
      rows = el("p", { class: "dim" }, error.message);
    }
    if (opened !== recall.id) return; // another one was opened meanwhile
    button.setAttribute("aria-expanded", "true");
    row.append(el("div", { class: "open" },
      recall.degraded ? el("p", { class: "message" }, recall.degraded) : "",
      el("h3", {}, `Trace ${recall.trace_id}` + (recall.recorded ? "" : ": not sampled, an outline by the gateway")), rows));
  }));
  return row;
}

// --- Indexes -------------------------------------------------------------------------------------------------------------

let legNames = usual; // of this gateway

async function refreshIndexes() {
  const { namespaces } = await ask("v1/namespaces?page_size=1000");
  byId("namespaces").replaceChildren(...namespaces.map((one) => el("option", { value: one.namespace })));
  const shown = namespaces.slice(0, 12).map((one) => one.namespace);
  const answers = await Promise.all(shown.map((name) => ask("v1/indexes?namespace=" + encodeURIComponent(name))));
  const count = (n, kind) => (Number(n) ? el("span", { class: "state " + kind }, n) : "0");
  const rows = answers.flatMap(({ legs }, i) => legs.map((leg, j) => {
    const status = leg.status || {};
    return [
      j === 0 ? shown[i] : "", [swatch(leg.leg), leg.leg], status.indexed || "–", count(status.pending, "warn"), Number(status.pending) ? ms(seconds(status.lag)) : "–",
      count(status.dead, "bad"), status.excluded || "–", leg.error ? el("span", { class: "state bad" }, leg.error) : status.model,
    ];
  }));
  if (answers.length) legNames = answers[0].legs.map((leg) => leg.leg);
  byId("index").replaceChildren(...table(
    [text("namespace"), text("leg"), right("indexed"), right("pending"), right("oldest waits"), right("given up"), right("sensitive, left out"), text("made with")], rows));
  byId("memory").textContent = inMemory(await (await fetch("metrics")).text());
}

// inMemory says how much of the namespaces this process keeps in memory, by its metrics.
function inMemory(metrics) {
  const sum = (name) => [...metrics.matchAll(new RegExp(`^${name}(?:{.*})? (\\S+)`, "gm"))].reduce((total, [, value]) => total + Number(value), 0);
  const namespaces = sum("triskele_replica_namespaces");
  return namespaces ? `This process keeps ${namespaces} ${namespaces === 1 ? "namespace" : "namespaces"} in memory, in ${(sum("triskele_replica_memory_bytes") / 2 ** 20).toFixed(1)} MiB.` : "";
}

// --- Keeping up ----------------------------------------------------------------------------------------------------------

async function refresh() {
  try {
    await Promise.all([ask("api/live").then(showLive), refreshRecent()]);
    byId("gone").hidden = true;
  } catch (error) {
    byId("gone").textContent = error.message;
    byId("gone").hidden = false;
  }
}

function every(interval, run) {
  const again = async () => {
    if (!document.hidden) await run().catch(() => {});
    setTimeout(again, interval);
  };
  again();
}
every(3000, refresh);
every(5000, refreshIndexes);
dark.addEventListener("change", refresh);
