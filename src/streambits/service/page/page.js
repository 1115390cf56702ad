// The page of a running service: which document is read when, and what is done with it.

import * as panels from "./panels.js";
import { at, say, write } from "./panels.js";
import * as tryIt from "./try.js";
import { ask, parse, plural } from "./words.js";

const POLL = 2000; // milliseconds between questions for the status, where events do not come
const SLOW = 10000; // for documents that cost the service more
const REOPEN = 30000; // after the service has refused a stream of events
const HELD = "streambits.token";

const documents = [
  { name: "recall", show: panels.recall },
  { name: "drift", show: panels.drift },
  { name: "spectrum", show: panels.spectrum },
  { name: "bits", show: panels.bits },
  { name: "epochs", show: panels.epochs },
].map((one) => ({ ...one, due: 0, busy: false }));

let status = null;
let heard = 0; // when the last status came
let told = 0; // and the last one by an event
let asking = false;
let lost = null; // since when the service does not answer
let events = null;
let newest = null; // the epoch that was told last

function announce(words) {
  write("announcer", words);
}

function connection(words) {
  write("connection", words);
}

// Read every document anew: now, or at the next tick if one is being read.
function renew() {
  for (const one of documents) one.due = 0;
  for (const one of documents) read(one);
  if (token() && status && !panels.isGathering(status)) readMap();
}

const isTold = () => Date.now() - told < 2 * POLL;

function show(found) {
  const before = status;
  status = found;
  heard = Date.now();
  lost = null;
  panels.pulse(found);
  if (JSON.stringify(found.settings) !== JSON.stringify(before?.settings)) panels.settings(found);
  connection(isTold() ? "Live" : "Live, asked every 2 seconds");
  if (before === null) newest = found.epoch;
  if (before === null || panels.isGathering(before) !== panels.isGathering(found)) renew();
  else if (before.epoch !== found.epoch) begun(found.epoch);
  if (before !== null && before.healthy !== found.healthy) announce(found.sentence);
}

function begun(epoch) {
  if (epoch === newest) return; // an event and a status both tell it
  newest = epoch;
  announce(`Epoch ${epoch} has begun.`);
  renew();
  setTimeout(renew, POLL); // a service may tell it a moment before all of its documents do
}

async function read(one) {
  if (status && panels.isGathering(status)) {
    say(one.name, "This comes with the first codes, when enough rows have come.");
    return;
  }
  if (one.busy || !status) return;
  one.busy = true;
  one.due = Date.now() + SLOW;
  let found;
  try {
    found = await ask(`v1/${one.name}`);
  } catch (error) {
    if (error.status) say(one.name, error.message); // without one, the service does not answer
    return;
  } finally {
    one.busy = false;
  }
  if (found.mean === null) one.due = Date.now() + POLL; // it is being measured
  one.show(found); // what fails here is a mistake of the page, and is in the console
}

async function readStatus() {
  if (asking) return;
  asking = true;
  try {
    show(await ask("v1/status"));
  } catch (error) {
    lost ??= new Date();
    const words = error.status ? error.message : "it does not answer";
    write("sentence", `No figures from the service since ${lost.toLocaleTimeString()}: ${words}.`);
    at("sentence").className = "banner bad";
    connection("Not connected; asked every 2 seconds");
  } finally {
    asking = false;
  }
}

function tick() {
  if (document.hidden) return;
  if (!isTold() && Date.now() - heard >= POLL - 100) readStatus();
  else if (status) panels.pulse(status); // the age of the last commit grows
  for (const one of documents) if (Date.now() >= one.due) read(one);
}

function listen() {
  events = new EventSource("v1/events");
  events.addEventListener("status", (event) => {
    told = Date.now();
    show(parse(event.data));
  });
  events.addEventListener("epoch", (event) => begun(parse(event.data).epoch));
  events.addEventListener("drift", () => {
    const one = documents.find(({ name }) => name === "drift");
    if (Date.now() >= one.due - SLOW + 1000) read(one); // at most once a second
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, REOPEN);
  });
}

const token = () => sessionStorage.getItem(HELD);

function askForToken(wanted) {
  at("token-form").hidden = !wanted;
}

async function readMap(typed) {
  try {
    panels.map(await ask("v1/map", { token: typed ?? token() }));
    if (typed) sessionStorage.setItem(HELD, typed);
    askForToken(false);
  } catch (error) {
    const refused = error.status === 401 || error.status === 403;
    if (refused) sessionStorage.removeItem(HELD);
    askForToken(refused || !token());
    say("map", refused ? `The token was refused: ${error.message}` : error.message);
  }
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = at("token").value;
  at("token").value = "";
  readMap(typed);
});

at("forget").addEventListener("click", () => {
  sessionStorage.removeItem(HELD);
  at("map").querySelector(".content").hidden = true;
  askForToken(true);
  at("token").focus();
});

at("copy").addEventListener("click", async () => {
  const words = at("command").textContent;
  try {
    await navigator.clipboard.writeText(words);
  } catch { // only pages of this machine, or by HTTPS, have a clipboard
    getSelection().selectAllChildren(at("command"));
    document.execCommand("copy");
  }
  at("copy").textContent = "Copied";
  announce("The command was copied.");
  setTimeout(() => (at("copy").textContent = "Copy"), 2000);
});

new ResizeObserver(panels.drawMap).observe(at("map-canvas"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", panels.drawMap);
document.addEventListener("visibilitychange", tick);
tryIt.begin(token, () => status?.keep_rows !== false);
readStatus();
listen();
setInterval(tick, POLL / 2);
