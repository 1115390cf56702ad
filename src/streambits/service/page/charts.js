// Charts: SVG of the width that there is, so that letters have the same size in any window.

import { brief, count, decimal, isNumber } from "./words.js";

const SPACE = "http://www.w3.org/2000/svg";
const LEFT = 44, RIGHT = 12, TOP = 20, BOTTOM = 34;
const drawings = new WeakMap();
let numbered = 0;

const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) redraw(target);
});

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function redraw(host) {
  const width = Math.floor(host.clientWidth);
  const { title, description, draw, drawn } = drawings.get(host);
  if (!width || drawn === width) return;
  drawings.get(host).drawn = width;
  const height = Math.floor(host.clientHeight);
  const id = `chart-${(numbered += 1)}`;
  const named = [svg("title", { id: `${id}-t` }, title), svg("desc", { id: `${id}-d` }, description)];
  const attributes = {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-labelledby": `${id}-t`, "aria-describedby": `${id}-d`,
  };
  host.replaceChildren(svg("svg", attributes, ...named, ...draw(width, height)));
}

// Draw into an element now, and again when its width changes.
function show(host, title, description, draw) {
  const before = drawings.get(host);
  drawings.set(host, { title, description, draw, drawn: 0 });
  if (!before) observer.observe(host);
  redraw(host);
}

const text = (x, y, words, anchor = "middle", name = "") =>
  svg("text", { x, y, "text-anchor": anchor, class: name }, words);
const line = (x1, y1, x2, y2, name) => svg("line", { x1, y1, x2, y2, class: name });
const scale = (low, high, from, to) => (value) =>
  from + ((value - low) / (high - low || 1)) * (to - from);

// Round numbers from low to high, about `wanted` of them.
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) {
    found.push(Math.abs(at) < step / 1e6 ? 0 : at);
  }
  return found;
}

function axes(width, height, { x, xs, y, ys, xWords, yWords, xTitle, yTitle }) {
  const bottom = height - BOTTOM;
  return [
    ...ys.map((value) => line(LEFT, y(value), width - RIGHT, y(value), "grid")),
    ...ys.map((value) => text(LEFT - 6, y(value) + 4, yWords(value), "end")),
    ...xs.map((value) => text(x(value), bottom + 15, xWords(value))),
    text(width - RIGHT, height - 4, xTitle, "end", "title"),
    text(0, 10, yTitle, "start", "title"),
  ];
}

function path(xs, ys, x, y) {
  let down = true;
  let found = "";
  xs.forEach((at, place) => {
    const value = ys[place];
    if (isNumber(at) && isNumber(value)) {
      found += `${down ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      down = false;
    } else down = true; // a gap
  });
  return found;
}

// Lines over the rows of the stream, an alarm line, and marks where epochs began.
export function drift(host, { rows, lines, alarm, marks }, title, description) {
  show(host, title, description, (width, height) => {
    const values = lines.flatMap((one) => one.values).filter(isNumber);
    const ends = [...rows, ...marks.map((mark) => mark.rows)].filter(isNumber);
    const low = ends.length ? ends.reduce((a, b) => Math.min(a, b)) : 0;
    const high = Math.max(ends.reduce((a, b) => Math.max(a, b), 1), low + 1);
    const most = Math.max(values.reduce((a, b) => Math.max(a, b), 1), (alarm ?? 0) * 1.15);
    const least = values.reduce((a, b) => Math.min(a, b), 0);
    const x = scale(low, high, LEFT, width - RIGHT);
    const y = scale(least, most, height - BOTTOM, TOP);
    const drawn = axes(width, height, {
      x, y, xs: ticks(low, high, width / 110), ys: ticks(least, most, 5),
      xWords: brief, yWords: decimal, xTitle: "rows seen", yTitle: "evidence",
    });
    let free = -Infinity; // where the next label fits
    for (const mark of marks) {
      const at = x(mark.rows);
      drawn.push(line(at, TOP, at, height - BOTTOM, "mark"));
      if (at >= free) {
        const right = at > width - 70;
        drawn.push(text(at + (right ? -4 : 4), TOP + 10, `epoch ${mark.epoch}`, right ? "end" : "start", "name"));
        free = at + 62;
      }
    }
    if (isNumber(alarm)) {
      drawn.push(line(LEFT, y(alarm), width - RIGHT, y(alarm), "alarm"));
      drawn.push(text(LEFT + 4, y(alarm) - 5, `alarm at ${decimal(alarm)}`, "start", "alarm"));
    }
    for (const one of lines) {
      drawn.push(svg("path", { d: path(rows, one.values, x, y), class: `line ${one.name}` }));
    }
    return drawn;
  });
}

// The energy of each direction, on a logarithmic scale; those that make bits are filled.
export function spectrum(host, energies, bits, title, description) {
  show(host, title, description, (width, height) => {
    const positive = energies.filter((value) => value > 0);
    const top = Math.ceil(Math.log10(Math.max(...positive)) + 1e-9);
    const bottom = Math.min(Math.floor(Math.log10(Math.min(...positive))), top - 1);
    const y = scale(bottom, top, height - BOTTOM, TOP);
    const x = scale(0, energies.length, LEFT, width - RIGHT);
    const step = Math.max(1, Math.round((top - bottom) / 4));
    const powers = [];
    for (let power = bottom; power <= top; power += step) powers.push(power);
    const wide = Math.max(x(1) - x(0) - (energies.length > width / 4 ? 0 : 1), 0.5);
    const ordinals = ticks(0, energies.length, width / 60).filter((value) => value >= 1);
    return [
      ...axes(width, height, {
        x: (value) => x(value - 0.5), y, xs: ordinals, ys: powers, xWords: count,
        yWords: (power) => (Math.abs(power) < 4 ? brief(10 ** power) : `1e${power}`),
        xTitle: "direction", yTitle: "energy",
      }),
      ...energies.map((value, place) => {
        const at = value > 0 ? y(Math.log10(value)) : height - BOTTOM;
        return svg("rect", {
          x: x(place), y: at, width: wide, height: Math.max(height - BOTTOM - at, 0),
          class: place < bits ? "bar" : "bar rest",
        });
      }),
    ];
  });
}

// The share of ones of each bit, above and below one half.
export function balance(host, shares, far, title, description) {
  show(host, title, description, (width, height) => {
    const y = scale(0, 1, height - BOTTOM, TOP);
    const x = scale(0, shares.length, LEFT, width - RIGHT);
    const wide = Math.max(x(1) - x(0) - (shares.length > width / 4 ? 0 : 1), 0.5);
    return [
      ...axes(width, height, {
        x: (value) => x(value + 0.5), y, xs: ticks(0, shares.length - 1, width / 60),
        ys: [0, 0.5, 1], xWords: count, yWords: (value) => `${100 * value} %`,
        xTitle: "bit", yTitle: "ones",
      }),
      ...shares.map((value, place) =>
        svg("rect", {
          x: x(place), y: Math.min(y(value), y(0.5)) - 0.5, width: wide,
          height: Math.abs(y(value) - y(0.5)) + 1, class: far(value) ? "bar far" : "bar",
        })),
      line(LEFT, y(0.5), width - RIGHT, y(0.5), "middle"),
    ];
  });
}

// Round ends of an axis that has all intervals.
export function ends(intervals) {
  const values = intervals.flatMap(({ mean, low, high }) => [mean, low, high]).filter(isNumber);
  if (!values.length) return [0, 1];
  return [Math.floor(Math.min(...values) * 10) / 10, Math.ceil(Math.max(...values) * 10) / 10];
}

// A mean and its interval on an axis, for a cell of a table that has the figures too.
export function whisker(host, { mean, low, high }, [from, to]) {
  const x = scale(from, to, 0, 100);
  const drawn = [svg("line", { x1: 0, x2: 100, y1: 8, y2: 8, class: "track" })];
  if (isNumber(low) && isNumber(high)) {
    drawn.push(svg("rect", { x: x(low), y: 4, width: Math.max(x(high) - x(low), 1), height: 8, class: "spread" }));
  }
  if (isNumber(mean)) drawn.push(svg("rect", { x: x(mean) - 0.75, y: 1, width: 1.5, height: 14, class: "mean" }));
  const attributes = { viewBox: "0 0 100 16", preserveAspectRatio: "none", class: "whisker", "aria-hidden": "true" };
  host.replaceChildren(svg("svg", attributes, ...drawn));
}

const SHAPES = 4;

function point(pen, shape, x, y, size) {
  pen.beginPath();
  if (shape === 0) pen.arc(x, y, size, 0, 2 * Math.PI);
  else if (shape === 1) pen.rect(x - size, y - size, 2 * size, 2 * size);
  else {
    const corners = shape === 2 ? [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]] : [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]];
    corners.forEach(([dx, dy], place) => pen[place ? "lineTo" : "moveTo"](x + dx * size, y + dy * size));
    pen.closePath();
  }
  pen.fill();
}

// Where most of the values lie, with a margin: few that are far away must not squeeze the others.
function span(values) {
  const sorted = values.filter(isNumber).sort((a, b) => a - b);
  const [low, high] = [0.005, 0.995].map((part) => sorted[Math.round(part * (sorted.length - 1))]);
  const margin = 0.25 * (high - low);
  return [Math.max(low - margin, sorted[0]), Math.min(high + margin, sorted.at(-1))];
}

// Points in the plane; a group has a shape and one of the colours --map-0 to --map-3, group -1 is
// grey. Returns how many lie outside.
export function scatter(canvas, { x, y, group }) {
  const style = getComputedStyle(canvas);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width || !x.length) return 0;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const [[left, right], [bottom, top]] = [span(x), span(y)];
  const size = x.length > 3000 ? 1.5 : x.length > 800 ? 2 : 3;
  const unit = Math.min((width - 16) / (right - left || 1), (height - 16) / (top - bottom || 1));
  pen.globalAlpha = x.length > 800 ? 0.7 : 0.9;
  const depth = (place) => (group[place] < 0 ? Infinity : group[place]);
  const order = [...x.keys()].sort((a, b) => depth(b) - depth(a) || 0); // the current epoch is on top
  let outside = 0;
  for (const place of order) {
    const across = width / 2 + (x[place] - (left + right) / 2) * unit;
    const down = height / 2 - (y[place] - (bottom + top) / 2) * unit;
    if (!(across >= 0 && across <= width && down >= 0 && down <= height)) {
      outside += 1;
      continue;
    }
    const shape = Math.max(group[place], 0) % SHAPES;
    pen.fillStyle = style.getPropertyValue(group[place] < 0 ? "--map-none" : `--map-${shape}`);
    point(pen, shape, across, down, size);
  }
  return outside;
}

// The shape and colour of a group, for a legend.
export function symbol(group) {
  const shape = Math.max(group, 0) % SHAPES;
  const shapes = [
    svg("circle", { cx: 6, cy: 6, r: 4 }), svg("rect", { x: 2, y: 2, width: 8, height: 8 }),
    svg("path", { d: "M6 1L11 10L1 10Z" }), svg("path", { d: "M6 0.5L11.5 6L6 11.5L0.5 6Z" }),
  ];
  return svg("svg", { viewBox: "0 0 12 12", width: 12, height: 12, class: `symbol map-${group < 0 ? "none" : shape}`, "aria-hidden": "true" }, shapes[shape]);
}
