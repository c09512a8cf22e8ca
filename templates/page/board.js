// The dashboard: sensors with their course, outputs with their leases, plans and troubles.
import { chart } from "/chart.js";

const find = (id) => document.getElementById(id);
const series = new Map();
const courses = new Map();
const shownIn = new WeakMap();
let looked = null;

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

// Change a list only where it differs, so that neither the focus nor a screen reader is lost.
function fill(list, nodes) {
  if (!nodes.length) nodes = [element("li", { class: "none" }, "nothing")];
  const focused = document.activeElement?.dataset?.key;
  const news = nodes.map((node) => node.outerHTML).join("");
  if (shownIn.get(list) === news) return;
  shownIn.set(list, news);
  list.replaceChildren(...nodes);
  if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function sensor(value, call) {
  const key = `${value.sensor} ${value.quantity}`;
  series.set(key, value);
  const body = [element("span", { class: "what" }, `${value.sensor} · ${value.quantity}`)];
  if (value.text) body.push(element("span", { class: "value" }, value.text));
  else body.push(element("span", { class: "why bad" }, value.problem || "no value"));
  if (value.doubt) body.push(element("span", { class: "why doubt" }, value.doubt));
  const course = courses.get(key);
  if (course?.points.length > 1) body.push(chart(course.points, course.begin, course.end, [160, 36], false, ""));
  const button = element("button", { "data-key": `sensor ${key}`, "aria-haspopup": "dialog", onclick: () => past(key, call, 24) }, ...body);
  return element("li", {}, button);
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
  }
  const item = element("li", {}, head, element("div", { class: "note" }, `${row.kind}, ${row.place}`));
  if (row.trouble) item.append(element("div", { class: "bad" }, row.trouble));
  return item;
}

const problem = (text) => element("li", { class: "bad" }, text);

function plain(row) {
  const when = row.at ? new Date(row.at * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" }) : "";
  const item = element("li", {}, element("strong", {}, row.name), " ", element("span", { class: row.good ? "" : "bad" }, row.text));
  if (when) item.append(" ", element("span", { class: "note" }, when));
  return item;
}

export function show(news, call) {
  const shown = news.readings;
  if (shown) {
    fill(find("sensors"), shown.map((value) => sensor(value, call)));
  } else if (news.readings_problem) fill(find("sensors"), [problem(news.readings_problem)]);
  if (news.outputs) {
    const known = news.outputs.length || news.output_problems.length || news.stopped;
    find("outputs-part").hidden = find("stop").hidden = !known;
    fill(find("outputs"), [...news.output_problems.map(problem), ...news.outputs.map((row) => output(row, call))]);
    stopped(news.stopped, call);
  }
  for (const name of ["jobs", "rules", "errors"]) {
    if (news[name]) fill(find(name), news[name].map(plain));
    else if (news[`${name}_problem`]) fill(find(name), [problem(news[`${name}_problem`])]);
  }
  if (news.facts) {
    find("facts").replaceChildren(...news.facts.flatMap((row) => [
      element("dt", {}, row.name), element("dd", { class: row.good ? "" : "bad" }, row.text)]));
  }
}

function stopped(who, call) {
  const old = document.querySelector(".stopped");
  if (!who) return old?.remove();
  if (old) return;
  const text = element("span", {}, element("strong", {}, "Everything is stopped."), ` Nothing can be switched on (${who}).`);
  const resume = () => confirm("End the stop? Rules and plans may switch outputs on again.") && call("resume", {});
  find("notices").append(element("div", { class: "notice stopped" }, text, element("button", { onclick: resume }, "Resume")));
}

export async function day(call) {
  const found = await call("day");
  for (const one of found?.series ?? []) courses.set(`${one.sensor} ${one.quantity}`, { points: one.points, begin: found.begin, end: found.end });
  if (series.size) fill(find("sensors"), [...series.values()].map((value) => sensor(value, call)));
}

// The course of one series, in a dialogue of its own.
async function past(key, call, hours) {
  const value = series.get(key), box = find("past");
  looked = { key, call };
  find("past-title").textContent = `${value.sensor} · ${value.quantity}`;
  for (const button of box.querySelectorAll("[data-hours]")) button.setAttribute("aria-pressed", button.dataset.hours === String(hours));
  if (!box.open) box.showModal();
  find("past-figures").textContent = "…";
  const words = new URLSearchParams({ sensor: value.sensor, quantity: value.quantity, hours });
  const found = await call(`history?${words}`);
  if (!found || looked.key !== key) return;
  const points = found.points;
  if (!points.length) {
    find("past-chart").replaceChildren();
    find("past-figures").textContent = "Nothing was measured in this time.";
    return;
  }
  const shown = (number) => `${Number(number.toPrecision(4))} ${value.unit}`.trim();
  const mean = points.reduce((sum, point) => sum + point[2], 0) / points.length;
  const figures = `Lowest ${shown(Math.min(...points.map((p) => p[1])))}, mean ${shown(mean)}, highest ${shown(Math.max(...points.map((p) => p[3])))}, last ${shown(points.at(-1)[2])}.`;
  find("past-chart").replaceChildren(chart(points, found.begin, found.end, [Math.max(260, Math.min(700, find("past-chart").clientWidth)), 260], true, figures));
  find("past-figures").textContent = figures;
}

for (const button of document.querySelectorAll("[data-hours]")) {
  button.addEventListener("click", () => looked && past(looked.key, looked.call, Number(button.dataset.hours)));
}
