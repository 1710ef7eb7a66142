"use strict";

// The pages work without this file. With it, they update themselves, and buttons do not reload the page.

const EVERY_MS = 1000;
const live = document.getElementById("live");
const pause = document.getElementById("pause");
let paused = false;
let busy = false;
let sent = 0;

/** Change `old` to match `wanted`, keeping the focus, typed values, and open details. */
function morph(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName) {
    old.replaceWith(wanted.cloneNode(true));
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
  } else if (!old.isEqualNode(wanted)) {
    attributes(old, wanted);
    children(old, wanted);
  }
}

function attributes(old, wanted) {
  const kept = old.nodeName === "DETAILS" ? ["open"] : [];
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

/** What tells an element from its siblings: no option may become another one while it is chosen, nor a button while it has the focus. */
function key(node) {
  if (node.nodeName === "OPTION") return node.value;
  if (node.nodeName === "FORM") return node.getAttribute("action");
  return node.id;
}

/** The first of a node and its siblings after it that has a key. */
function keyed(node, wanted) {
  while (node && key(node) !== wanted) node = node.nextSibling;
  return node;
}

function children(old, wanted) {
  let place = old.firstChild;
  for (const child of wanted.childNodes) {
    const same = key(child) ? keyed(place, key(child)) : null;
    if (same) {
      if (same !== place) old.insertBefore(same, place);
      place = same.nextSibling;
      morph(same, child);
    } else if (place && !key(place) && !key(child) && place.nodeName === child.nodeName) {
      const next = place.nextSibling;
      morph(place, child);
      place = next;
    } else {
      old.insertBefore(child.cloneNode(true), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Show a page from the server; keeps the header's state and, without `withNotice`, notices and errors of forms. */
function show(html, withNotice) {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const selector of ["header > .organization", "header > .clock", "main"]) {
    const [old, wanted] = [document.querySelector(selector), page.querySelector(selector)];
    if (selector === "main" && !withNotice) {
      wanted.querySelector("#notice").replaceWith(document.getElementById("notice").cloneNode(true));
      for (const { id, textContent } of old.querySelectorAll(".wrong")) {
        const same = wanted.querySelector(`[id="${id}"]`);
        if (same) same.textContent = textContent;
      }
    }
    // An answer stays until the next one replaces it.
    const [given, said] = [wanted, old].map((each) => each.querySelector("#answer"));
    if (said && given && !given.children.length) given.replaceWith(said.cloneNode(true));
    morph(old, wanted);
  }
  document.title = page.title;
  document.body.dataset.version = page.body.dataset.version;
  rememberClock();
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show why a form was refused, at the top and beside the field concerned. */
function refuse(form, text, field) {
  const notice = document.getElementById("notice");
  notice.className = "refused";
  say(notice, text);
  for (const each of form.querySelectorAll(".wrong")) say(each, each.dataset.about === field ? text : "");
  if (field) form.elements[field]?.focus();
}

async function look() {
  if (paused || busy || document.hidden || !document.body.dataset.version) return;
  busy = true;
  const before = sent;
  try {
    const address = new URL(location.href);
    address.searchParams.delete("done");
    const answer = await fetch(address, { headers: { "X-Console-Version": document.body.dataset.version } });
    const html = await answer.text();
    // A button's answer that came meanwhile is newer.
    if (paused) return;
    if (answer.status !== 204 && before === sent) show(html, false);
    say(live, "Live");
  } catch {
    if (!paused) say(live, "The cloud does not answer; trying again");
  } finally {
    busy = false;
  }
}

async function send(form, submitter) {
  const fields = new URLSearchParams(new FormData(form, submitter));
  submitter?.setAttribute("aria-disabled", "true");
  busy = true;
  sent += 1;
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields });
    const html = await answer.text();
    if (answer.redirected && new URL(answer.url).pathname !== location.pathname) {
      location.assign(answer.url);
    } else if (answer.ok) {
      show(html, true);
    } else {
      const why = new DOMParser().parseFromString(html, "text/html").getElementById("refusal");
      refuse(form, why?.textContent ?? "That did not work.", why?.dataset.field);
    }
  } catch {
    refuse(form, "The cloud does not answer: whether it was done is not known.");
  } finally {
    submitter?.removeAttribute("aria-disabled");
    busy = false;
  }
}

document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  event.preventDefault();
  if (!busy || event.submitter?.getAttribute("aria-disabled") !== "true") send(event.target, event.submitter);
});

pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  say(live, paused ? "Paused" : "Live");
  look();
});
pause.parentElement.hidden = false;

// The clock's seconds are counted here between two updates.
let shown = { second: 0, rate: 0, at: 0 };

function rememberClock() {
  const { second, rate } = document.getElementById("now").dataset;
  shown = { second: Number(second), rate: Number(rate), at: performance.now() };
}

function tick() {
  if (!shown.rate || paused) return;
  const now = new Date((shown.second + (shown.rate * (performance.now() - shown.at)) / 1000) * 1000);
  say(document.getElementById("now"), now.toISOString().slice(0, 19).replace("T", " "));
}

rememberClock();
setInterval(tick, EVERY_MS);
setInterval(look, EVERY_MS);
document.addEventListener("visibilitychange", look);
