"use strict";
// Memories: browse, open, remember, correct, supersede, forget. It calls the contract's JSON under v1/, and uses what page.js has.

const browse = byId("browse"), editor = byId("editor"), listed = byId("listed"), told = byId("told"), further = byId("further");
const pageSize = 50, mostFound = 100;
const mostContent = 64 * 1024; // bytes, as the contract has it
let nextPage = "", listing = {}; // what is listed: the form may say something else before the next page
const lastWrite = {}; // revision token of this page's last write by namespace, so that searches know of it
let shownNow = 0; // counts lists, so that a late answer is not shown

const listOf = (value) => value.split(",").map((one) => one.trim()).filter((one) => one !== "");
const asTime = (value) => (value ? new Date(value + "T00:00:00").toISOString() : undefined);
const parameters = (pairs) => new URLSearchParams(Object.entries(pairs).flatMap(([name, value]) => [value].flat().filter((one) => one !== undefined && one !== "" && one !== false).map((one) => [name, one])));
const path = (id, more, pairs) => `v1/memories/${encodeURIComponent(id)}${more}?${parameters(pairs)}`;
const send = (method, where, body) => ask(where, { method, headers: body === undefined ? {} : { "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
const beginning = (value, n) => value.slice(0, n).replace(/[\ud800-\udbff]$/, ""); // without half of a character at its end
const headline = (m) => beginning((m.title || m.content).replace(/\s+/g, " "), 160);

// tell says what came of something, with what can be done about it.
function tell(text, bad, ...more) {
  told.replaceChildren(el("p", { class: "message" + (bad ? " bad" : "") }, text, ...more));
  if (told.getBoundingClientRect().top < 0) told.scrollIntoView({ block: "center" });
}

function button(label, run) {
  const b = el("button", { type: "button" }, label);
  b.addEventListener("click", once(() => run(b)));
  return b;
}

// attempt runs a call and shows its error, such as a missing right.
async function attempt(run) {
  try {
    return await run();
  } catch (error) {
    tell(error.message, true);
    return undefined;
  }
}

// linkTo is a button that opens a memory, from anywhere on the page.
function linkTo(namespace, id, label) {
  const b = button(label, () => {
    browse.namespace.value = namespace;
    openAlone(namespace, id);
  });
  b.className = "link";
  return b;
}

// --- Browse ---------------------------------------------------------------------------------------------------------------

browse.addEventListener("submit", (event) => {
  event.preventDefault();
  show("");
});
further.addEventListener("click", () => show(nextPage));

function filter() {
  return {
    tags_all: listOf(browse.tags.value), created_from: asTime(browse.from.value), created_before: asTime(browse.before.value),
    include_superseded: browse.superseded.checked,
  };
}

async function show(token) {
  const mine = ++shownNow;
  let asked = listing;
  const answer = await attempt(() => {
    if (!token) asked = { namespace: browse.namespace.value, words: browse.text.value.trim(), where: filter() };
    const { namespace, words, where } = asked;
    return words ? search(namespace, words, where) : ask("v1/memories?" + parameters({
      namespace, page_size: pageSize, page_token: token, ...Object.fromEntries(Object.entries(where).map(([name, value]) => ["filter." + name, value])),
    }));
  });
  if (!answer || mine !== shownNow) return;
  listing = asked;
  if (told.querySelector(".bad")) told.replaceChildren(); // it was about an earlier list
  const rows = answer.memories.map((m, i) => row(m, answer.matches && answer.matches[i]));
  if (token) listed.append(...rows);
  else listed.replaceChildren(...rows);
  if (answer.degraded) listed.prepend(el("li", { class: "message" }, answer.degraded_reason));
  else if (!token && rows.length === 0) listed.append(el("li", { class: "dim" }, "No memory is like that."));
  if (answer.hits && rows.length === mostFound) listed.append(el("li", { class: "dim" }, `These are the best ${mostFound}. There may be more: further words, tags or dates find them.`));
  if (token && rows.length) rows[0].querySelector("button").focus();
  nextPage = answer.next_page_token || "";
  further.hidden = !nextPage;
}

// search finds memories by their words alone. Other legs would add what merely resembles them.
async function search(namespace, words, where) {
  const legs = Object.fromEntries(legNames.filter((leg) => leg !== "lexical").map((leg) => [leg, { enabled: false }]));
  const answer = await send("POST", "v1/recall", {
    namespaces: [namespace], query: words, limit: mostFound, filter: where, budget: "5s", explain: true,
    legs: legNames.includes("lexical") ? legs : {}, at_least: lastWrite[namespace] ? [lastWrite[namespace]] : [],
  });
  const hits = answer.hits.filter((hit) => hit.memory);
  return { ...answer, memories: hits.map((hit) => hit.memory), matches: hits.map((hit) => hit.matches) };
}

function badges(m) {
  return [m.sensitive ? "sensitive" : "", m.superseded_by ? "superseded" : "", m.expires_at ? "expires" : ""].filter(Boolean).map((name) => el("span", { class: "badge" }, name));
}

function row(m, matches) {
  const head = el("button", { type: "button", class: "open-memory", "aria-expanded": "false", "data-id": m.id },
    el("span", { class: "headline" }, ...(matches && m.title && matches.title.length ? marked(m.title, matches.title) : [headline(m)])),
    el("span", { class: "dim" }, `${m.created_at.slice(0, 10)}${m.tags.length ? " · " + m.tags.slice(0, 6).join(", ") : ""}`), ...badges(m));
  const item = el("li", { class: "memory" }, head);
  head.addEventListener("click", once(async () => {
    const open = item.querySelector(".opened");
    if (open) {
      open.remove();
      head.setAttribute("aria-expanded", "false");
      return;
    }
    const panel = await attempt(() => panelOf(m.namespace, m.id, matches));
    if (!panel) return;
    item.append(panel);
    head.setAttribute("aria-expanded", "true");
  }));
  return item;
}

// openAlone shows one memory, opened, in place of the list.
async function openAlone(namespace, id) {
  const mine = ++shownNow;
  byId("memories").scrollIntoView();
  const m = await attempt(() => one(namespace, id));
  if (!m || mine !== shownNow) return;
  const item = row(m);
  listed.replaceChildren(item);
  further.hidden = true;
  item.querySelector("button").focus();
  item.querySelector("button").click();
}

// A memory has an address of its own, to be kept or sent to others.
const addressOf = (m) => "#memory?" + parameters({ namespace: m.namespace, id: m.id });

// openAddressed shows the memory that the page's address names, if it does.
function openAddressed() {
  const [name, query] = location.hash.split("?"), named = new URLSearchParams(query);
  if (name !== "#memory") return false;
  browse.namespace.value = named.get("namespace");
  openAlone(named.get("namespace"), named.get("id"));
  return true;
}
addEventListener("hashchange", openAddressed);
token.addEventListener("change", openAddressed);

async function one(namespace, id) {
  return (await ask(path(id, "", { namespace }))).memories[0];
}

// --- Open -----------------------------------------------------------------------------------------------------------------

async function panelOf(namespace, id, matches) {
  const answer = await ask(path(id, "", { namespace, surroundings: 5 }));
  const m = answer.memories[0], around = (answer.surroundings || [])[0] || { before: [], after: [] };
  const facts = [
    ["id", el("a", { href: addressOf(m), title: "The address of this memory on this page" }, m.id)], ["category", m.category], ["tags", m.tags.join(", ")], ["found also by", m.expanded_keywords.join(", ")],
    ["importance", m.importance === undefined ? "" : String(m.importance)], ["source", m.source], ["created", m.created_at], ["changed", m.updated_at === m.created_at ? "" : m.updated_at],
    ["happened", m.occurred_at], ["expires", m.expires_at], ["revision", m.revision],
    ["metadata", m.metadata && Object.keys(m.metadata).length ? JSON.stringify(m.metadata) : ""],
  ].filter(([, value]) => value);
  const panel = el("div", { class: "opened" },
    folded(m.content, marked(m.content, matches && matches.content)),
    el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("p", { class: "actions" }, button("Correct", (b) => edit("correct", m, b)), button("Supersede", (b) => edit("supersede", m, b)),
      button(m.sensitive ? "No longer sensitive" : "Mark sensitive", () => change(m, { sensitive: !m.sensitive })), button("Forget", () => forget(m))),
    el("div", { class: "history" }), thread(m, around), el("div", { class: "known" }, el("p", { class: "dim" }, "Asking the indexes …")));
  history_(m).then((node) => panel.querySelector(".history").replaceWith(node), () => {});
  known(m).then((node) => panel.querySelector(".known").replaceChildren(...node), (error) => panel.querySelector(".known").replaceChildren(el("p", { class: "dim" }, error.message)));
  return panel;
}

const steps = (memories, current) => el("ol", { class: "steps" }, ...memories.map((m) =>
  el("li", m.id === current ? { "aria-current": "true" } : {}, m.id === current ? headline(m) : linkTo(m.namespace, m.id, headline(m)), " ", el("span", { class: "dim" }, m.created_at.slice(0, 10)), ...badges(m))));

// history_ walks to what a memory supersedes and is superseded by, 20 steps each way.
async function history_(m) {
  const chain = [m];
  const walk = async (next, put) => {
    for (let at = m, n = 0; n < 20 && at && at[next] && !chain.some((c) => c.id === at[next]); n++) {
      at = await one(m.namespace, at[next]).catch(() => null); // forgotten
      if (at) chain[put](at);
    }
  };
  await walk("supersedes", "unshift");
  await walk("superseded_by", "push");
  return el("div", {}, ...(chain.length > 1 ? [el("h3", {}, "History, oldest first"), steps(chain, m.id)] : []));
}

function thread(m, around) {
  if (!m.thread) return "";
  const place = m.position === undefined || m.position === null ? "" : `, at ${m.position}`;
  return el("div", {}, el("h3", {}, `Thread ${m.thread}${place}`), steps([...around.before, m, ...around.after], m.id));
}

// known asks for what each index finds by the memory's own text. The legs' answers name its neighbours too.
async function known(m) {
  if (m.sensitive) return [el("h3", {}, "What the indexes know"), el("p", {}, "Only its words are indexed: it is sensitive, so it has no vector and is not in the graph.")];
  const answer = await send("POST", "v1/recall", {
    namespaces: [m.namespace], query: [m.title, beginning(m.content, 1000)].filter(Boolean).join("\n"), text_of: m.id, limit: 12, explain: true,
    filter: { include_superseded: true }, budget: "5s", fusion: { method: "FUSION_METHOD_RRF" },
  });
  const self = answer.hits.find((hit) => hit.id === m.id);
  const contribution = (leg) => ((self && self.contributions) || []).find((c) => c.leg === leg && c.rank > 0);
  const rows = answer.legs.map((leg) => {
    const c = contribution(leg.leg);
    return [[swatch(leg.leg), leg.leg], c ? "yes" : "not by its own text", c ? String(c.rank) : "–", c ? Number(c.raw_score).toPrecision(4) : "–", stateOf(leg.state.replace("LEG_STATE_", ""), leg.reason), leg.reason];
  });
  return [
    el("h3", {}, "What the indexes know, asked with its own text"),
    el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "What the indexes know" }, el("table", {}, ...table([text("leg"), text("finds it"), right("rank"), right("raw score"), text("state"), text("reason", true)], rows))),
    ...neighbours(m, answer.hits.filter((hit) => hit.id !== m.id)),
  ];
}

// neighbours draws the memories that the graph connects with one, by way of which concept.
function neighbours(m, hits) {
  const near = hits.flatMap((hit) => hit.contributions.filter((c) => c.path.length > 1).map((c) => ({ hit, via: c.path.map((step) => step.concept).filter(Boolean) }))).filter((n) => n.via.length && n.hit.memory).slice(0, 8);
  const links = m.links.map((link) => ({ id: link.target, relation: link.relation })).slice(0, 8);
  if (near.length === 0 && links.length === 0) return [el("h3", {}, "Graph"), el("p", { class: "dim" }, "The graph connects it with no other memory.")];
  const concepts = [...new Set(near.map((n) => n.via.at(-1)))];
  const height = Math.max(near.length, concepts.length, 2) * 34 + 10;
  const middle = (i, of) => ((i + 0.5) * height) / of;
  const svg = (tag, attributes, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const short = (value, n) => (value.length > n ? beginning(value, n - 1) + "…" : value);
  const picture = svg("svg", { class: "graph", viewBox: `0 0 640 ${height}`, role: "img", "aria-label": `This memory, its concepts ${concepts.join(", ")}, and ${near.length} memories beside it, which the list below names` },
    ...concepts.map((_, i) => svg("line", { x1: 90, y1: height / 2, x2: 180, y2: middle(i, concepts.length) })),
    ...near.map((n, i) => svg("line", { x1: 330, y1: middle(concepts.indexOf(n.via.at(-1)), concepts.length), x2: 400, y2: middle(i, near.length) })),
    svg("text", { x: 5, y: height / 2 + 4 }, "this memory"),
    ...concepts.map((name, i) => svg("text", { x: 185, y: middle(i, concepts.length) + 4, class: "concept" }, short(name, 22))),
    ...near.map((n, i) => svg("text", { x: 405, y: middle(i, near.length) + 4 }, short(headline(n.hit.memory), 36))));
  return [
    el("h3", {}, "Neighbours in the graph"), near.length ? picture : "",
    el("ul", { class: "steps" },
      ...near.map((n) => el("li", {}, el("span", { class: "dim" }, n.via.join(" → ") + ": "), linkTo(n.hit.namespace, n.hit.id, headline(n.hit.memory)))),
      ...links.map((link) => el("li", {}, el("span", { class: "dim" }, link.relation + ": "), linkTo(m.namespace, link.id, link.id)))),
  ];
}

// --- Change ---------------------------------------------------------------------------------------------------------------

let editing = { mode: "remember", memory: null, from: null, filled: {} };
const titles = { remember: "Remember something", correct: "Correct", supersede: "Supersede by" };

function edit(mode, memory, from) {
  editing = { mode, memory, from };
  const m = memory || { content: "", title: "", tags: [], category: "", importance: 0.5, thread: "", sensitive: false };
  for (const name of ["content", "title", "category", "thread"]) editor[name].value = m[name];
  editor.tags.value = m.tags.join(", ");
  editor.importance.value = m.importance === undefined || m.importance === null ? 0.5 : m.importance;
  editor.sensitive.checked = m.sensitive;
  editing.filled = filledIn();
  byId("editor-title").textContent = titles[mode] + (memory ? ` “${beginning(headline(memory), 60)}”` : "");
  byId("save").textContent = { remember: "Remember", correct: "Correct", supersede: "Supersede" }[mode];
  editor.hidden = false;
  editor.scrollIntoView({ block: "nearest" });
  editor.content.focus();
}

// filledIn is what the form says.
const filledIn = () => ({
  content: editor.content.value, title: editor.title.value, tags: listOf(editor.tags.value), category: editor.category.value,
  importance: Number(editor.importance.value), thread: editor.thread.value, sensitive: editor.sensitive.checked,
});

function closeEditor() {
  editor.hidden = true;
  if (editing.from && editing.from.isConnected) editing.from.focus();
}

byId("new").addEventListener("click", (event) => edit("remember", null, event.target));
byId("cancel").addEventListener("click", closeEditor);
editor.addEventListener("keydown", (event) => event.key === "Escape" && !event.isComposing && closeEditor());

editor.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { mode, memory, filled } = editing;
  // A form changes line ends and divides tags at commas: what nobody has edited stays as the memory has it.
  const value = Object.fromEntries(Object.entries(filledIn()).map(([name, now]) => [name, memory && String(now) === String(filled[name]) ? memory[name] : now]));
  const bytes = new TextEncoder().encode(value.content).length;
  if (bytes > mostContent) {
    tell(`The text has ${bytes} bytes of at most ${mostContent}. Nothing was sent.`, true);
    return;
  }
  byId("save").disabled = true;
  const done = await attempt(async () => {
    if (mode === "correct") return change(memory, value);
    const namespace = memory ? memory.namespace : browse.namespace.value;
    const answer = mode === "remember"
      ? await send("POST", "v1/memories", { ...value, namespace })
      : await send("POST", path(memory.id, ":supersede", { expected_revision: memory.revision }), { ...value, namespace });
    lastWrite[namespace] = answer.revision_token;
    tell(mode === "remember" ? "Remembered." : "Superseded: recall leaves the old one out.");
    await show("");
    return true;
  });
  byId("save").disabled = false;
  if (done) closeEditor();
});

// change updates a memory's fields, and offers to take that back.
async function change(m, fields, undone) {
  return attempt(async () => {
    const mask = Object.keys(fields).join(",");
    const answer = await send("PATCH", path(m.id, "", { namespace: m.namespace, update_mask: mask, expected_revision: m.revision }), fields);
    lastWrite[m.namespace] = answer.revision_token;
    const before = Object.fromEntries(Object.keys(fields).map((name) => [name, m[name]]));
    tell(undone ? "Taken back." : "Changed.", false, ...(undone ? [] : [" ", button("Undo", () => change(answer.memory, before, true))]));
    await show("");
    return true;
  });
}

// forget removes a memory. This page keeps it for as long as it is open, and undoing stores it again: the gateway has no copy.
function forget(m) {
  return attempt(async () => {
    const kept = await one(m.namespace, m.id);
    await send("DELETE", path(m.id, "", { namespace: m.namespace }));
    tell("Forgotten. Only this page still has it, until it is closed.", false, " ", button("Undo: remember it again", () => attempt(async () => {
      const answer = await send("POST", "v1/memories:import", { memories: [kept] });
      lastWrite[m.namespace] = answer.revision_token;
      tell("Remembered again, with its id and times.");
      await show("");
    })));
    await show("");
  });
}

if (!openAddressed()) show("");
