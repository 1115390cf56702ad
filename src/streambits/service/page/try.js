// Try it: the neighbours of one row by Hamming distance, by refined codes and by true distance.

import { at, tag, write } from "./panels.js";
import { ask, count, distance, plural } from "./words.js";

const WAYS = [
  ["hamming", "Hamming distance", "of the codes, in bits"],
  ["refined", "Refined distance", "of what the codes decode to"],
  ["true", "True distance", "of the raw rows"],
];

const NONE = { error: new Error("raw rows are not kept in this index (keep_rows).") };

// The id that was typed, as JSON. Digits are kept as they are: a number would round long ones.
function idOf(words) {
  const typed = words.trim();
  if (!typed) throw new Error("Enter an id first.");
  if (/^-?(0|[1-9]\d*)$/.test(typed)) return typed;
  const quoted = /^"(.*)"$/s.exec(typed);
  return JSON.stringify(quoted ? quoted[1] : typed);
}

function vectorOf(words) {
  const parts = words.replace(/[[\]()]/g, " ").split(/[\s,;]+/).filter(Boolean);
  if (!parts.length) throw new Error("Paste a vector first.");
  for (const [place, part] of parts.entries()) {
    if (!Number.isFinite(Number(part))) throw new Error(`Value ${place + 1} is ${part}, which is not a number.`);
  }
  return parts.map(Number);
}

function question(form) {
  const k = Number(at("try-k").value);
  const what = form.elements.kind.value === "id"
    ? `"id": ${idOf(at("try-id").value)}`
    : `"rows": [${JSON.stringify(vectorOf(at("try-vector").value))}]`;
  return (by) => `{${what}, "k": ${k}, "by": "${by}"}`;
}

async function answer(body, token) {
  try {
    const found = await ask("v1/search", { body, token });
    return { ids: found.ids[0], distances: found.distances[0] };
  } catch (error) {
    return { error };
  }
}

function list([, title, note], found, truth) {
  const box = tag("div", "", "answer");
  box.append(tag("h3", title), tag("p", note, "quiet small"));
  if (found.error) {
    box.append(tag("p", `Not available: ${found.error.message}`, "message"));
    return box;
  }
  const items = found.ids.map((id, place) => {
    const item = tag("li");
    const name = tag("span", "", "id");
    name.append(tag("span", String(id)));
    if (truth?.has(String(id))) {
      const mark = tag("span", "✓", "hit");
      mark.setAttribute("aria-hidden", "true");
      name.append(" ", mark, tag("span", " (a true neighbour)", "unseen"));
    }
    item.append(name, tag("span", distance(found.distances[place]), "distance"));
    return item;
  });
  const ordered = tag("ol");
  ordered.append(...items);
  box.append(items.length ? ordered : tag("p", "There are no rows to find.", "message"));
  return box;
}

function summary([hamming, refined, exact]) {
  if ([hamming, refined, exact].every((one) => one.error)) return `The search was refused: ${hamming.error.message}`;
  if (exact.error) return "Without true distances there is nothing to compare with.";
  const truth = new Set(exact.ids.map(String));
  const share = (found) => count(found.ids.filter((id) => truth.has(String(id))).length);
  const parts = [[hamming, "Hamming distance"], [refined, "refined distance"]]
    .filter(([found]) => !found.error)
    .map(([found, name], place) => `${name} ${place ? "" : "finds "}${share(found)}`);
  return `Of the ${plural(truth.size, "true neighbour")}, ${parts.join(" and ")}.`;
}

async function search(form, token, keepsRows) {
  const body = question(form);
  write("try-words", "Searching …");
  const answers = await Promise.all(WAYS.map(([by]) => (by === "true" && !keepsRows() ? NONE : answer(body(by), token()))));
  const exact = answers[2];
  const truth = exact.error ? null : new Set(exact.ids.map(String));
  write("try-words", summary(answers));
  const refused = answers.every((one) => one.error);
  at("try-answers").replaceChildren(
    ...(refused ? [] : WAYS.map((way, place) => list(way, answers[place], place < 2 ? truth : null))),
  );
}

// `token()` is the one that the service has accepted, or null; `keepsRows()` whether there may be
// true distances: a request that is refused would be in the console.
export function begin(token, keepsRows) {
  const form = at("try-form");
  form.addEventListener("change", () => {
    const byId = form.elements.kind.value === "id";
    at("try-id-box").hidden = !byId;
    at("try-vector-box").hidden = byId;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.setAttribute("aria-busy", "true");
    try {
      await search(form, token, keepsRows);
    } catch (error) {
      write("try-words", error.message);
      at("try-answers").replaceChildren();
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
}
