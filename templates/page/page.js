// Puts the page together: the door, the line to the board, and the views.
import * as board from "/board.js";
import { setZone, when } from "/chart.js";
import * as chat from "/chat.js";
import { manages } from "/people.js";

const find = (id) => document.getElementById(id);
const PATIENCE_MS = 15000, COURSES_MS = 300000, AGE_MS = 15000;
const KNOWN = "picoclaw.name";
let line = null, since = 0, ordered = false, looking = 0;

function notice(text, kind = "bad") {
  const node = board.element("div", { class: `notice ${kind}` }, ...chat.words(text));
  find("notices").append(node);
  setTimeout(() => node.remove(), 8000);
}

function up(good) {
  const shown = find("line");
  since = good ? 0 : since || Date.now();
  const text = good ? "live" : `no connection since ${when(since / 1000)}`;
  shown.className = `line ${good ? "up" : "down"}`;
  document.body.toggleAttribute("data-away", !good);
  if (shown.textContent !== text) shown.textContent = text;
}

// Ask or tell the board something; null when that failed, which has been said then.
async function call(name, body, tell = notice) {
  const words = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(`/api/${name}`, { ...words, signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch {
    if (name === "stop") notice("STOP did not reach the board. Type `picoclaw stop` there, or press its button.");
    else if (body) tell("The board cannot be reached.");
    return null;
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) {
    if (said.outputs) board.show(said, call);
    return said;
  }
  if (answer.status === 401) door();
  else tell(said.error || `The board answered ${answer.status}.`);
  return null;
}

// Give an order that counts now or not at all: one that does not reach the board is not kept.
call.order = async (text) => {
  ordered = true;
  if (!await call("say", { text, id: chat.random() })) ordered = false;
};

const hidden = (id) => !find(id).checkVisibility();

// What was ordered elsewhere on the page is answered there; a question that it raises is shown.
function answered(said) {
  if (ordered && hidden("chat") && said.text) notice(said.text, said.problem ? "bad" : "good");
  ordered = false;
}

function asked() {
  const waiting = document.querySelectorAll(".question").length;
  const button = document.querySelector("[data-go=chat]");
  button.textContent = waiting ? `Chat (${waiting})` : "Chat";
  button.title = waiting ? "something waits for your yes" : "";
  if (waiting && ordered && hidden("chat")) go("chat");
}

// Until the board has been reached: what is known without it, and a place to type.
function lost() {
  let name = "";
  try { name = localStorage.getItem(KNOWN) ?? ""; } catch { /* then the page waits without a name */ }
  up(false);
  if (!find("house").hidden) return;
  find("house").hidden = false;
  find("name").textContent = name || "picoclaw";
  chat.show({ said: [], problem: "The board cannot be reached. What you send is kept here until it is back; nothing shown here is new." });
}

function door() {
  line?.close();
  line = null;
  find("house").hidden = true;
  find("door").hidden = false;
  find("code").focus();
}

async function enter() {
  let state = await call("state");
  if (!state) {
    if (find("door").hidden) {
      lost();
      setTimeout(enter, 3000);
    }
    return;
  }
  if (await chat.resend()) state = await call("state") ?? state;
  find("door").hidden = true;
  find("house").hidden = false;
  find("name").textContent = state.person ? `${state.name} · ${state.person}` : state.name;
  document.body.dataset.role = state.role;
  setZone(state.zone);
  document.title = `${state.name} · picoclaw`;
  try { localStorage.setItem(KNOWN, state.name); } catch { /* the page works without */ }
  find("notices").querySelector(".mark")?.remove();
  if (state.mark) find("notices").append(board.element("div", { class: "notice doubt mark" }, state.mark));
  chat.show(state);
  board.show(state, call);
  listen(state.seen);
  board.day(call);
}

function listen(seen) {
  line?.close();
  line = new EventSource(`/api/events?after=${seen}`);
  line.onopen = () => { up(true); chat.resend(); };
  line.onerror = () => {
    up(false);
    if (line?.readyState === EventSource.CLOSED) setTimeout(enter, 3000);
  };
  line.addEventListener("anew", enter);
  line.addEventListener("displaced", () => {
    line?.close();
    line = null;
    const shown = find("line");
    shown.className = "line down";
    shown.textContent = "paused: five others follow";
  });
  line.addEventListener("board", (event) => board.show(JSON.parse(event.data), call));
  line.addEventListener("ended", (event) => answered(JSON.parse(event.data)));
  for (const [kind, hear] of Object.entries(chat.heard)) line.addEventListener(kind, (event) => hear(JSON.parse(event.data)));
  for (const kind of ["ended", "said", "question"]) line.addEventListener(kind, () => look());
}

// Look again at what a turn, a rule or an answer may have changed; once for all that comes within a second.
function look() {
  clearTimeout(looking);
  looking = setTimeout(async () => { for (const name of ["board", "plans"]) board.show(await call(name) ?? {}, call); }, 300);
}

function go(view) {
  if (view === "plans" && line) look();
  document.body.dataset.view = view;
  for (const button of document.querySelectorAll("[data-go]")) {
    if (button.dataset.go === view) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
}

for (const button of document.querySelectorAll("[data-go]")) button.addEventListener("click", () => go(button.dataset.go));
document.addEventListener("asked", asked);
board.finds(call);
manages(call);
board.forms((sentence) => { go("chat"); chat.say(sentence); });

find("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  find("login-problem").textContent = "";
  const answer = await fetch("/api/login", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code: find("code").value }),
  }).catch(() => null);
  if (answer?.ok) {
    find("code").value = "";
    enter();
    return;
  }
  const said = await answer?.json().catch(() => ({}));
  find("login-problem").replaceChildren(...chat.words(said?.error || "The board cannot be reached."));
});

find("stop").addEventListener("click", () => call("stop", {}));
find("logout").addEventListener("click", async () => { if (await call("logout", {})) { chat.forget(); localStorage.removeItem(KNOWN); door(); } });
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && !line && !find("house").hidden) enter();
});
setInterval(() => document.visibilityState === "visible" && !find("house").hidden && board.day(call), COURSES_MS);
setInterval(board.age, AGE_MS);
navigator.serviceWorker?.register("/offline.js").catch(() => { /* the page works without */ });
chat.begins(call);
enter();
