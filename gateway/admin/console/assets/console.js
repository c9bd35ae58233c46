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

  const prepare = () => { prepareCopying(document); showAges(document); };
  prepare();
  setInterval(() => showAges(document), 30000);
  document.addEventListener("htmx:after:swap", prepare);
})();
