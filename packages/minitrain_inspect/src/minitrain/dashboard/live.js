// Keeps a page that a training serves as new as its log: asks for the version, fetches the page, takes over its numbers.
// Charts, tables and the reader's choices stay where they are; text is moved as nodes, never parsed from strings here.
"use strict";
(() => {
  const root = document.documentElement;
  const every = 2000;
  let version = root.dataset.version;

  // A reload happens when the charts themselves change: what was chosen comes back.
  const kept = JSON.parse(sessionStorage.getItem("minitrain") ?? "{}");
  sessionStorage.removeItem("minitrain");
  if (kept.theme) root.dataset.theme = kept.theme;
  if (kept.language && kept.language !== root.dataset.language) document.getElementById("language").click();
  function reload() {
    sessionStorage.setItem("minitrain", JSON.stringify({ theme: root.dataset.theme, language: root.dataset.language }));
    location.reload();
  }

  function say(key) {
    const said = document.getElementById("live");
    for (const line of said.children) line.hidden = line.dataset.when !== key;
    root.dataset.live = key;
  }

  const stays = (element) => element.matches(".chart, details");
  const shape = (section) => [...section.children].filter(stays).map((element) => element.dataset.chart ?? "table").join();
  const names = (place) => [...place.querySelectorAll("[role=option]")]
    .map((item) => item.id + item.querySelector(".name").textContent).sort().join("\n");

  function takeSection(section, fresh) {
    const old = [...section.children];
    let staying = old.filter(stays);
    for (const element of old) if (!stays(element)) element.remove();
    for (const element of [...fresh.children]) {
      if (!stays(element)) section.insertBefore(document.adoptNode(element), staying[0] ?? null);
      else {
        const mine = staying.shift();
        if (mine.matches("details")) mine.querySelector("table").replaceWith(document.adoptNode(element.querySelector("table")));
        else {
          for (const item of element.querySelectorAll("[role=option]")) {
            const notes = [document.getElementById(item.id), item].map((each) => each.querySelector(".note"));
            if (notes[1] && !notes[0]) document.getElementById(item.id).append(document.adoptNode(notes[1]));
            else if (notes[1]) notes[0].replaceWith(document.adoptNode(notes[1]));
          }
        }
      }
    }
  }

  async function take() {
    const answer = await fetch("/", { cache: "no-store" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const sections = [...document.querySelectorAll("main > section")];
    const others = [...fresh.querySelectorAll("main > section")];
    if (sections.some((section, at) => shape(section) !== shape(others[at]) || names(section) !== names(others[at]))) {
      reload();
      return;
    }
    version = fresh.documentElement.dataset.version;
    sections.forEach((section, at) => takeSection(section, others[at]));
    for (const part of [".told", "dl.figures", "footer"]) {
      document.querySelector(part).replaceWith(document.adoptNode(fresh.querySelector(part)));
    }
    const tongue = root.dataset.language;
    for (const element of document.querySelectorAll("[data-label-en]")) {
      element.setAttribute("aria-label", element.getAttribute("data-label-" + tongue));
    }
    const detail = JSON.parse(fresh.getElementById("chart-data").textContent);
    document.dispatchEvent(new CustomEvent("minitrain-more", { detail }));
    root.dataset.version = version;
  }

  async function look() {
    let state;
    try {
      state = await (await fetch("/state", { cache: "no-store" })).json();
      if (state.version !== version && root.dataset.state === "drawn") await take();
    } catch {
      say("gone");
      return;
    }
    if (state.ended && state.version === version) say("ended");
    else {
      say("running");
      setTimeout(look, every);
    }
  }
  look();
})();
