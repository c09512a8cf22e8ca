// The dashboard: sensors with their course, outputs with their leases, plans and troubles.
import { chart, when } from "/chart.js";

const find = (id) => document.getElementById(id);
const series = new Map();
const courses = new Map();
const shownIn = new WeakMap();
let looked = null, ahead = 0, isStopped = false;
const STALE_S = 180, LENGTHS_S = [30, 60, 300, 600, 1800, 3600, 7200, 14400, 28800];

export function element(tag, words = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(words)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...inside);
  return node;
}

for (const box of document.querySelectorAll("dialog")) {
  const name = `${box.id}-title`;
  box.setAttribute("aria-labelledby", name);
  box.prepend(element("form", { method: "dialog" }, element("h2", { id: name }), element("button", { class: "plain", "aria-label": "Close" }, "✕")));
}

// Change a list only where it differs, so that neither the focus nor a screen reader is lost.
function fill(list, nodes) {
  if (!nodes.length) nodes = [element("li", { class: "none" }, "nothing")];
  const focused = document.activeElement?.dataset?.key;
  const news = nodes.map((node) => node.outerHTML).join("");
  if (shownIn.get(list) === news) return;
  shownIn.set(list, news);
  list.replaceChildren(...nodes);
  if (!focused) return;
  const same = list.querySelector(`[data-key="${CSS.escape(focused)}"]`);  // or what has taken its place, such as Off for On
  (same ?? list.querySelector(`[data-key$="${CSS.escape(focused.slice(focused.indexOf(" ")))}"]`))?.focus();
}

function sensor(value, call) {
  const key = `${value.sensor} ${value.quantity}`;
  series.set(key, value);
  const body = [element("span", { class: "what" }, `${value.sensor} · ${value.quantity}`)];
  if (value.text) body.push(element("span", { class: "value" }, value.text));
  else body.push(element("span", { class: "why bad" }, value.problem || "no value"));
  if (value.doubt) body.push(element("span", { class: "why doubt" }, value.doubt));
  const age = value.at && value.text ? Date.now() / 1000 + ahead - value.at : 0;
  if (age > 60) body.push(element("span", { class: "why" }, `measured ${ago(age)}`));
  const course = courses.get(key);
  if (course?.points.length > 1) body.push(chart(course.points, course.begin, course.end, [160, 36], false, ""));
  const button = element("button", { class: age > STALE_S ? "stale" : "", "data-key": `sensor ${key}`, "aria-haspopup": "dialog", onclick: () => past(key, call, 24, 0, "", true) }, ...body);
  return element("li", {}, button);
}

function ago(seconds) {
  return seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : seconds < 172800 ? `${Math.round(seconds / 3600)} h ago`
    : `${Math.round(seconds / 86400)} days ago`;
}

// How old each value is goes on counting while nothing comes from the board.
export function age() {
  if (series.size) fill(find("sensors"), [...series.values()].map((value) => sensor(value, looked.call)));
}

function length(seconds) {
  const minutes = Math.round(seconds / 60), hours = Math.floor(minutes / 60);
  return seconds < 120 ? `${Math.ceil(seconds)} s` : hours ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}

function output(row, call) {
  const left = row.left === null ? "" : `, ${length(row.left)} left`;
  const words = row.armed ? `${row.level}${left}` : "dry run: not armed";
  const head = element("div", { class: "head" },
    element("span", {}, element("strong", {}, row.name), " ", element("span", { class: row.away ? "on" : "note" }, words)));
  if (row.away) {
    const off = () => call("off", { name: row.name });
    head.append(element("button", { "data-key": `off ${row.name}`, "aria-label": `Switch ${row.name} off`, onclick: off }, "Off"));
  } else {
    const to = row.level === "on" ? "off" : "on";
    head.append(element("button", { "data-key": `on ${row.name}`, "aria-label": `Switch ${row.name} ${to} for a while`,
      "aria-haspopup": "dialog", ...(isStopped ? { disabled: "" } : {}), onclick: () => ask(row, to, call) }, to === "on" ? "On…" : "Off…"));
  }
  const item = element("li", {}, head, element("div", { class: "note" }, `${row.kind}, ${row.place}`));
  if (row.trouble) item.append(element("div", { class: "bad" }, row.trouble));
  return item;
}

// Ask for how long, and give the order as a command of the chat, which is guarded there.
function ask(row, to, call) {
  const box = find("switch"), form = find("switch-form");
  const times = LENGTHS_S.filter((seconds) => !row.longest || seconds < row.longest);
  const choices = times.map((seconds) => element("option", { value: `${seconds}s` }, length(seconds)));
  find("switch-title").textContent = `Switch ${row.name} ${to}`;
  form.elements.time.replaceChildren(...choices, element("option", { value: "" }, `as long as it may${row.longest ? `: ${length(row.longest)}` : ""}`));
  form.elements.time.value = times.includes(600) ? "600s" : times.length ? `${times.at(-1)}s` : "";
  find("switch-level").hidden = form.elements.level.disabled = !row.graded || to === "off";
  form.querySelector("button").textContent = `Switch ${to}`;
  form.onsubmit = (event) => {
    event.preventDefault();
    box.close();
    const level = form.elements.level.disabled || form.elements.level.value === "100" ? to : `${form.elements.level.value}%`;
    call.order(`/set ${row.name} ${level} ${form.elements.time.value}`.trim());
  };
  box.showModal();
}

const problem = (text) => element("li", { class: "bad" }, text);

function plain(row, call) {
  const item = element("li", {}, element("strong", {}, row.name), " ", element("span", { class: row.good ? "" : "bad" }, row.text));
  if (row.at) item.append(" ", element("span", { class: "note" }, when(row.at)));
  if (!row.command) return item;
  const name = row.name.replace(/\.$/, ""), what = `${row.command === "/job" ? "number" : "rule"} ${name}`;
  const button = (does, says) => element("button", { "data-key": `${does} ${what}`, "aria-label": `${says} ${what}`,
    onclick: () => (does !== "remove" || confirm(`Delete ${what}?\n${row.text}`)) && call.order(`${row.command} ${does} ${name}`) }, says);
  item.append(element("p", { class: "pair" }, row.paused ? button("resume", "Resume") : button("pause", "Pause"), button("remove", "Delete")));
  if (row.paused) item.classList.add("paused");
  return item;
}

// An agent: who answers in the conversation is marked, another one can be chosen.
function agent(row, call) {
  const item = element("li", {}, element("strong", {}, row.name), " ", element("span", {}, row.text));
  item.append(row.command ? element("p", { class: "pair" }, element("button", { "data-key": row.command, "aria-label": `Talk to ${row.name}`,
    onclick: () => call.order(row.command) }, "Talk to it")) : element("span", { class: "note" }, " answers in the chat"));
  return item;
}

export function show(news, call) {
  const shown = news.readings;
  if (news.now) ahead = news.now - Date.now() / 1000;
  looked ??= { call };
  if (shown) {
    fill(find("sensors"), shown.map((value) => sensor(value, call)));
    choose("series", shown.map((value) => [`${value.sensor} ${value.quantity}`, `${value.sensor} · ${value.quantity}${value.unit ? ` in ${value.unit}` : ""}`]));
  } else if (news.readings_problem) fill(find("sensors"), [problem(news.readings_problem)]);
  if (news.outputs) {
    const known = news.outputs.length || news.output_problems.length || news.stopped;
    find("outputs-part").hidden = find("stop").hidden = !known;
    isStopped = Boolean(news.stopped);
    fill(find("outputs"), [...news.output_problems.map(problem), ...news.outputs.map((row) => output(row, call))]);
    stopped(news.stopped, call);
    choose("then", [["tell me", "tell me"], ...news.outputs.filter((row) => row.for_rules).map((row) => [`turn on the ${row.name.replaceAll("_", " ")}`, `switch ${row.name} on`])]);
  }
  for (const name of ["jobs", "rules", "errors"]) {
    if (news[name]) fill(find(name), news[name].map((row) => plain(row, call)));
    else if (news[`${name}_problem`]) fill(find(name), [problem(news[`${name}_problem`])]);
  }
  if (news.agents) {
    find("agents-part").hidden = news.agents.length < 2;
    fill(find("agents"), news.agents.map((row) => agent(row, call)));
  }
  if (news.facts) {
    find("facts").replaceChildren(...news.facts.flatMap((row) => [
      element("dt", {}, row.name), element("dd", { class: row.good ? "" : "bad" }, row.text)]));
  }
}

// Change what can be chosen only where it differs, so that a choice is not lost.
function choose(name, options) {
  const list = find("new-rule").elements[name], had = list.value, news = JSON.stringify(options);
  if (shownIn.get(list) === news) return;
  shownIn.set(list, news);
  list.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  if (options.some(([value]) => value === had)) list.value = had;
}

// The forms say in the chat what a person would type there.
export function forms(say) {
  const job = find("new-job"), rule = find("new-rule"), part = (form, name) => form.elements[name];
  const fit = () => {
    const counted = part(job, "when").value === "in";
    for (const [name, used] of [["minutes", counted], ["time", !counted]]) {
      part(job, name).disabled = part(job, name).parentNode.hidden = !used;
    }
  };
  const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
  const whens = ["in some minutes", "next at", "tomorrow at", "every day at", "Monday to Friday at", ...days.map((day) => `every ${day} at`)];
  part(job, "when").append(...whens.map((text) => element("option", { value: { "in some minutes": "in", "next at": "at" }[text] ?? text.toLowerCase() }, text)));
  part(job, "when").addEventListener("change", fit);
  fit();
  const made = (form, sentence) => form.addEventListener("submit", (event) => {
    event.preventDefault();
    say(sentence());
    form.reset();
    fit();
    form.closest("details").open = false;
  });
  made(job, () => {
    const what = part(job, "what").value.trim(), when = part(job, "when").value;
    if (when === "in") return `remind me in ${part(job, "minutes").value} minutes to ${what}`;
    const moment = `${when} ${part(job, "time").value}`;
    return /^(at|tomorrow)/.test(when) ? `remind me ${moment} to ${what}` : `${moment} remind me to ${what}`;
  });
  made(rule, () => {
    const value = part(rule, "value").value, minutes = Number(part(rule, "minutes").value);
    const lasting = minutes ? ` for ${minutes} minute${minutes === 1 ? "" : "s"}` : "";
    return `${part(rule, "then").value} when the ${part(rule, "series").value} is ${part(rule, "side").value} ${value}${lasting}`;
  });
}

function stopped(who, call) {
  const old = document.querySelector(".stopped");
  if (!who) return old?.remove();
  if (old) return;
  const text = element("span", {}, element("strong", {}, "Everything is stopped."), ` Nothing can be switched on until you resume.`);
  const resume = () => confirm("End the stop? Rules and plans may switch outputs on again.") && call("resume", {});
  find("notices").append(element("div", { class: "notice stopped" }, text, element("button", { class: "owners", onclick: resume }, "Resume")));
}

export async function day(call) {
  const found = await call("day");
  for (const one of found?.series ?? []) courses.set(`${one.sensor} ${one.quantity}`, { points: one.points, begin: found.begin, end: found.end });
  if (series.size) fill(find("sensors"), [...series.values()].map((value) => sensor(value, call)));
}

// The course of one series, in a dialogue of its own: for how many hours, ending how many hours back, beside which other.
async function past(key, call, hours, back = 0, other = "", opens = false) {
  const value = series.get(key), box = find("past"), place = find("past-chart");
  const mine = looked = { key, call, hours, back, other };
  const named = (one) => `${one.sensor} · ${one.quantity}`;
  find("past-title").textContent = named(value);
  for (const button of box.querySelectorAll("[data-hours]")) button.setAttribute("aria-pressed", button.dataset.hours === String(hours));
  find("past-later").disabled = !back;
  const alike = [...series].filter(([name, one]) => name !== key && one.unit === value.unit);
  find("past-compare").hidden = !alike.length;
  find("past-other").replaceChildren(element("option", { value: "" }, "nothing"), ...alike.map(([name, one]) => element("option", { value: name }, named(one))));
  find("past-other").value = other;
  if (!box.open) box.showModal();
  find("past-figures").textContent = "…";
  const words = (one) => new URLSearchParams({ sensor: one.sensor, quantity: one.quantity, hours, back });
  find("past-csv").href = `/api/csv?${words(value)}`;
  const wanted = [value, ...(other ? [series.get(other)] : [])];
  const found = await Promise.all(wanted.map((one) => call(`history?${words(one)}`)));
  if (found.includes(null) || looked !== mine) return;
  const shown = (number) => `${Number(number.toPrecision(4))} ${value.unit}`.trim();
  const figures = found.map(({ points }, n) => {
    const whose = other ? `${named(wanted[n])}${n ? " (dashed)" : ""}: ` : "";
    if (!points.length) return `${whose}Nothing was measured in this time.`;
    const mean = points.reduce((sum, point) => sum + point[2], 0) / points.length;
    return `${whose}Lowest ${shown(Math.min(...points.map((p) => p[1])))}, mean ${shown(mean)}, highest ${shown(Math.max(...points.map((p) => p[3])))}, last ${shown(points.at(-1)[2])}.`;
  }).join("\n");
  const [{ points, begin, end }, beside] = found;
  if (opens && points.length && points[0][0] > end - 3600) return past(key, call, 1);  // of a new sensor there is no day yet
  const size = [Math.max(260, Math.min(700, place.clientWidth)), 260];
  place.replaceChildren(...(points.length || beside?.points.length ? [chart(points, begin, end, size, true, figures, beside?.points)] : []));
  find("past-figures").textContent = figures;
}

function again(news) {
  const { key, call, hours, back, other } = { ...looked, ...news };
  past(key, call, hours, Math.max(0, back), other);
}

for (const button of document.querySelectorAll("[data-hours]")) {
  button.addEventListener("click", () => again({ hours: Number(button.dataset.hours) }));
}
find("past-earlier").addEventListener("click", () => again({ back: looked.back + looked.hours }));
find("past-later").addEventListener("click", () => again({ back: looked.back - looked.hours }));
find("past-other").addEventListener("change", (event) => again({ other: event.target.value }));

// Notes are searched on the board; a result opens the whole file, which is a day or what is kept for good.
export function finds(call) {
  const open = async (path) => {
    const found = await call(`note?${new URLSearchParams({ path })}`);
    if (!found) return;
    find("note-title").textContent = path;
    find("note-text").textContent = found.text;
    find("note").showModal();
  };
  find("find-notes").addEventListener("submit", async (event) => {
    event.preventDefault();
    const found = await call(`notes?${new URLSearchParams({ words: event.target.elements.words.value })}`);
    if (!found) return;
    const rows = found.notes;
    find("notes-found").textContent = rows.length ? `${rows.length} found` : "No note has these words.";
    find("notes").replaceChildren(...rows.map((row) => element("li", {}, element("strong", {}, row.name.replace(/^memory\/|\.md$/g, "")), element("p", {}, row.text),
      element("button", { "aria-label": `Open ${row.name}`, onclick: () => open(row.name) }, "Open"))));
  });
}
