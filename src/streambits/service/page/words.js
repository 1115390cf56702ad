// How figures are written, and how documents of the service are fetched.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const four = new Intl.NumberFormat("en", { minimumSignificantDigits: 4, maximumSignificantDigits: 4 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const SPACE = "\u00a0"; // between a number and its unit: no line break
export const MISSING = "–";

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const known = (write) => (value) => (isNumber(value) ? write(value) : MISSING);

export const count = known((value) => whole.format(value));
export const brief = known((value) => short.format(value));
export const decimal = known((value) => tenth.format(value).replace("-", "−"));
export const distance = known((value) => {
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(1);
  return (Number.isInteger(value) ? whole : four).format(value);
});
export const rate = known((value) => (value < 10 ? tenth : whole).format(value) + SPACE + "rows/s");
export const plural = (value, one, many = `${one}s`) => count(value) + SPACE + (value === 1 ? one : many);

export const percent = known((value) => (100 * value).toFixed(1) + SPACE + "%");
// A share that may be very small, such as a certificate: "0.0012 %", never "0.0 %".
export const share = known((value) => three.format(100 * value) + SPACE + "%");
export const interval = (found) =>
  isNumber(found.low) && isNumber(found.high)
    ? `${(100 * found.low).toFixed(1)} to ${percent(found.high)}`
    : MISSING;

export const bytes = known((value) => {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return (unit && value < 100 ? tenth : whole).format(value) + SPACE + units[unit];
});

export const duration = known((seconds) => {
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, size]) => seconds >= size);
  if (first < 0) return `0${SPACE}s`;
  return parts
    .slice(first, first + 2)
    .map(([name, size], place) => {
      const rest = place ? seconds % parts[first][1] : seconds;
      return [Math.floor(rest / size), name];
    })
    .filter(([number], place) => number || !place)
    .map(([number, name]) => `${number}${SPACE}${name}`)
    .join(" ");
});

let ahead = 0; // milliseconds by which the clock of the service is ahead of ours
export const ago = known((seconds) => {
  const age = (Date.now() + ahead) / 1000 - seconds;
  return age < 1.5 ? "just now" : `${duration(age)} ago`;
});

// An answer of the service that is not a success; the message is in the service's words.
export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// Ids may be larger than what a number of JavaScript holds: such a one stays a text of digits.
function exact(key, value, context) {
  const unsafe = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return unsafe && /^-?\d+$/.test(context?.source ?? "") ? context.source : value;
}

export const parse = (text) => JSON.parse(text, exact);

function words(detail, status) {
  if (typeof detail === "string" && detail) return detail;
  if (Array.isArray(detail)) return detail.map((part) => part?.msg ?? String(part)).join("; ");
  return `the service answered with status ${status}`;
}

// The document at a path, or a Refusal; `body` is text of JSON, which makes it a POST.
export async function ask(path, { body, token } = {}) {
  const headers = { Accept: "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body, cache: "no-store" });
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (isNumber(date) && Math.abs(date - Date.now()) > 5000) ahead = date - Date.now();
  let found = {};
  try {
    found = parse(await response.text());
  } catch {
    if (response.ok) throw new Refusal(response.status, `what ${path} answers is not JSON`);
  }
  if (!response.ok) throw new Refusal(response.status, words(found?.detail ?? found?.error, response.status));
  return found;
}
