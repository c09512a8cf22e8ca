// Draws a series as an SVG picture. Points are [moment in seconds, lowest, mean, highest].
const zone = {};
const SVG = "http://www.w3.org/2000/svg";

// A moment by the owner's clock, as it is written everywhere else: 2026-11-25 23:21, or the time alone for today.
export function when(at) {
  const text = (seconds) => new Date(seconds * 1000).toLocaleString("sv", { dateStyle: "short", timeStyle: "short", ...zone });
  const [day, time] = text(at).split(" ");
  return text(Date.now() / 1000).startsWith(day) ? time : `${day} ${time}`;
}

// The owner's time zone; one that the browser does not know leaves its own.
export function setZone(name) {
  delete zone.timeZone;
  try {
    new Intl.DateTimeFormat("sv", { timeZone: name });
    zone.timeZone = name;
  } catch { /* its own */ }
}

function part(name, attributes, ...inside) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...inside);
  return node;
}

// Cut where nothing was measured for three times as long as usual.
function runs(points) {
  const gaps = points.slice(1).map((point, n) => point[0] - points[n][0]).sort((a, b) => a - b);
  const apart = 3 * (gaps[gaps.length >> 1] || 1);
  const found = [];
  points.forEach((point, n) => {
    if (!n || point[0] - points[n - 1][0] > apart) found.push([]);
    found.at(-1).push(point);
  });
  return found;
}

function steps(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(Number((n * step).toPrecision(10)));
  return found;
}

const HOURS = [1 / 12, 1 / 6, 0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 168, 336, 744, 1488, 2232];

// A few round moments by the clock of whoever looks, as many as have room.
function moments(begin, end, wide) {
  const hours = (end - begin) / 3600;
  const most = Math.max(2, Math.min(5, Math.floor(wide / 90)));
  const apart = HOURS.find((step) => hours / step <= most) ?? hours / most;
  const day = new Date(begin * 1000);
  day.setHours(0, 0, 0, 0);
  const found = [];
  for (let n = 0; found.length < 9; n++) {
    const moment = new Date(day);
    moment.setMinutes(n * apart * 60);
    const at = moment / 1000;
    if (at > end - 0.05 * (end - begin)) break;
    if (at >= begin + 0.02 * (end - begin)) found.push([at, apart >= 24 ? moment.toLocaleDateString([], { month: "short", day: "numeric" }) : moment.toLocaleTimeString("sv", { timeStyle: "short" })]);
  }
  return found;
}

// `size` is [width, height]; without `labels` it is a small picture that only shows the course, and two texts as
// `labels` stand at its ends in place of moments. `other` is a second
// series on the same axes.
export function chart(points, begin, end, size, labels, title, other = []) {
  const [wide, high] = size;
  const [left, bottom, top] = labels ? [52, 26, 8] : [1, 2, 2];
  const all = [...points, ...other];
  const low = Math.min(...all.map((p) => p[1])), most = Math.max(...all.map((p) => p[3]));
  const room = (most - low) * 0.06 || Math.max(Math.abs(most) * 0.01, 0.5);
  const x = (at) => (left + (at - begin) / (end - begin) * (wide - left - 4)).toFixed(1);
  const y = (value) => (top + (most + room - value) / (most - low + 2 * room) * (high - top - bottom)).toFixed(1);
  const picture = part("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": title });
  if (labels) {
    for (const value of steps(low - room, most + room, 5)) {
      picture.append(part("path", { d: `M${left} ${y(value)}H${wide - 4}`, class: "grid" }));
      picture.append(part("text", { x: left - 6, y: y(value), dy: 4, "text-anchor": "end" }, String(value)));
    }
    if (labels.length) {
      const ends = labels.map((text, n) => part("text", { x: n ? wide - 4 : left, y: high - 6, "text-anchor": n ? "end" : "start" }, text));
      picture.append(...ends);
    } else for (const [at, text] of moments(begin, end, wide - left)) {
      picture.append(part("text", { x: x(at), y: high - 6, "text-anchor": "middle" }, text));
    }
  } else {
    picture.setAttribute("aria-hidden", "true");
  }
  for (const run of runs(points)) {
    const edge = [...run.map((p) => `${x(p[0])},${y(p[3])}`), ...[...run].reverse().map((p) => `${x(p[0])},${y(p[1])}`)];
    if (labels) picture.append(part("polygon", { points: edge.join(" "), class: "band" }));
    picture.append(part("polyline", { points: run.map((p) => `${x(p[0])},${y(p[2])}`).join(" "), class: "mean" }));
  }
  for (const run of runs(other)) {
    picture.append(part("polyline", { points: run.map((p) => `${x(p[0])},${y(p[2])}`).join(" "), class: "mean other" }));
  }
  return picture;
}
