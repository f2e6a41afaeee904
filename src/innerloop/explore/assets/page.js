// The page: what a person does becomes the state, and the state is drawn.

const LOOPS_PER_SECOND = 4;
const SLICE = 12; // milliseconds of computing between two looks at the person
const PAUSE = 100; // milliseconds without a change after which the rest is computed
const element = (id) => document.getElementById(id);

class PageOfLearners {
  constructor(sheets) {
    this.sheets = sheets;
    this.models = Object.fromEntries(sheets.map((sheet) => [sheet.name, null]));
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.charts = { errors: new Chart(element("errors"), "Error by loop"), distances: new Chart(element("distances"), "Distance to the fixed point") };
    this.exampleTable = new ExampleTable(this, element("examples"));
    this.listen();
    this.restore();
  }

  // A model is unpacked when it is first shown.
  model(name) {
    this.models[name] ||= new Transformer(this.sheets.find((sheet) => sheet.name === name));
    return this.models[name];
  }

  restore() {
    this.pause();
    this.state = stateFrom(location.hash, this.sheets);
    this.rebuild();
  }

  listen() {
    element("play").addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    element("loop").addEventListener("input", (event) => { this.pause(); this.go(Number(event.target.value)); });
    element("add").addEventListener("click", () => this.add());
    element("remove").addEventListener("click", () => this.remove(this.state.marked));
    element("another").addEventListener("click", () => this.another());
    element("copy").addEventListener("click", () => this.copy());
    element("height").querySelector("input").addEventListener("input", (event) => this.lift(Number(event.target.value)));
    element("reference").addEventListener("change", (event) => { this.state.reference = event.target.value; this.changed(); });
    element("numbers").addEventListener("toggle", () => this.exampleTable.show());
    addEventListener("hashchange", () => { if (location.hash !== this.fragment) this.restore(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  // Everything that depends on the number of inputs, the preset or the models.
  rebuild() {
    const { state, sheets } = this;
    this.colour = colourScale(state.span * HEIGHT);
    const scale = colourScale(1);
    this.attention = (share) => scale(-share);
    this.choices("dims", [1, 2].filter((dims) => sheets.some((sheet) => sheet.dims === dims)),
      (dims) => (dims === 1 ? "one" : "two"), state.dims, (dims) => this.start(dims, state.preset));
    this.choices("presets", PRESETS.map((preset) => preset.id),
      (id) => PRESETS.find((preset) => preset.id === id).title, state.preset, (id) => this.start(state.dims, id));
    element("lesson").textContent = PRESETS.find((preset) => preset.id === state.preset).look;
    element("reference").replaceChildren(...REFERENCES.map(({ id, title }) => html("option", { value: id, textContent: title })));
    element("reference").value = state.reference;
    element("height").hidden = element("key").hidden = state.dims === 1;
    Object.assign(element("height").querySelector("input"), { min: -state.span * HEIGHT, max: state.span * HEIGHT });
    element("least").textContent = shortNumber(-state.span * HEIGHT);
    element("most").textContent = shortNumber(state.span * HEIGHT);
    element("another").disabled = state.models.length === 3;
    this.panels = state.models.map((_, index) => new Panel(this, index));
    element("panels").replaceChildren(...this.panels.map((panel) => panel.element));
    this.others = state.dims === 2 ? ALGORITHMS.map((one) => this.other(one)) : [];
    element("others").replaceChildren(...this.others.map((one) => one.figure));
    const { side } = gridOf(state.dims, 1);
    this.question = state.dims === 1 ? Math.round(0.75 * (side - 1)) : Math.round(0.7 * side) * side + Math.round(0.7 * side);
    this.algorithmTable = new AlgorithmTable(this, element("algorithms"));
    this.marks();
    this.changed();
  }

  choices(id, values, title, chosen, choose) {
    const buttons = values.map((value) => {
      const button = html("button", { type: "button", textContent: title(value) });
      button.setAttribute("aria-pressed", value === chosen);
      button.addEventListener("click", () => choose(value));
      return button;
    });
    element(id).replaceChildren(element(id).querySelector("legend"), ...buttons);
  }

  other(algorithm) {
    const frame = frameOf(this.state, true), plot = html("div", { className: "plot" });
    const surface = new Surface(frame, gridOf(2, 1).side, this.state.span * HEIGHT);
    frame.svg.setAttribute("aria-label", `predictions of ${algorithm.title}`);
    plot.append(surface.canvas, frame.svg);
    const caption = html("figcaption");
    return { algorithm, surface, caption, figure: html("figure", {}, plot, caption) };
  }

  // What a person does.

  start(dims, preset) {
    const { loop, shown, models, reference, dims: before } = this.state;
    this.pause();
    this.state = { ...freshState(dims, preset, this.sheets), loop, shown, reference };
    if (dims === before) this.state.models = models;
    this.rebuild();
    element(dims === before ? "presets" : "dims").querySelector('[aria-pressed="true"]').focus();
  }

  choose(index, name) { this.state.models[index] = name; this.rebuild(); this.panels[index].select.focus(); }

  close(index) { this.state.models.splice(index, 1); this.rebuild(); element("another").focus(); }

  another() {
    const fitting = this.sheets.filter((sheet) => sheet.dims === this.state.dims).map((sheet) => sheet.name);
    this.state.models.push(fitting.find((name) => !this.state.models.includes(name)) || fitting[0]);
    this.rebuild();
  }

  toggle(id, shown) {
    const { state } = this;
    state.shown = ALGORITHMS.map((one) => one.id).filter((one) => (one === id ? shown : state.shown.includes(one)));
    this.changed(false);
  }

  // An algorithm without a step of its own follows the loop.
  setStep(id, text) {
    const value = Math.round(Number(text));
    if (text === "" || !(value >= 0 && value <= MOST_LOOPS)) delete this.state.own[id];
    else this.state.own[id] = value;
    this.changed(false);
  }

  mark(i) { if (this.state.marked !== i) { this.state.marked = i; this.changed(false); } }

  move(i, values) {
    const { state } = this, example = state.examples[i];
    const [across, up] = values;
    example.x[0] = rounded(clamped(across, state.span));
    if (state.dims === 1) example.y = rounded(clamped(up, state.span * HEIGHT));
    else example.x[1] = rounded(clamped(up, state.span));
    this.changed();
  }

  lift(y) {
    const example = this.state.examples[this.state.marked];
    if (example) { example.y = rounded(clamped(y, this.state.span * HEIGHT)); this.changed(); }
  }

  add(values) {
    const { state } = this;
    if (state.examples.length === MOST_EXAMPLES) return this.say(`At most ${MOST_EXAMPLES} examples.`);
    const [across, up] = values || [0.5 * state.span * Math.cos(state.examples.length), 0.5 * state.span * Math.sin(state.examples.length)];
    state.examples.push({ x: state.dims === 1 ? [0] : [0, 0], y: 0 });
    state.marked = state.examples.length - 1;
    this.move(state.marked, [across, up]);
  }

  remove(i) {
    const { state } = this;
    if (!state.examples.length) return this.say("There is no example left to remove.");
    state.examples.splice(i, 1);
    state.marked = Math.max(0, Math.min(state.marked, state.examples.length - 1));
    this.changed();
  }

  key(event) {
    const { state } = this, i = state.marked, { x, y } = state.examples[i], count = state.examples.length;
    const step = (event.shiftKey ? 0.5 : 0.1) * (state.span / SPAN);
    const at = [x[0], state.dims === 1 ? y : x[1]];
    const moved = (across, up) => this.move(i, [at[0] + across, at[1] + up]);
    const actions = {
      ArrowLeft: () => moved(-step, 0), ArrowRight: () => moved(step, 0),
      ArrowUp: () => moved(0, step), ArrowDown: () => moved(0, -step),
      "+": () => this.lift(y + step), "=": () => this.lift(y + step), "-": () => this.lift(y - step), _: () => this.lift(y - step),
      n: () => this.mark((i + 1) % count), p: () => this.mark((i + count - 1) % count),
      a: () => this.add(), Delete: () => this.remove(i), Backspace: () => this.remove(i),
    };
    if (!Object.hasOwn(actions, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
    this.draw();
    // The keyboard stays on the marked example, also where circles were added or removed.
    this.panels[0].examples.circles[state.marked]?.focus();
  }

  // The grid point that is nearest to where a person points.
  ask([across, up]) {
    const { dims, span } = this.state, { side } = gridOf(dims, span);
    const index = (value) => Math.max(0, Math.min(side - 1, Math.round(((value + span) / (2 * span)) * (side - 1))));
    const question = dims === 1 ? index(across) : index(up) * side + index(across);
    if (question !== this.question) { this.question = question; this.changed(false); }
  }

  async copy() {
    this.link();
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("Copied.");
    } catch {
      this.say("The address of this page is the link: copy it from there.");
    }
  }

  say(text) { element("said").textContent = text; }

  go(loop) { this.state.loop = loop; this.changed(false); }

  play() {
    if (this.state.loop === MOST_LOOPS) this.state.loop = 0;
    this.playing = { from: this.state.loop, since: null, shown: this.state.loop };
    element("play").textContent = "Pause";
    this.changed(false);
  }

  pause() {
    this.playing = null;
    element("play").textContent = "Play";
  }

  // Where the play is at a moment: a loop and a share of the way to the next.
  played(moment) {
    this.playing.since ??= moment;
    const place = this.playing.from + ((moment - this.playing.since) / 1000) * LOOPS_PER_SECOND;
    this.state.loop = Math.min(MOST_LOOPS, Math.floor(place));
    if (this.state.loop === MOST_LOOPS) { this.pause(); return 0; }
    return this.still.matches ? 0 : place - this.state.loop;
  }

  // How it is drawn.

  // Draw in the next frame; anew computed where the problem or the learners are others.
  changed(computed = true) {
    document.body.dataset.settled = false;
    if (computed) this.race = null;
    this.waiting ||= requestAnimationFrame((moment) => this.draw(moment));
  }

  draw(moment = performance.now()) {
    if (this.waiting) cancelAnimationFrame(this.waiting);
    this.waiting = null;
    const { state } = this, before = state.loop;
    const share = this.playing ? this.played(moment) : 0;
    const fresh = !this.race;
    this.race ||= new Race(state, state.models.map((name) => this.model(name)));
    const algorithms = Object.fromEntries(ALGORITHMS.map(({ id }) => [id, this.blend(this.race.algorithms[id], this.ownStep(id), id in state.own ? 0 : share)]));
    this.panels.forEach((panel, i) => {
      const one = this.race.models[i];
      panel.show(this.race, one && this.blend(one, state.loop, share), algorithms, state.loop);
    });
    for (const { algorithm, surface, caption, figure } of this.others) {
      figure.hidden = !state.shown.includes(algorithm.id);
      if (figure.hidden) continue;
      surface.show(algorithms[algorithm.id], this.colour);
      caption.textContent = algorithm.moves ? `${algorithm.title}, step ${this.ownStep(algorithm.id)}` : algorithm.title;
    }
    // While it plays, numbers and curves change once per loop, not at every frame.
    if (fresh || !this.playing || before !== state.loop || this.numbered !== state.loop) this.numbers();
    if (this.playing) this.waiting = requestAnimationFrame((next) => this.draw(next));
    // Not while an example is dragged: the next frame begins anew.
    this.finish(fresh ? PAUSE : 0);
  }

  blend(trajectory, k, share) {
    const now = trajectory.output(k);
    if (!share || k >= MOST_LOOPS) return now;
    const next = trajectory.output(k + 1);
    return now.map((value, i) => value + share * (next[i] - value));
  }

  ownStep(id) { return this.state.own[id] ?? this.state.loop; }

  // In the pauses: the link to what is shown, the remaining loops, then the curves by loop.
  finish(delay) {
    clearTimeout(this.rest);
    const race = this.race;
    this.rest = setTimeout(() => {
      this.link();
      if (!race.advance(SLICE)) return this.finish(0);
      const drawn = `${this.state.loop} ${this.state.reference} ${this.state.shown}`;
      if (race.drawn !== drawn) this.curves();
      race.drawn = drawn;
      document.body.dataset.settled = !this.playing;
    }, delay);
  }

  // Browsers refuse an address that changes with every frame.
  link() {
    const fragment = fragmentOf(this.state);
    if (this.playing || fragment === this.fragment) return;
    this.fragment = fragment;
    history.replaceState(null, "", fragment);
  }

  numbers() {
    const { state, race } = this;
    this.numbered = state.loop;
    const trained = this.trained();
    element("loop").value = state.loop;
    element("now").textContent = trained === null ? `step ${state.loop}`
      : state.loop > trained ? `loop ${state.loop}, beyond the ${trained} of training` : `loop ${state.loop} of ${trained} trained`;
    element("now").classList.toggle("beyond", trained !== null && state.loop > trained);
    const marked = state.examples[state.marked];
    if (marked) element("height").querySelector("input").value = marked.y;
    element("remove").disabled = !marked;
    const found = race.models.map((one) => one && race.nearest(one.output(state.loop)));
    const sentences = found.map((ranking, i) => {
      if (!ranking) return "";
      const { algorithm, step, distance } = ranking[0];
      if (!Number.isFinite(distance)) return `${this.panels[i].sheet.title}: its predictions have overflowed.`;
      const steps = algorithm.moves ? ` after ${step} step${step === 1 ? "" : "s"}` : "";
      return `${this.panels[i].sheet.title}: nearest to ${algorithm.title}${steps} (distance ${shortNumber(distance)}).`;
    });
    element("nearest").textContent = sentences.filter(Boolean).join(" ");
    this.algorithmTable.show(found);
    this.exampleTable.show();
  }

  trained() {
    const looped = this.panels.map((panel) => panel.sheet).find((sheet) => sheet.looped && sheet.trained);
    return looped ? looped.steps : null;
  }

  marks() {
    const trained = this.trained();
    const mark = trained === null ? [] : [html("span", { textContent: "trained" })];
    if (mark.length) mark[0].style.left = `${(100 * trained) / MOST_LOOPS}%`;
    element("marks").replaceChildren(...mark);
  }

  curves() {
    const { state, race } = this, reference = race.reference(state.reference);
    const errors = (trajectory, steps) => Array.from({ length: steps }, (_, k) => meanSquare(trajectory.output(k), reference));
    const models = race.models.flatMap((one, i) => (one ? [{
      one, name: this.panels[i].sheet.title, colour: COLOURS[i],
    }] : []));
    const shown = ALGORITHMS.filter(({ id, moves }) => moves && state.shown.includes(id));
    this.charts.errors.draw([
      ...models.map(({ one, name, colour }) => ({ name, colour, values: errors(one, MOST_LOOPS + 1) })),
      ...shown.map(({ id, title, dash }) => ({ name: title, colour: id, dash, values: errors(race.algorithms[id], MOST_LOOPS + 1) })),
    ], state.loop, this.trained());
    const looped = models.filter(({ one }) => one.learner.looped);
    const distances = looped.map(({ one, name, colour }) => ({ name, colour, values: distancesToLast(one) }));
    element("settles").textContent = distances.map(({ name, values }) => {
      const last = values[MOST_LOOPS - 1];
      return last < 1e-3 ? `${name} settles.` : `${name} still moves by ${shortNumber(100 * last)}% at loop ${MOST_LOOPS}.`;
    }).join(" ") || "None of these models loops.";
    this.charts.distances.draw(distances, state.loop, this.trained());
  }
}

new PageOfLearners(JSON.parse(element("sheets").textContent));
