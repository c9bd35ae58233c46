// The page behind the link of a webhook: it shows a call to an authenticated approver and sends the
// decision. It stores nothing, and inserts received values as text only.
"use strict";
const find = (id) => document.getElementById(id);
const call = location.pathname.replace(/\/open$/, "");
const shown = ["caller", "organisation", "agent", "tool", "server", "endpoint", "arguments", "needs", "expires_in"];

async function ask(method, path) {
  const key = find("key").value.trim();
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = "Bearer " + key;
  const answer = await fetch(path, { method, headers, credentials: "same-origin", redirect: "error" });
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  if (answer.status === 401 || answer.status === 403) throw new Error("The gateway rejected this key. Enter another key.");
  throw new Error(body.error || "The gateway returned status " + answer.status + ".");
}

function say(words) {
  find("message").textContent = words;
}

function show(about) {
  const list = find("call");
  list.replaceChildren();
  for (const name of shown) {
    const value = about[name];
    if (value === undefined || value === null) continue;
    const term = document.createElement("dt");
    const text = document.createElement("dd");
    term.textContent = name === "expires_in" ? "seconds left" : name;
    text.textContent = Array.isArray(value) ? value.join("\n") : String(value);
    list.append(term, text);
  }
  find("decide").hidden = false;
}

async function attempt(work) {
  say("");
  try {
    await work();
  } catch (error) {
    say(error.message);
  }
}

async function decide(decision) {
  const answer = await ask("POST", call + "/" + decision);
  find("decide").hidden = true;
  say(answer.state === "waiting" ? "Your approval was recorded. Further approvals are required." : "The call is " + answer.state + ".");
}

find("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => show(await ask("GET", call)));
});
find("approve").addEventListener("click", () => attempt(() => decide("approve")));
find("deny").addEventListener("click", () => attempt(() => decide("deny")));
