// The algorithms and the examples as tables, in which both can be changed.

// One row per algorithm: shown or not, its own step, and how far each model is from it.
class AlgorithmTable {
  constructor(page, table) {
    this.page = page;
    const titles = ["algorithm", "own step", ...page.panels.map((panel) => panel.sheet.title)];
    this.rows = ALGORITHMS.map((algorithm) => this.row(algorithm));
    const head = titles.map((text) => html("th", { scope: "col", textContent: text }));
    table.replaceChildren(html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...this.rows.map((row) => row.element)));
  }

  row(algorithm) {
    const { id, title, moves, dash } = algorithm, { state } = this.page;
    const box = html("input", { type: "checkbox", checked: state.shown.includes(id) });
    box.addEventListener("change", () => this.page.toggle(id, box.checked));
    const step = html("input", { type: "number", min: 0, max: MOST_LOOPS, ariaLabel: `step of ${title}` });
    step.addEventListener("change", () => this.page.setStep(id, step.value));
    const cells = this.page.panels.map(() => html("td"));
    const label = html("label", {}, box, " ", swatch({ colour: id, dash }), title);
    const element = html("tr", {}, html("td", {}, label), html("td", {}, ...(moves ? [step] : ["-"])), ...cells);
    return { algorithm, element, step, cells };
  }

  // `found` has the nearest steps of all algorithms for each model; null where it reads no more.
  show(found) {
    const { page } = this, { race, state } = page;
    for (const { algorithm, step, cells } of this.rows) {
      const own = algorithm.moves ? page.ownStep(algorithm.id) : 0;
      if (document.activeElement !== step) step.value = own;
      found.forEach((ranking, i) => {
        if (!ranking) { cells[i].textContent = ""; return; }
        const best = ranking.find((one) => one.algorithm === algorithm);
        const now = shortNumber(spd(race.models[i].output(state.loop), race.algorithms[algorithm.id].output(own)));
        cells[i].textContent = algorithm.moves ? `${now} now; ${shortNumber(best.distance)} at step ${best.step}` : now;
      });
    }
  }
}

// One row per example, for those who want exact numbers.
class ExampleTable {
  constructor(page, table) {
    Object.assign(this, { page, table });
  }

  // Nothing is made of it as long as it is folded away.
  show() {
    const { state } = this.page;
    if (!this.table.closest("details").open) return;
    const names = state.dims === 1 ? ["x", "y"] : ["first input", "second input", "y"];
    const titles = ["example", ...names].map((name) => html("th", { scope: "col", textContent: name }));
    const rows = state.examples.map((_, i) =>
      html("tr", {}, html("td", { textContent: i + 1 }), ...names.map((name, axis) => html("td", {}, this.field(i, name, axis)))));
    this.table.replaceChildren(html("thead", {}, html("tr", {}, ...titles)), html("tbody", {}, ...rows));
  }

  field(i, name, axis) {
    const { state } = this.page, example = state.examples[i], input = axis < state.dims;
    const most = input ? state.span : state.span * HEIGHT;
    const field = html("input", { type: "number", step: 0.1, min: -most, max: most, ariaLabel: `${name} of example ${i + 1}` });
    field.value = input ? example.x[axis] : example.y;
    field.addEventListener("change", () => {
      if (field.value === "") return this.page.say(`The ${name} of an example is a number.`);
      const value = rounded(clamped(Number(field.value), most));
      if (input) example.x[axis] = value;
      else example.y = value;
      this.page.changed();
    });
    return field;
  }
}
