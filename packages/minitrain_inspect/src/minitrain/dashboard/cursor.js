// Reads a chart with the keyboard: arrows go from point to point and say what is there, + and - zoom, 0 shows all.
"use strict";
(() => {
  const root = document.documentElement;
  const words = JSON.parse(document.getElementById("chart-data").textContent);
  const written = (value) => (value === null ? words.point[root.dataset.language] : String(Number(value.toPrecision(4))));
  // Names are escaped for Plotly; a text node wants them as they were.
  const plain = (name) => name.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  const seen = (plot) => plot._fullData.filter((trace) => (
    trace.visible === true && ["line", "fixed", "cross"].includes(trace.meta.kind) && trace.x.length));

  // All steps that a visible line has, once, in order.
  const stepsOf = (plot) => [...new Set(seen(plot).flatMap((trace) => [...trace.x]))].sort((a, b) => a - b);

  function say(plot, step) {
    plot.cursorStep = step;
    const points = [];
    const said = [];
    for (const trace of seen(plot)) {
      const at = trace.x.indexOf(step);
      if (at < 0) continue;
      const cross = trace.meta.kind === "cross";
      const value = (trace.customdata ?? trace.y)[at];
      if (value !== null) points.push({ curveNumber: trace.index, pointNumber: at });
      said.push(cross ? `${plain(trace.text[at])} ${plain(trace.name)}` : `${plain(trace.name)} ${written(value)}`);
    }
    Plotly.Fx.hover(plot, points);
    const reading = plot.parentElement.querySelector(".reading");
    reading.textContent = `${words.step[root.dataset.language]} ${step}: ${said.join("; ")}`;
  }

  function move(plot, by) {
    const steps = stepsOf(plot);
    if (!steps.length) return;
    const [from, to] = plot._fullLayout.xaxis.range;
    const inside = steps.filter((step) => step >= from && step <= to);
    const now = plot.cursorStep;
    if (now === undefined || now < from || now > to) {
      say(plot, (inside.length ? inside : steps).at(by > 0 ? 0 : -1));
      return;
    }
    const at = steps.findIndex((step) => step >= now);
    const next = steps[Math.min(steps.length - 1, Math.max(0, (at < 0 ? steps.length - 1 : at) + by))];
    if (next >= from && next <= to) {
      say(plot, next);
      return;
    }
    const shift = next < from ? next - from : next - to;
    Plotly.relayout(plot, { "xaxis.range": [from + shift, to + shift] }).then(() => say(plot, next));
  }

  function zoom(plot, factor) {
    const [from, to] = plot._fullLayout.xaxis.range;
    const here = plot.cursorStep >= from && plot.cursorStep <= to ? plot.cursorStep : (from + to) / 2;
    Plotly.relayout(plot, { "xaxis.range": [here - (here - from) * factor, here + (to - here) * factor] });
  }

  const isDrawing = (element) => element instanceof Element && element.classList.contains("drawing") && element._fullLayout;

  document.addEventListener("keydown", (event) => {
    const plot = event.target;
    if (!isDrawing(plot) || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = () => Math.max(1, Math.round(stepsOf(plot).length / 10));
    const acts = {
      ArrowRight: () => move(plot, 1),
      ArrowLeft: () => move(plot, -1),
      PageDown: () => move(plot, page()),
      PageUp: () => move(plot, -page()),
      "+": () => zoom(plot, 0.5),
      "=": () => zoom(plot, 0.5),
      "-": () => zoom(plot, 2),
      0: () => Plotly.relayout(plot, { "xaxis.range": [...plot.chart.layout.xaxis.range], "yaxis.autorange": true }),
      Escape: () => Plotly.Fx.unhover(plot),
    };
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  });
  document.addEventListener("focusout", (event) => {
    if (isDrawing(event.target)) Plotly.Fx.unhover(event.target);
  });
})();
