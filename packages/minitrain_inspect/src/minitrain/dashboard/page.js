// Draws the charts of the dashboard and keeps lists, theme and language in step with them.
// Everything shown comes from the JSON block; text reaches the page as text, never as markup.
"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const charts = [];

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const language = () => root.dataset.language;

  // The six colours come first, then the dash changes.
  const slotColour = (slot) => slot % data.colours;
  const slotDash = (slot) => Math.floor(slot / data.colours) % data.dashes.length;

  function freeSlot(chart) {
    const taken = new Set(chart.slots.values());
    let slot = 0;
    while (taken.has(slot)) slot += 1;
    return slot;
  }

  // One trace as it looks now: theme, language, shown or hidden.
  function dressed(chart, trace, index) {
    const words = chart.texts[language()];
    const result = { ...trace, name: words.names[index], visible: !chart.hidden.has(index) };
    if (trace.hovertemplate) {
      result.hovertemplate = trace.hovertemplate.replace(data.step.en + " %{x}", data.step[language()] + " %{x}");
    }
    const kind = trace.meta.kind;
    if (kind === "line") {
      const slot = chart.slots.get(index) ?? 0;
      const paint = colour("line-" + (trace.meta.colour ?? slotColour(slot)));
      result.line = { ...trace.line, color: paint, dash: trace.meta.dash ?? data.dashes[slotDash(slot)] };
      if (trace.marker) result.marker = { ...trace.marker, color: paint };
    } else if (kind === "fixed") {
      const fixed = trace.meta.colour;
      const paint = colour(fixed === undefined ? "ink" : "line-" + fixed);
      result.line = { ...trace.line, color: paint };
      if (trace.marker) result.marker = { ...trace.marker, color: paint };
    } else if (kind === "inner" || kind === "outer") {
      result.fillcolor = colour("band-" + kind);
    } else if (kind === "cross") {
      result.marker = { ...trace.marker, line: { ...trace.marker.line, color: colour("ink") } };
    }
    return result;
  }

  function layoutOf(chart) {
    const words = chart.texts[language()];
    const axis = (old, title) => ({
      ...old,
      gridcolor: colour("grid"),
      linecolor: colour("rule"),
      tickcolor: colour("rule"),
      title: { ...old.title, text: title },
    });
    const layout = {
      ...chart.layout,
      uirevision: "kept",
      font: { ...chart.layout.font, color: colour("quiet") },
      hoverlabel: {
        ...chart.layout.hoverlabel,
        bgcolor: colour("card"),
        bordercolor: colour("rule"),
        font: { ...chart.layout.hoverlabel.font, color: colour("ink") },
      },
      xaxis: { ...axis(chart.layout.xaxis, words.x), ...(chart.zoom && { range: chart.zoom }) },
      yaxis: axis(chart.layout.yaxis, words.y),
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("quiet"), activecolor: colour("accent") },
    };
    if (chart.layout.shapes) {
      // Named by marks.py: the healthy band, the floor of a log axis, the steps of findings.
      const paint = (name) => colour(name === "floor" ? "quiet" : "warn");
      layout.shapes = chart.layout.shapes.map((shape) => (shape.name === "healthy"
        ? { ...shape, fillcolor: colour("healthy") }
        : { ...shape, line: { ...shape.line, color: paint(shape.name) } }));
      layout.annotations = (chart.layout.annotations ?? []).map((label) => (
        { ...label, font: { ...label.font, color: paint(label.name) } }));
    }
    return layout;
  }

  const settings = {
    displaylogo: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    responsive: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg" },
  };

  function draw(chart) {
    const traces = chart.traces.map((trace, index) => dressed(chart, trace, index));
    return Plotly.react(chart.plot, traces, layoutOf(chart), settings);
  }

  // Lists: legend and switches at once.

  function paintSwatch(chart, item) {
    const line = item.querySelector(".swatch line[data-slot]");
    if (!line) return;
    const trace = chart.traces[item.traces[0]];
    const slot = chart.slots.get(item.traces[0]);
    if (slot === undefined || trace.meta.colour !== undefined) return;
    line.style.stroke = "var(--line-" + slotColour(slot) + ")";
    const dash = trace.meta.dash ? data.dashes.indexOf(trace.meta.dash) : slotDash(slot);
    line.setAttribute("class", "d" + dash);
  }

  function show(chart, item, shown) {
    if (!item.traces.length) return;
    item.setAttribute("aria-selected", String(shown));
    for (const index of item.traces) {
      if (shown) {
        chart.hidden.delete(index);
        if (chart.traces[index].meta.kind === "line" && !chart.slots.has(index)) chart.slots.set(index, freeSlot(chart));
      } else {
        chart.hidden.add(index);
        // With few lines each keeps its colour; with many, a colour goes back to the pool.
        if (chart.many) chart.slots.delete(index);
      }
    }
    paintSwatch(chart, item);
  }

  const isShown = (item) => item.getAttribute("aria-selected") === "true";

  // Drawn lines stand first, both groups in the order of the model.
  function arrange(chart) {
    if (!chart.many) return;
    const ordered = [...chart.items].sort((a, b) => Number(isShown(b)) - Number(isShown(a)) || a.place - b.place);
    chart.list.append(...ordered);
  }

  function activate(chart, item) {
    for (const other of chart.items) other.classList.toggle("active", other === item);
    chart.list.setAttribute("aria-activedescendant", item.id);
    item.scrollIntoView({ block: "nearest" });
  }

  function wireList(chart) {
    const toggle = (item) => {
      show(chart, item, !isShown(item));
      arrange(chart);
      activate(chart, item);
      draw(chart);
    };
    chart.list.addEventListener("click", (event) => {
      const item = event.target.closest("[role=option]");
      if (item) toggle(item);
    });
    chart.list.addEventListener("focus", () => {
      if (!chart.list.hasAttribute("aria-activedescendant")) activate(chart, chart.list.firstElementChild);
    });
    chart.list.addEventListener("keydown", (event) => {
      const items = [...chart.list.children].filter((item) => !item.hidden);
      if (!items.length || event.ctrlKey || event.altKey || event.metaKey) return;
      const now = items.findIndex((item) => item.classList.contains("active"));
      const moves = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
      let next = null;
      if (event.key in moves) next = Math.min(items.length - 1, Math.max(0, now + moves[event.key]));
      else if (event.key === "Home") next = 0;
      else if (event.key === "End") next = items.length - 1;
      if (next !== null) activate(chart, items[next]);
      else if ((event.key === " " || event.key === "Enter") && now >= 0) toggle(items[now]);
      else return;
      event.preventDefault();
    });
    const tools = chart.holder.querySelector(".tools");
    if (!tools) return;
    const search = tools.querySelector("input");
    const lines = chart.items.filter((item) => item.searchable);
    search.addEventListener("input", () => {
      const wanted = search.value.trim().toLowerCase();
      for (const item of lines) item.hidden = !item.textContent.toLowerCase().includes(wanted);
    });
    const all = (items, shown) => {
      for (const item of items) show(chart, item, shown);
      arrange(chart);
      draw(chart);
    };
    tools.querySelector("[data-act=draw]").addEventListener("click", () => all(lines.filter((item) => !item.hidden), true));
    tools.querySelector("[data-act=hide]").addEventListener("click", () => all(lines, false));
  }

  function prepare(holder) {
    const { traces, layout, texts, entries, many } = data.charts[holder.dataset.chart];
    const chart = { key: holder.dataset.chart, holder, traces, layout, texts, many, hidden: new Set(), slots: new Map() };
    chart.plot = holder.querySelector(".drawing");
    chart.list = holder.querySelector(".entries");
    chart.items = [...chart.list.children];
    chart.items.forEach((item, place) => {
      const entry = entries[place];
      item.place = place;
      item.traces = entry.traces;
      item.searchable = entry.kind === "line" || entry.kind === "absent";
      if (entry.slot !== null) chart.slots.set(entry.traces[0], entry.slot);
      if (!entry.shown) for (const index of entry.traces) chart.hidden.add(index);
    });
    arrange(chart);
    wireList(chart);
    chart.plot.chart = chart; // for cursor.js
    return chart;
  }

  // Theme and language.

  function isDark() {
    if (root.dataset.theme) return root.dataset.theme === "dark";
    return matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function redraw() {
    for (const chart of charts) draw(chart);
  }
  function speak(tongue) {
    root.dataset.language = tongue;
    root.lang = tongue;
    for (const element of document.querySelectorAll("[data-label-en]")) {
      element.setAttribute("aria-label", element.getAttribute("data-label-" + tongue));
    }
  }
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    redraw();
  });
  document.getElementById("language").addEventListener("click", () => {
    speak(language() === "en" ? "es" : "en");
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!root.dataset.theme) redraw();
  });

  // Plotly keeps what the mouse zoomed and forgets what the keyboard did; so both are kept here.
  function followZoom(chart) {
    chart.plot.on("plotly_relayout", () => {
      const { range } = chart.plot._fullLayout.xaxis;
      const whole = chart.layout.xaxis.range;
      chart.zoom = range[0] === whole[0] && range[1] === whole[1] ? null : [...range];
    });
  }

  // One chart at a time, so that the page answers in between.
  async function drawAll() {
    for (const holder of document.querySelectorAll("[data-chart]")) {
      const chart = prepare(holder);
      charts.push(chart);
      await draw(chart);
      followZoom(chart);
      root.dataset.drawn = String(charts.length);
      await new Promise((resume) => setTimeout(resume, 0));
    }
    root.dataset.state = "drawn";
  }

  // What live.js hands over when there is more to draw: zoom, chosen lines, theme and language stay as they are.
  document.addEventListener("minitrain-more", (event) => {
    for (const chart of charts) {
      const { traces, layout, texts } = event.detail.charts[chart.key];
      Object.assign(chart, { traces, layout, texts });
      draw(chart);
    }
  });
  drawAll();
})();
