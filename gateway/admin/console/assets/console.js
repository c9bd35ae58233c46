// Copying, keyboard shortcuts, ages of times and live updates. Every page works without this script.
(() => {
  "use strict";

  const announce = (words) => {
    const place = document.getElementById("announcement");
    if (!place) return;
    place.textContent = words;
    setTimeout(() => { if (place.textContent === words) place.textContent = ""; }, 4000);
  };

  // Copy: the text beside the button, as it is.
  const prepareCopying = (within) => {
    if (!navigator.clipboard) return;
    for (const button of within.querySelectorAll("button.copy[hidden]")) button.hidden = false;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const text = button.parentElement.querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied.");
    } catch {
      announce("The browser did not let the page copy. Select the text instead.");
    }
  });

  // Times: how long ago, with the exact time in UTC and in the time zone of the browser as a title.
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  const showAges = (within) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
      if (Number.isNaN(seconds)) continue;
      const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units.at(-1);
      const local = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
      time.title = `${local} (${zone}), ${time.dateTime}`;
      if (time.matches(".exact")) { time.textContent = `${local} (${zone})`; continue; }
      time.textContent = words.format(Math.round(seconds / size), unit);
    }
  };

  // Keys: "/" searches, "g" and a letter goes to a section.
  const places = {
    o: "/console", s: "/console/servers", t: "/console/tools", a: "/console/agents",
    p: "/console/approvals", k: "/console/keys", x: "/console/access", u: "/console/audit", c: "/console/activity", e: "/console/settings", n: "/console/pins",
  };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    } else if (event.key === "g") {
      going = Date.now();
    } else if (places[event.key] && Date.now() - going < 1000) {
      going = 0;
      location.assign(places[event.key]);
    }
  });

  // Sections that were opened stay open when their part of the page is updated.
  document.addEventListener("htmx:before:morph:attr", (event) => {
    if (event.detail.attrName === "open") event.preventDefault();
  });

  // When the session ends, and when the browser shows a page that it has kept, the page reloads: the visitor signs in
  // and comes back. A form that was just sent goes first: it may be the form that signs out.
  let isLeaving = false;
  document.addEventListener("submit", () => { isLeaving = true; });
  document.addEventListener("signed-out", () => setTimeout(() => location.reload(), isLeaving ? 3000 : 0));
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // A second click on a button would lose the answer to the first, so it does nothing until the next page appears. After a
  // while it counts again: the visitor may have stopped the page.
  const sent = new WeakSet();
  document.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (sent.has(form)) { event.preventDefault(); return; }
    sent.add(form);
    submitter?.setAttribute("aria-disabled", "true");
    const undo = () => { sent.delete(form); submitter?.removeAttribute("aria-disabled"); };
    addEventListener("pageshow", undo, { once: true });
    setTimeout(undo, 30000);
  });

  // Whether the page receives live updates.
  let isFollowing = null;
  let hasFollowed = false;
  const showFollowing = () => {
    if (isFollowing === null) return;
    for (const place of document.querySelectorAll(".following")) {
      place.dataset.found ??= place.textContent;
      place.textContent = isFollowing ? place.dataset.found : place.dataset.lost;
      place.classList.toggle("lost", !isFollowing);
      place.hidden = false;
    }
  };
  const follow = (is) => () => {
    // The first connection finds the page as it was just loaded.
    const wasLost = is && hasFollowed && !isFollowing;
    hasFollowed ||= is;
    isFollowing = is;
    showFollowing();
    if (wasLost) document.getElementById("live")?.dispatchEvent(new Event("live"));
  };
  document.addEventListener("htmx:sse:after:connection", follow(true));
  document.addEventListener("htmx:response:error", (event) => {
    if (event.target.id === "live") follow(false)();
  });
  for (const end of ["htmx:sse:before:connection", "htmx:sse:error", "htmx:sse:close"]) document.addEventListener(end, follow(false));

  // On a phone the sections are a bar: the current one is scrolled into view.
  document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // The count of waiting approvals in the title, and a word when there are more.
  let waiting = Number(document.getElementById("waiting")?.dataset.count ?? 0);
  const showWaiting = () => {
    const count = Number(document.getElementById("waiting")?.dataset.count ?? 0);
    if (count === waiting) return;
    if (count > waiting) announce(count === 1 ? "1 call waits for your approval." : `${count} calls wait for your approval.`);
    waiting = count;
    const title = document.title.replace(/^\(\d+\) /, "");
    document.title = count > 0 ? `(${count}) ${title}` : title;
  };

  // Result of a form: the browser focuses the fragment of the address; a page that is updated in place keeps its focus.
  const showResult = () => {
    const result = location.hash && document.getElementById(location.hash.slice(1));
    if (result && document.activeElement !== result) result.focus();
  };
  showResult();

  const prepare = () => { prepareCopying(document); showAges(document); showFollowing(); showWaiting(); };
  prepare();
  setInterval(() => showAges(document), 30000);
  document.addEventListener("htmx:after:swap", () => {
    prepare();
    if (document.activeElement === document.body) showResult();
  });
})();
