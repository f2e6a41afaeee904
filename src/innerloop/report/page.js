// Figures whose values can be read and whose curves can be hidden, and filters. No network.
"use strict";
(() => {
  const REACH = 30; // how far from a point, in units of the figure, the pointer may be
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const tip = document.getElementById("tip");

  function element(name, text, className) {
    const made = document.createElement(name);
    made.textContent = text; // never HTML: labels may be anything
    if (className) made.className = className;
    return made;
  }

  function lines(values, curve, [, , x, y, more]) {
    const panel = values.panels[curve.panel];
    const label = values.labels[curve.label];
    const cell = curve.half && curve.base === undefined;
    const shown = [];
    if (x) shown.push(element("span", `${panel.x}: ${x}`));
    if (y) shown.push(element("span", `${panel.y}: ${y}`));
    if (more) shown.push(element("span", cell ? `value: ${more}` : `interval: ${more}`));
    if (label || panel.title) shown.unshift(element("strong", label || panel.title));
    return shown;
  }

  function interactive(figure) {
    const svg = figure.querySelector("svg");
    const values = JSON.parse(figure.querySelector("script").textContent);
    const hidden = new Set();
    const ring = document.createElementNS(svg.namespaceURI, "circle");
    ring.setAttribute("r", 5);
    ring.setAttribute("class", "ring");
    let place = [0, -1]; // curve, point

    const visible = (curve) => !hidden.has(curve.label);

    function clear() {
      tip.hidden = true;
      ring.remove();
    }

    function show(curve, point) {
      place = [curve, point];
      const [left, top] = values.curves[curve].points[point];
      ring.setAttribute("cx", left);
      ring.setAttribute("cy", top);
      svg.append(ring);
      tip.replaceChildren(...lines(values, values.curves[curve], values.curves[curve].points[point]));
      tip.hidden = false;
      const at = ring.getBoundingClientRect(), box = tip.getBoundingClientRect();
      const across = at.right + 8 + box.width < innerWidth ? at.right + 8 : at.left - 8 - box.width;
      const down = Math.min(Math.max(4, at.top - box.height - 4), innerHeight - box.height - 4);
      tip.style.left = `${Math.max(4, Math.min(across, innerWidth - box.width - 4))}px`;
      tip.style.top = `${down}px`;
    }

    function distance(curve, [left, top], x, y) {
      const [wide, high] = curve.half || [0, 0];
      const inside = curve.base !== undefined && (y - top) * (y - curve.base) <= 0; // of a bar
      const across = Math.max(0, Math.abs(x - left) - wide);
      const down = inside ? 0 : Math.max(0, Math.abs(y - top) - high);
      return Math.hypot(across, down);
    }

    function nearest(event) {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = null, least = REACH;
      values.curves.forEach((curve, index) => {
        const [left, top, right, bottom] = values.panels[curve.panel].box;
        const within = x > left - 8 && x < right + 8 && y > top - 8 && y < bottom + 8;
        if (!within || !visible(curve)) return;
        curve.points.forEach((point, number) => {
          const far = distance(curve, point, x, y);
          if (far < least) [best, least] = [[index, number], far];
        });
      });
      if (best) show(...best);
      else clear();
    }

    function step(by) { // along a curve
      const count = values.curves[place[0]].points.length;
      show(place[0], Math.min(count - 1, Math.max(0, place[1] + by)));
    }

    function turn(by) { // to another curve, at the same point if it has it
      const count = values.curves.length;
      for (let tried = 1; tried <= count; tried++) {
        const index = (place[0] + by * tried + count * tried) % count;
        const curve = values.curves[index];
        if (visible(curve)) return show(index, Math.min(Math.max(0, place[1]), curve.points.length - 1));
      }
    }

    const keys = {
      ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => step(-Infinity),
      End: () => step(Infinity), ArrowUp: () => turn(-1), ArrowDown: () => turn(1), Escape: clear,
    };
    if (values.curves.length) {
      svg.setAttribute("tabindex", 0);
      svg.setAttribute("role", "application"); // arrow keys are its own
      svg.setAttribute("aria-label", "values: arrow keys go from point to point and from curve to curve");
      svg.addEventListener("pointermove", nearest);
      svg.addEventListener("pointerdown", nearest);
      svg.addEventListener("pointerleave", clear);
      svg.addEventListener("blur", clear);
      svg.addEventListener("keydown", (event) => {
        if (event.target !== svg || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
      });
    }
    // A page scrolls under the pointer, but with the keys: what they show stays at its point.
    function scrolled() {
      if (!ring.isConnected) return;
      if (document.activeElement === svg) show(...place);
      else clear();
    }

    addEventListener("scroll", scrolled, { passive: true });
    figure.addEventListener("scroll", scrolled, { passive: true });

    function toggle(number) {
      if (!hidden.delete(number)) hidden.add(number);
      const off = hidden.has(number);
      for (const part of all(`[data-series="${number}"]`, svg)) part.classList.toggle("off", off);
      for (const part of all(`[data-legend="${number}"]`, svg)) {
        part.classList.toggle("dim", off);
        if (part.hasAttribute("role")) part.setAttribute("aria-pressed", !off);
      }
      clear();
    }

    for (const part of all("[data-legend]", svg)) {
      const number = Number(part.dataset.legend);
      part.addEventListener("click", () => toggle(number));
      if (!part.querySelector("text")) continue; // its line
      part.setAttribute("role", "button");
      part.setAttribute("tabindex", 0);
      part.setAttribute("aria-pressed", true);
      part.setAttribute("aria-label", `show ${values.labels[number]}`);
      part.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle(number);
      });
    }
  }

  function filtered(filters) {
    const choices = all("select", filters);
    const rows = all("#summary tbody tr");
    function apply() {
      const wanted = choices.filter((choice) => choice.value);
      const names = choices.map((choice) => `[data-${choice.name}]`);
      for (const part of all(names.join())) {
        part.hidden = wanted.some(({ name, value }) =>
          name in part.dataset && !part.dataset[name].split(" ").includes(value));
      }
      const shown = rows.filter((row) => !row.hidden).length;
      filters.querySelector("output").textContent = `${shown} of ${rows.length} claims`;
    }
    filters.hidden = false;
    filters.addEventListener("change", apply);
    apply();
  }

  const narrow = matchMedia("(max-width: 46rem)").matches;
  all("nav details").forEach((contents) => (contents.open = !narrow));
  all("figure.plot").forEach(interactive);
  all(".filters").forEach(filtered);
})();
