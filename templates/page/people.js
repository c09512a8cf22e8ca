// People, agents, links, teams and grants: the lists and the form are drawn from what the board says of them.
import { element } from "/board.js";

const find = (id) => document.getElementById(id);
const box = find("entry"), form = find("entry-form"), lists = find("household-lists"), TAGS = { choice: "select", lines: "textarea" };
let call;

// In the dialogue while it is open, so that what is wrong stands beside what was typed.
function say(text, bad = true) {
  const said = find(box.open ? "entry-said" : "household-said");
  said.textContent = text;
  said.className = bad ? "bad" : "";
}

function draw(found) {
  const focused = document.activeElement?.dataset.key ?? "";
  lists.replaceChildren(...found.kinds.flatMap(([kind, title, one, fields, rows]) => {
    const button = (act, key, values) => {
      const name = `${act} ${one} ${key}`.trim(), body = { kind, act: act.toLowerCase(), key };
      return element("button", { "data-key": name, "aria-label": name, onclick: () => act !== "Remove" ? open(name, body, fields, values) : confirm(`${name}?`) && send(body) }, `${act}${act === "Remove" ? "" : "…"}`);
    };
    return [element("h3", {}, title), element("ul", { class: "rows" }, ...rows.map(([key, text, values]) => element("li", {}, element("strong", {}, key), ` ${text}`,
      element("p", { class: "pair" }, ...(values?.length ? [button("Edit", key, values)] : []), ...(values ? [button("Remove", key)] : []))))),
    button("Add", "")];
  }));
  const [, one] = focused.split(" ");
  for (const key of [`Add ${one}`, focused]) lists.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

async function send(body) {
  const found = await call("change_household", body, say);
  if (!found) return;
  box.close();
  draw(found);
  say(found.text, false);
}

function open(name, body, fields, values) {
  find("entry-title").textContent = name;
  const inputs = fields.map(([field, text, kind, choices, usual], n) => {
    const input = element(TAGS[kind] ?? "input", { autocomplete: "off", ...(body.key && !n ? { disabled: "" } : {}) }, ...choices.map((value) => element("option", { value }, value || "–")));
    input.value = n ? values?.[n - 1] ?? usual : body.key;
    return input;
  });
  form.replaceChildren(...fields.map(([field, text], n) => element("label", {}, n ? `${field.replace("_", " ")}: ${text}` : text, inputs[n])), element("button", { class: "main" }, "Save"));
  form.onsubmit = (event) => {
    event.preventDefault();
    const changed = fields.map(([field, , , , usual], n) => [field, inputs[n].value, values?.[n - 1] ?? usual]).slice(1).filter(([, value, before]) => value !== before);
    send({ ...body, key: inputs[0].value, values: Object.fromEntries(changed) });
  };
  box.showModal();
  say("");
}

export function manages(asks) {
  call = asks;
  find("household").addEventListener("toggle", async (event) => {
    const found = event.target.open && await call("household");
    if (found) draw(found);
  });
}
