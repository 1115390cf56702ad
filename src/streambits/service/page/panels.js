// What each panel shows of its document. Texts come in by textContent alone: ids may hold HTML.

import * as charts from "./charts.js";
import {
  ago, brief, bytes, count, decimal, duration, interval, isNumber, MISSING, percent, plural, rate, share,
} from "./words.js";

export const at = (id) => document.getElementById(id);

export function tag(name, words = "", className = "") {
  const made = document.createElement(name);
  made.textContent = words;
  if (className) made.className = className;
  return made;
}

export function write(id, words) {
  if (at(id).textContent !== words) at(id).textContent = words; // a selection stays
}

// A panel shows its content, or a message in its place.
export function say(name, message) {
  const panel = at(name);
  const [place, content] = [panel.querySelector(".message"), panel.querySelector(".content")];
  place.textContent = message ?? "";
  place.hidden = !message;
  content.hidden = Boolean(message);
}

function pair([name, value, note]) {
  const made = tag("div");
  const [number, ...unit] = value.split("\u00a0");
  const figure = tag("dd", number);
  if (unit.length) figure.append(" ", tag("span", unit.join(" "), "unit"));
  made.append(tag("dt", name), figure);
  if (note) made.append(tag("dd", note, "quiet small"));
  return made;
}

function pairs(id, entries) {
  const list = at(id);
  entries.map(pair).forEach((made, place) => {
    const held = list.children[place];
    if (!held) list.append(made);
    else if (!held.isEqualNode(made)) held.replaceWith(made); // a selection elsewhere stays
  });
  while (list.children.length > entries.length) list.lastChild.remove();
}

// Rows are few and wait, or there are none: what the other panels show comes later.
export function isGathering(status) {
  return status.waiting > 0 || status.seen === 0;
}

function gathering(status) {
  at("gathering").hidden = !isGathering(status);
  if (!isGathering(status)) return;
  const told = status.waiting > 0 && /landmarks/.test(status.sentence); // by the sentence above
  at("gathering-words").className = told ? "unseen" : "";
  write("gathering-words", status.waiting > 0
    ? `Rows wait for landmarks: ${count(status.waiting)} of ${count(status.gathered)}.`
    : "No rows have come yet.");
  write("gathering-note", status.waiting > 0
    ? "They are searched by true distances meanwhile; codes begin when there are enough."
    : `Codes begin after the first ${count(status.gathered)} rows.`);
  at("gathering-bar").value = status.gathered ? Math.min(status.waiting / status.gathered, 1) : 0;
}

function plain(value) {
  if (value === null || value === undefined) return "default";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function pulse(status) {
  write("sentence", status.sentence || (status.healthy ? "All is well." : "Something is wrong."));
  at("sentence").className = `banner ${status.healthy ? "good" : "bad"}`;
  document.title = status.healthy ? "streambits" : "(!) streambits";
  gathering(status);
  const lag = isNumber(status.lag) ? plural(status.lag, "message") : "no source";
  pairs("figures", [
    ["Rows", count(status.rows), `${brief(status.seen)} seen, ${brief(status.removed)} removed`],
    ["Arriving", rate(status.rows_per_second), `up for ${duration(status.uptime)}`],
    ["Lag", lag, isNumber(status.lag) ? "behind the source" : "rows come by HTTP"],
    ["Queue", plural(status.queue, "change"), "waiting to be committed"],
    ["Rejects", plural(status.rejects, "row"), "that were left out"],
    ["Last commit", isNumber(status.last_commit) ? ago(status.last_commit) : "none yet", `journal of ${bytes(status.journal_bytes)}`],
    ["Memory", bytes(status.memory), "resident"],
    ["Epoch", isGathering(status) ? "none yet" : count(status.epoch), isGathering(status) ? "rows wait for landmarks" : "of new codes"],
  ]);
}

export function settings(status) {
  const known = Object.entries(status.settings ?? {});
  pairs("settings", known.map(([name, value]) => [name, plain(value)]));
}

const byNumber = ([one], [other]) => Number(one) - Number(other);

// Whether epochs that are over are found less often than the current one, beyond doubt.
function verdict(epochs) {
  const current = epochs.at(-1);
  const worse = epochs.slice(0, -1).filter((one) => one.high < current.low).map((one) => one.epoch);
  if (epochs.length < 2) return "";
  if (!worse.length) return "Older epochs are as good as the current one.";
  const names = worse.length > 1 ? `epochs ${worse.slice(0, -1).join(", ")} and ${worse.at(-1)}` : `epoch ${worse[0]}`;
  return `Codes of ${names} are worse than those of epoch ${current.epoch}: encoding them again would help.`;
}

export function recall(found) {
  if (!isNumber(found.mean)) return say("recall", found.detail ?? "Recall has not been measured yet.");
  say("recall");
  write("recall-mean", percent(found.mean));
  write("recall-interval", isNumber(found.low) ? `(${interval(found)})` : "");
  write("recall-words", `of the ${count(found.k)} true neighbours are found (recall@${found.k}), measured now with ${plural(found.queries, "query", "queries")} on ${plural(found.rows, "row")} of the sample.`);
  const epochs = Object.entries(found.epochs ?? {}).sort(byNumber);
  const [from, to] = charts.ends(epochs.map(([, one]) => one));
  write("recall-axis", `${(100 * from).toFixed(0)} to ${(100 * to).toFixed(0)} %`);
  write("recall-verdict", verdict(epochs.map(([epoch, one]) => ({ epoch, ...one }))));
  at("recall-epochs").replaceChildren(
    ...epochs.map(([epoch, one]) => {
      const row = tag("tr");
      const [name, chart] = [tag("th", epoch), tag("td", "", "wide")];
      name.scope = "row";
      charts.whisker(chart, one, [from, to]);
      row.append(name, chart, tag("td", percent(one.mean), "number"), tag("td", interval(one), "number"));
      return row;
    }),
  );
}

const last = (values) => (values ?? []).filter(isNumber).at(-1);

export function drift(found) {
  const { rows = [], affinity, evidence = [], proportion_evidence: proportions } = found.measurements ?? {};
  if (!rows.length) return say("drift", "No measurements yet: one is made after every few hundred rows.");
  say("drift");
  const lines = [{ name: "first", values: evidence }];
  if (proportions) lines.push({ name: "second", values: proportions });
  at("drift-second").hidden = !proportions;
  const strongest = Math.max(...lines.map((one) => last(one.values) ?? 0));
  const words = strongest >= found.alarm
    ? `Drift: the evidence of ${decimal(strongest)} is beyond the alarm at ${decimal(found.alarm)}.`
    : `No drift now: the evidence is ${decimal(strongest)}, and an alarm is at ${decimal(found.alarm)}.`;
  write("drift-words", words);
  const marks = (found.epochs ?? []).filter((one) => isNumber(one.rows)).sort((a, b) => a.rows - b.rows);
  const from = rows[0]; // measurements are kept for a while, epochs for ever
  const shown = marks.filter((one) => one.rows >= from);
  const begun = marks.map((one) => `epoch ${one.epoch} at row ${count(one.rows)}`).join(", ");
  charts.drift(at("drift-chart"), { rows, lines, alarm: found.alarm, marks: shown },
    "Evidence of drift over the rows of the stream", `${words} ${begun ? `New epochs: ${begun}.` : "There was no new epoch."}`);
  const closeness = last(affinity);
  write("drift-affinity", isNumber(closeness) ? `Mean affinity of recent rows to the landmarks: ${closeness.toFixed(3)}.` : "");
}

export function spectrum(found) {
  const energies = (found.energies ?? []).filter(isNumber);
  if (!energies.some((value) => value > 0)) return say("spectrum", "No directions have been learned yet.");
  say("spectrum");
  const words = isNumber(found.certificate)
    ? `Proven: the sketch is off by at most ${share(found.certificate)} of the energy.`
    : "This method has no certificate.";
  write("spectrum-words", words);
  const total = energies.reduce((sum, value) => sum + value, 0);
  const used = energies.slice(0, found.bits).reduce((sum, value) => sum + value, 0);
  const note = energies.length > found.bits
    ? `The first ${count(found.bits)} of ${count(energies.length)} directions make the bits and hold ${percent(used / total)} of this energy.`
    : `${plural(energies.length, "direction")} for ${plural(found.bits, "bit")}; the first ten hold ${percent(energies.slice(0, 10).reduce((sum, value) => sum + value, 0) / total)} of this energy.`;
  write("spectrum-note", note);
  charts.spectrum(at("spectrum-chart"), energies, found.bits, "Energy of each direction, logarithmic", note);
}

const FAR = 0.1; // from one half: a bit that says less
const isFar = (value) => Math.abs(value - 0.5) > FAR;

export function bits(found) {
  const shares = (found.balance ?? []).filter(isNumber);
  if (!shares.length) return say("bits", "There are no codes yet.");
  say("bits");
  const even = shares.filter((value) => !isFar(value)).length;
  const worst = shares.reduce((held, value, place) => (Math.abs(value - 0.5) > Math.abs(shares[held] - 0.5) ? place : held), 0);
  const words = even === shares.length
    ? `All ${plural(shares.length, "bit")} are balanced: 40 to 60 % of their values are ones.`
    : `${count(even)} of ${plural(shares.length, "bit")} are balanced (40 to 60 % ones); bit ${worst} is the least, with ${percent(shares[worst])} ones.`;
  write("bits-words", words);
  write("bits-changed", isNumber(found.changed)
    ? `${share(found.changed)} of the bits changed at the last refresh.`
    : "There was no refresh yet.");
  charts.balance(at("bits-chart"), shares, isFar, "Share of ones of each bit", words);
}

export function epochs(found) {
  const held = found.epochs ?? [];
  if (!held.length) return say("epochs", "There are no epochs yet: the first begins with the first codes.");
  say("epochs");
  const total = held.reduce((sum, one) => sum + one.rows, 0);
  at("epochs-rows").replaceChildren(
    ...[...held].sort((a, b) => b.epoch - a.epoch).map((one) => {
      const row = tag("tr");
      const name = tag("th", count(one.epoch));
      name.scope = "row";
      if (one.current) name.append(" ", tag("span", "current", "badge"));
      row.append(name, tag("td", count(one.rows), "number"),
        tag("td", total ? percent(one.rows / total) : MISSING, "number"),
        tag("td", one.recall ? percent(one.recall.mean) : MISSING, "number"));
      return row;
    }),
  );
  at("command-box").hidden = !found.command && !found.hint;
  at("command-line").hidden = !found.command;
  write("command-words", found.command ? "To bring all codes to the current epoch, run" : found.hint ?? "");
  write("command", found.command ?? "");
}

let points = null; // of the map, to be drawn again in another size or other colours

export function drawMap() {
  if (!points) return;
  const outside = charts.scatter(at("map-canvas"), points);
  write("map-outside", outside ? `${plural(outside, "row")} ${outside === 1 ? "lies" : "lie"} far outside.` : "");
}

export function map(found) {
  const { x = [], y = [], epoch = [] } = found;
  if (!x.length) {
    points = null;
    return say("map", "The sample is empty.");
  }
  say("map");
  const present = [...new Set(epoch)].sort((a, b) => (b ?? -1) - (a ?? -1));
  const groupOf = (one) => (isNumber(one) ? present.indexOf(one) : -1); // the newest is group 0
  const name = (one) => (isNumber(one) ? `epoch ${one}` : "any epoch");
  points = { x, y, group: epoch.map(groupOf) };
  const sizes = present.map((one) => epoch.filter((value) => value === one).length);
  at("map-legend").replaceChildren(
    ...present.map((one, group) => {
      const entry = tag("span", "", "entry");
      entry.append(charts.symbol(groupOf(one)), `${name(one)}: ${plural(sizes[group], "row")}`);
      return entry;
    }),
  );
  const words = present.map((one, group) => `${count(sizes[group])} of ${name(one)}`).join(", ");
  at("map-canvas").setAttribute("aria-label", `Map of ${plural(x.length, "row")} of the sample: ${words}`);
  drawMap();
}
