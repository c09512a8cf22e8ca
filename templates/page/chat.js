// The conversation: what was said, what is being said, what picoclaw asks leave for.
import { element } from "/board.js";

const find = (id) => document.getElementById(id);
const box = find("said"), text = find("text");
let live = null, tell = async () => null;

const random = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// Code in backticks is shown as such; everything else stays text, and nothing of it is ever read as HTML.
function words(said) {
  return said.split(/(```[\s\S]*?```|`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((piece) => {
    if (/^```[\s\S]*```$/.test(piece)) return element("pre", {}, piece.slice(3, -3).replace(/^\w*\n/, "").trimEnd());
    if (/^`.+`$/.test(piece)) return element("code", {}, piece.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(piece)) return element("strong", {}, piece.slice(2, -2));
    return piece;
  });
}

function clock(at) {
  const moment = new Date(at * 1000), today = moment.toDateString() === new Date().toDateString();
  return moment.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "short", timeStyle: "short" });
}

function line(role, said, at, ...classes) {
  const node = element("div", { class: ["line-of", role, ...classes].join(" ") },
    element("span", { class: "unseen" }, role === "user" ? "You: " : "picoclaw: "), ...words(said));
  if (at) node.append(element("time", {}, clock(at)));
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

// A call that needs a yes: shown whole, with buttons while it is open, and afterwards with how it has ended.
function ask(question) {
  const shown = find("questions"), name = `question-${question.number}`;
  const rest = question.outcome
    ? [element("p", { role: "status" }, question.outcome),
      element("p", { class: "pair" }, element("button", { type: "button", onclick: () => card.remove() }, "Close"))]
    : [element("p", { class: "none" }, `Number ${question.number}, asked in ${question.chat}; until ${clock(question.until)}`),
      element("p", { class: "pair" }, ...[["yes", "Yes, exactly this"], ["no", "No"], ["always", "Always this"]].map(([word, says]) =>
        element("button", { type: "button", class: word === "yes" ? "main" : "plain", onclick: () => answer(question, word, card) }, says)))];
  const card = element("div", { class: "card question", id: name },
    element("h3", {}, question.outcome ? "What picoclaw has asked" : "May picoclaw do this?"),
    element("pre", { tabindex: "0" }, question.call), ...rest);
  const old = find(name);
  if (old) old.replaceWith(card);
  else shown.append(card);
  box.scrollTop = box.scrollHeight;
}

async function answer(question, word, card) {
  const buttons = card.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  if (!await tell("answer", { id: question.id, word })) for (const button of buttons) button.disabled = false;
}

export const heard = {
  begun: begin,
  text: (data) => grow(data.text),
  tool: (data) => add(element("details", { class: "tool" }, element("summary", {}, `used ${data.name}`), `${data.arguments} → ${data.result}`)),
  said: (data) => {
    const known = data.id && document.querySelector(`[data-id="${CSS.escape(data.id)}"]`);
    known?.querySelector("button")?.remove();
    if (known) return known.classList.remove("waiting", "failed");
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
  if (!state.said.length) add(element("p", { class: "none" }, "Ask for a reading, a reminder, or what the board can do."));
  if (state.live) { begin(); if (state.live.text) grow(state.live.text); } else end();
  find("questions").replaceChildren();
  (state.questions ?? []).forEach(ask);
  box.scrollTop = box.scrollHeight;
}

export function begins(call) {
  tell = call;
  const fit = () => { text.style.height = "auto"; text.style.height = `${text.scrollHeight + 2}px`; };
  async function send(said, number, node) {
    node.classList.add("waiting");
    node.classList.remove("failed");
    if (await call("say", { text: said, id: number })) return;
    node.classList.replace("waiting", "failed");
    const again = element("button", { type: "button", onclick: () => { again.remove(); send(said, number, node); } }, "Send again");
    node.append(again);
  }
  find("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (!said) return;
    const number = random();
    const node = line("user", said, Date.now() / 1000);
    node.dataset.id = number;
    add(node);
    text.value = "";
    fit();
    send(said, number, node);
  });
  text.addEventListener("input", fit);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && matchMedia("(pointer: fine)").matches) {
      event.preventDefault();
      find("ask").requestSubmit();
    }
  });
  find("end").addEventListener("click", () => call("say", { text: "/stop", id: random() }));
}
