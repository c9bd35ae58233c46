// What pages do beyond showing: copy, keys, and ages of times. Everything shows without it.
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

  // Times: how long ago, with the exact time in UTC as a title.
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  const showAges = (within) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
      if (Number.isNaN(seconds)) continue;
      const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units.at(-1);
      time.title = time.dateTime;
      time.textContent = words.format(Math.round(seconds / size), unit);
    }
  };

  // Keys: "/" searches, "g" and a letter goes to a section.
  const places = {
    o: "/console", s: "/console/servers", t: "/console/tools", a: "/console/agents",
    p: "/console/approvals", k: "/console/keys", x: "/console/access", u: "/console/audit", c: "/console/activity", e: "/console/settings",
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

  // What somebody has unfolded stays so when its part of the page is loaded anew.
  document.addEventListener("htmx:before:morph:attr", (event) => {
    if (event.detail.attrName === "open") event.preventDefault();
  });

  // Whoever is signed out meanwhile, by whomever, is asked to sign in, and comes back to this page; so is whoever goes
  // back to a page that the browser has kept. A form that is on its way is let go first: it may be the one to sign out.
  let isLeaving = false;
  document.addEventListener("submit", () => { isLeaving = true; });
  document.addEventListener("signed-out", () => setTimeout(() => location.reload(), isLeaving ? 3000 : 0));
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // Whether the page follows what happens, and that it has looked away.
  let isFollowing = null;
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
    const wasLost = is && !isFollowing;
    isFollowing = is;
    showFollowing();
    if (wasLost) document.getElementById("live")?.dispatchEvent(new Event("live"));
  };
  document.addEventListener("htmx:sse:after:connection", follow(true));
  document.addEventListener("htmx:response:error", (event) => {
    if (event.target.id === "live") follow(false)();
  });
  for (const end of ["htmx:sse:before:connection", "htmx:sse:error", "htmx:sse:close"]) document.addEventListener(end, follow(false));

  // On a phone the sections are a bar: the one that the page is of is in sight.
  document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "center" });

  const prepare = () => { prepareCopying(document); showAges(document); showFollowing(); };
  prepare();
  setInterval(() => showAges(document), 30000);
  document.addEventListener("htmx:after:swap", prepare);
})();
