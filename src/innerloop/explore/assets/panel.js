// One model: its choice, its predictions among the examples, and its attention.

const COLOURS = ["model", "model2", "model3"];
const WIDTH = 420, TALL = 330;

// The examples in a plot, which are dragged, or moved by keys in the plot that has the keyboard.
class Examples {
  constructor(frame, page, keyboard) {
    Object.assign(this, { frame, page, keyboard, circles: [] });
    frame.svg.addEventListener("dblclick", (event) => page.add(this.values(event)));
  }

  values(event) {
    const box = this.frame.svg.getBoundingClientRect();
    const [, , width, height] = this.frame.svg.getAttribute("viewBox").split(" ").map(Number);
    return [
      this.frame.x.value(((event.clientX - box.left) / box.width) * width),
      this.frame.y.value(((event.clientY - box.top) / box.height) * height),
    ];
  }

  make(i) {
    const { page } = this;
    const circle = svg("circle", { r: 7, role: "button", "aria-roledescription": "example" }, this.frame.over);
    circle.addEventListener("pointerdown", (event) => {
      page.mark(i);
      circle.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    circle.addEventListener("pointermove", (event) => {
      if (circle.hasPointerCapture(event.pointerId)) page.move(i, this.values(event));
    });
    circle.addEventListener("dblclick", (event) => event.stopPropagation());
    circle.addEventListener("keydown", (event) => page.key(event));
    circle.addEventListener("focus", () => page.mark(i));
    return circle;
  }

  show(state, colour) {
    while (this.circles.length < state.examples.length) this.circles.push(this.make(this.circles.length));
    while (this.circles.length > state.examples.length) this.circles.pop().remove();
    state.examples.forEach(({ x, y }, i) => {
      const circle = this.circles[i], marked = i === state.marked;
      circle.setAttribute("cx", this.frame.x.at(x[0]));
      circle.setAttribute("cy", this.frame.y.at(state.dims === 1 ? y : x[1]));
      circle.setAttribute("class", `point${marked ? " marked" : ""}`);
      // One stop of the Tab key for all of them, in the first plot only.
      circle.setAttribute("tabindex", marked && this.keyboard ? 0 : -1);
      circle.setAttribute("aria-label", `example ${i + 1}: x ${x.map(shortNumber).join(", ")}; y ${shortNumber(y)}`);
      if (colour) circle.style.fill = `rgb(${colour(y)})`;
    });
  }
}

function frameOf(state, small = false) {
  const span = [-state.span, state.span];
  const [width, height] = small ? [220, 200] : [WIDTH, state.dims === 1 ? TALL : WIDTH - 8];
  const vertical = state.dims === 1 ? span.map((end) => end * HEIGHT) : span;
  return new Frame(width, height, span, vertical, state.dims === 1 ? ["x", "y"] : ["first input", "second input"]);
}

class Panel {
  constructor(page, index) {
    Object.assign(this, { page, index });
    const { state, sheets } = page;
    this.select = html("select", { ariaLabel: `Model ${index + 1}` }, ...sheets
      .filter((sheet) => sheet.dims === state.dims)
      .map((sheet) => html("option", { value: sheet.name, textContent: sheet.title })));
    this.select.value = state.models[index];
    this.select.addEventListener("change", () => page.choose(index, this.select.value));
    const close = html("button", { type: "button", textContent: "Close", ariaLabel: `Close model ${index + 1}` });
    close.addEventListener("click", () => page.close(index));
    const head = html("div", { className: "head" }, this.select, ...(state.models.length > 1 ? [close] : []));
    this.sheet = sheets.find((sheet) => sheet.name === state.models[index]);
    this.refusal = html("p", { className: "refusal", role: "status" });
    this.plot = html("div", { className: "plot" });
    this.heads = html("div", { className: "heads" });
    this.element = html("article", { className: "panel" }, head,
      html("p", { className: "about", textContent: this.sheet.about }), this.refusal, this.plot, this.heads);
    this.element.setAttribute("aria-label", this.sheet.title);
    this.build();
  }

  build() {
    const { state } = this.page;
    this.frame = frameOf(state);
    this.frame.svg.setAttribute("aria-label", `predictions of ${this.sheet.title}`);
    this.plot.append(this.frame.svg);
    if (state.dims === 1) {
      const curve = (name, extra) => svg("path", { class: `curve ${name}`, ...extra }, this.frame.under);
      this.truth = curve("truth");
      this.algorithms = Object.fromEntries(ALGORITHMS.map(({ id, dash }) =>
        [id, curve("", { stroke: `var(--${id})`, "stroke-dasharray": dash })]));
      this.curve = curve("model", { stroke: `var(--${COLOURS[this.index]})` });
      this.hair = svg("line", { class: "hair", y1: this.frame.y.to, y2: this.frame.y.from }, this.frame.under);
    } else {
      this.frame.over.setAttribute("class", "surface");
      this.surface = new Surface(this.frame, gridOf(2, 1).side, state.span * HEIGHT);
      this.plot.prepend(this.surface.canvas);
      this.hair = svg("circle", { class: "hair", r: 4, fill: "none" }, this.frame.under);
    }
    this.examples = new Examples(this.frame, this.page, this.index === 0);
    this.frame.svg.addEventListener("pointermove", (event) => this.page.ask(this.examples.values(event)));
  }

  // `output` may lie between two loops while the page plays; null: more examples than it can read.
  show(race, output, algorithms, loop) {
    const { state, colour } = this.page, { queries } = race.problem;
    this.refusal.textContent = output ? "" : this.reason(race.problem);
    this.examples.show(state, state.dims === 2 ? colour : null);
    if (state.dims === 1) {
      this.truth.setAttribute("d", this.frame.path(queries, race.truth));
      for (const { id } of ALGORITHMS) {
        const shown = state.shown.includes(id);
        this.algorithms[id].setAttribute("d", shown ? this.frame.path(queries, algorithms[id]) : "");
      }
      this.curve.setAttribute("d", output ? this.frame.path(queries, output) : "");
    } else if (output) {
      this.surface.show(output, colour);
    }
    this.point(race.problem);
    if (race.models[this.index]) this.attend(race, loop);
  }

  reason({ ys }) {
    const { points, largest_input: x, largest_output: y } = this.sheet;
    if (points !== null && ys.length >= points) return `It has positions for ${points - 1} examples only: remove some.`;
    return `It was made for inputs up to ${shortNumber(x ?? Infinity)} and outputs up to ${shortNumber(y ?? Infinity)} only.`;
  }

  point({ queries, dims }) {
    const q = this.page.question, x = this.frame.x.at(queries[q * dims]);
    if (dims === 1) {
      this.hair.setAttribute("x1", x);
      this.hair.setAttribute("x2", x);
    } else {
      this.hair.setAttribute("cx", x);
      this.hair.setAttribute("cy", this.frame.y.at(queries[q * dims + 1]));
    }
  }

  // The attention of the step that led to this loop; before the first one, of the one to come.
  attend(race, loop) {
    const trajectory = race.models[this.index], model = trajectory.learner;
    const k = Math.max(0, Math.min(loop, model.looped ? MOST_LOOPS : model.steps) - 1);
    const key = `${k} ${this.page.question}`;
    if (this.attended === race && this.attendedAt === key) return;
    Object.assign(this, { attended: race, attendedAt: key });
    const blocks = model.attention(trajectory.state(k), k);
    const squares = blocks.flatMap((block) => Array.from({ length: block.heads }, (_, head) => ({ block, head })));
    while (this.heads.childElementCount > squares.length) this.heads.lastElementChild.remove();
    while (this.heads.childElementCount < squares.length) {
      this.heads.append(html("figure", {}, html("canvas", { role: "img" }), html("figcaption")));
    }
    squares.forEach(({ block, head }, i) => {
      const [canvas, caption] = this.heads.children[i].children;
      caption.textContent = `head ${head + 1}`;
      canvas.ariaLabel = `attention of head ${head + 1}: a row per token, the question last`;
      this.square(canvas, block, head);
    });
  }

  square(canvas, { heads, tokens, among, asked }, head) {
    const side = tokens + 1, questions = asked.length / (heads * side);
    const from = (head * questions + this.page.question) * side;
    const at = (i) => {
      const row = Math.floor(i / side), column = i % side;
      if (row === tokens) return asked[from + column];
      return column === tokens ? 0 : among[(head * tokens + row) * tokens + column];
    };
    let most = 1e-12;
    for (let i = 0; i < side * side; i++) most = Math.max(most, Math.abs(at(i)));
    const { attention } = this.page;
    paint(canvas, side, side, (i) => attention(at(i) / most));
  }
}
