// The conversation: what was said, what is being said, what picoclaw asks leave for.
import { element } from "/board.js";
import { chart, when } from "/chart.js";

const find = (id) => document.getElementById(id);
const box = find("said"), text = find("text");
const UNSENT = "picoclaw.unsent", BLOCKS = " ▁▂▃▄▅▆▇█";
let live = null, tell = async () => null;
const sending = new Set();

// What was typed and is not kept on the board yet outlives a reload: by its number, which the board takes once.
function unsent() {
  try { return JSON.parse(localStorage.getItem(UNSENT)) ?? []; } catch { return []; }
}

function keepUnsent(messages) {
  try { localStorage.setItem(UNSENT, JSON.stringify(messages)); } catch { /* it is kept on this page alone then */ }
}

export const forget = () => keepUnsent([]);

export const random = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// A chart that picoclaw has drawn with blocks, as a picture; null for other text. Each column is a value.
function drawn(text) {
  const rows = text.split("\n"), labels = rows.pop().trim().split(/\s+/), cells = rows.map((row) => [...row.split("┤")[1] ?? "x"]);
  const [high, low] = [rows[0], rows.at(-1)].map((row) => parseFloat(row));
  if (rows.length < 3 || !(low <= high) || cells.flat().some((cell) => !BLOCKS.includes(cell))) return null;
  const points = [], wide = Math.max(...cells.map((row) => row.length));
  for (let column = 0; column < wide; column++) {
    const eighths = cells.reduce((sum, row) => sum + BLOCKS.indexOf(row[column] ?? " "), 0);
    const value = low + (eighths - 1) / (8 * rows.length - 1) * (high - low);
    if (eighths) points.push([column, value, value, value]);
  }
  const dates = [labels.slice(0, labels.length / 2), labels.slice(labels.length / 2)].map((words) => words.join(" "));
  return points.length ? chart(points, 0, Math.max(1, wide - 1), [Math.min(520, innerWidth - 110), 180], dates, `Chart, ${low} to ${high}, ${dates.join(" to ")}`) : null;
}

// Code in backticks is shown as such; everything else stays text, and nothing of it is ever read as HTML.
export function words(said) {
  return said.split(/(```[\s\S]*?```|`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((piece) => {
    if (/^```[\s\S]*```$/.test(piece)) {
      const inside = piece.slice(3, -3).replace(/^\w*\n/, "").trimEnd();
      return drawn(inside) ?? element("pre", {}, inside);
    }
    if (/^`.+`$/.test(piece)) return element("code", {}, piece.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(piece)) return element("strong", {}, piece.slice(2, -2));
    return piece;
  });
}

function line(role, said, at, ...classes) {
  const node = element("div", { class: ["line-of", role, ...classes].join(" ") },
    element("span", { class: "unseen" }, role === "user" ? "You: " : "picoclaw: "), ...(role === "outcome" ? [said] : words(said)));
  if (at) node.append(element("time", {}, when(at)));
  return node;
}

function add(node) {
  const near = box.scrollHeight - box.scrollTop - box.clientHeight < 120;
  box.querySelector("p.none")?.remove();
  if (live && node !== live) box.insertBefore(node, live);
  else box.append(node);
  if (near || node.classList.contains("user")) box.scrollTop = box.scrollHeight;
  return node;
}

function begin() {
  box.setAttribute("aria-busy", "true");
  find("end").hidden = false;
  if (!live) {
    const node = line("assistant", "", 0, "waiting");
    node.dataset.text = "";
    live = node;
    add(node);
    node.append("…");
  }
}

function grow(more) {
  begin();
  live.dataset.text += more;
  const near = box.scrollHeight - box.scrollTop - box.clientHeight < 120;
  live.classList.remove("waiting");
  live.replaceChildren(...words(live.dataset.text));
  if (near) box.scrollTop = box.scrollHeight;
}

function end(said) {
  live?.remove();
  live = null;
  box.removeAttribute("aria-busy");
  find("end").hidden = true;
  if (said?.text) add(line("assistant", said.text, said.at, ...(said.problem ? ["failed"] : [])));
  if (said?.problem && said.problem !== said.text) add(element("p", { class: "bad" }, said.problem));
}

// A call that needs a yes: shown whole, with buttons while it is open; how it has ended stands in the conversation.
function ask(question) {
  queueMicrotask(() => document.dispatchEvent(new Event("asked")));
  const shown = find("questions"), name = `question-${question.number}`, old = find(name);
  if (question.outcome) {
    old?.remove();
    add(line("outcome", `${question.summary}\n${question.outcome}`, Date.now() / 1000));
    return;
  }
  const whole = element("pre", { tabindex: "0" }, question.call), [chat, person] = question.chat.split(":");
  const asked = question.chat === "page:home" ? "here" : `in ${chat === "terminal" ? "a terminal" : `${chat} ${person ?? ""}`.trim()}`;
  const card = element("div", { class: "card question", id: name },
    element("h3", {}, "May picoclaw do this?"),
    ...(question.means ? [element("p", {}, question.means), element("details", {}, element("summary", {}, "Exactly"), whole)] : [whole]),
    element("p", { class: "none" }, `Number ${question.number}, asked ${asked}; until ${when(question.until)}`),
    element("p", { class: "pair" }, ...[["yes", "Yes, exactly this"], ["no", "No"], ["always", "Always this"]].map(([word, says]) =>
      element("button", { type: "button", class: word === "yes" ? "main" : "plain", onclick: () => answer(question, word, card) }, says))));
  if (old) old.replaceWith(card);
  else shown.append(card);
  box.scrollTop = box.scrollHeight;
}

async function answer(question, word, card) {
  const buttons = card.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  if (!await tell("answer", { id: question.id, word })) for (const button of buttons) button.disabled = false;
}

const nodeOf = (id) => document.querySelector(`[data-id="${CSS.escape(id)}"]`);

// Take a message for kept; tells whether it is shown here.
function sent(id) {
  keepUnsent(unsent().filter((one) => one.id !== id));
  const node = nodeOf(id);
  node?.querySelectorAll("button").forEach((button) => button.remove());
  node?.classList.remove("waiting", "failed");
  return node;
}

async function send(one) {
  if (sending.has(one.id)) return false;
  sending.add(one.id);
  const node = nodeOf(one.id);
  node?.querySelectorAll("button").forEach((button) => button.remove());
  node?.classList.remove("failed");
  node?.classList.add("waiting");
  const done = await tell("say", { text: one.text, id: one.id });
  sending.delete(one.id);
  if (done) sent(one.id);
  else failed(one);
  return Boolean(done);
}

function failed(one) {
  const node = nodeOf(one.id);
  if (!node || node.querySelector("button")) return;
  node.classList.remove("waiting");
  node.classList.add("failed");
  node.append(
    element("button", { type: "button", onclick: () => send(one) }, "Send again"),
    element("button", { type: "button", onclick: () => { sent(one.id); node.remove(); } }, "Discard"));
}

function type(one) {
  const node = line("user", one.text, one.at);
  node.dataset.id = one.id;
  return add(node);
}

// Say something as if it had been typed; it is kept here until the board has it.
export function say(said) {
  const one = { id: random(), text: said, at: Date.now() / 1000 };
  keepUnsent([...unsent(), one]);
  type(one);
  send(one);
}

// Send what the board has not got yet; tells whether it took any of it.
export async function resend() {
  let took = false;
  for (const one of unsent()) {
    if (!await send(one)) break;
    took = true;
  }
  return took;
}

export const heard = {
  begun: begin,
  text: (data) => grow(data.text),
  tool: (data) => add(element("details", { class: "tool" }, element("summary", {}, `used ${data.name}`), `${data.arguments} → ${data.result}`)),
  said: (data) => {
    if (data.id && sent(data.id)) return;
    const node = add(line(data.role, data.text, data.at));
    if (data.id) node.dataset.id = data.id;
  },
  ended: end,
  question: ask,
};

export function show(state) {
  live = null;
  box.replaceChildren(...state.said.map((one) => line(one.role, one.text, one.at)));
  if (state.problem) add(element("p", { class: "bad" }, state.problem));
  if (!state.said.length && !state.problem) add(element("p", { class: "none" }, "Ask for a reading, a reminder, or what the board can do."));
  if (state.live) { begin(); if (state.live.text) grow(state.live.text); } else end();
  find("questions").replaceChildren();
  (state.questions ?? []).filter((one) => !one.outcome).forEach(ask);
  document.dispatchEvent(new Event("asked"));
  for (const one of unsent()) { type(one); failed(one); }
  box.scrollTop = box.scrollHeight;
}

export function begins(call) {
  tell = call;
  let atEnd = true;
  box.addEventListener("scroll", () => { if (box.clientHeight) atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 120; });
  new ResizeObserver(() => { if (atEnd) box.scrollTop = box.scrollHeight; }).observe(box);
  const fit = () => { text.style.height = "auto"; text.style.height = `${text.scrollHeight + 2}px`; };
  find("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (!said) return;
    text.value = "";
    fit();
    say(said);
  });
  text.addEventListener("input", fit);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !matchMedia("(pointer: coarse)").matches) {
      event.preventDefault();
      find("ask").requestSubmit();
    }
  });
  find("end").addEventListener("click", () => call("say", { text: "/stop", id: random() }));
}
