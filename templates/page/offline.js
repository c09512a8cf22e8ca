// Keeps the page's own files, so that it opens and says so when the board cannot be reached. Nothing of the board is kept.
const FILES = ["/", "/page.css", "/page.js", "/board.js", "/chat.js", "/chart.js", "/people.js", "/icon.svg", "/icon.png", "/app.webmanifest"];
const NAME = "page", PATIENCE_MS = 4000;

async function give(path) {
  const kept = await caches.open(NAME);
  try {
    const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-cache" });
    if (answer.ok) await kept.put(path, answer.clone());
    return answer;
  } catch {
    return await kept.match(path) ?? Response.error();
  }
}

addEventListener("install", (event) => event.waitUntil(caches.open(NAME).then((kept) => kept.addAll(FILES)).then(() => skipWaiting())));
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const { origin, pathname } = new URL(event.request.url);
  if (event.request.method === "GET" && origin === location.origin && FILES.includes(pathname)) event.respondWith(give(pathname));
});
