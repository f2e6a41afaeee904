// What is on the page: examples, loop, models; the presets, and the link that keeps all of it.

const SPAN = 3;
const MOST_LOOPS = 60;
const MOST_EXAMPLES = 60;
const HEIGHT = 5 / 3; // the largest |y| that is drawn, over the largest |x|
const NOISE = 0.25; // of the tasks that the models were trained on

// Random numbers that are the same on every machine (mulberry32), as standard normal ones.
function normals(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

const rounded = (value) => Math.round(value * 1000) / 1000;
const clamped = (value, most) => Math.max(-most, Math.min(most, value));

// Each preset draws inputs and may change outputs; `look` says what to look at.
const PRESETS = [
  {
    id: "clean", title: "Clean", count: 8,
    look: "Every example lies on one function. Start at loop 0, where the model knows nothing, and press play: "
      + "each loop brings the prediction nearer, as steps of an algorithm do. Least squares is exact here: "
      + "see how near the model comes, and after how many loops it no longer moves.",
  },
  {
    id: "noise", title: "Noise", count: 12, noise: 0.8,
    look: "Three times the noise of training. Which classical line does the model follow: least squares, which "
      + "believes every example, or ridge, which shrinks towards zero? Remove examples one by one and watch the two part.",
  },
  {
    id: "outlier", title: "An outlier", count: 9, outlier: true,
    look: "One example is far off. Least squares must follow it, since it squares the error. Drag the outlier up "
      + "and down and compare how far each model is pulled: none of them saw such a thing in training.",
  },
  {
    id: "collinear", title: "Collinear", count: 8, collinear: true,
    look: "The inputs do not say everything: with two inputs they lie on one line, and across it the examples say nothing; "
      + "with one input they all lie at one place. Least squares takes the smallest weights that fit. What does the model assume where it has seen nothing?",
  },
  {
    id: "many", title: "More than trained", count: 40,
    look: "Forty examples; the models were trained with at most twenty. They have no positions, so nothing stops them from "
      + "reading more. Does the prediction get better, as that of least squares does, or worse?",
  },
  {
    id: "scaled", title: "Scaled by 3", count: 10, scale: 3,
    look: "The same kind of problem with inputs three times as large, which no model has seen. Gradient descent adapts its step size, "
      + "and the compiled circuit is an algorithm: both carry over. A trained model has learned an algorithm only for the inputs of its training.",
  },
  {
    id: "clusters", title: "Two clusters", count: 12, clusters: true,
    look: "All inputs lie in two groups, and one direction has hardly any spread. Count the loops: gradient descent finds the steep direction "
      + "first and the shallow one slowly, Newton's method both at once. Which of the two does the loop resemble?",
  },
];

function examplesOf(preset, dims) {
  const draw = normals(1 + 7 * PRESETS.indexOf(preset) + dims);
  const weights = dims === 1 ? [1.2] : [1.2, -0.8];
  const spread = dims === 1 ? 1.2 : 1.1, scale = preset.scale || 1;
  const examples = [];
  for (let i = 0; i < preset.count; i++) {
    let x = Array.from({ length: dims }, () => spread * draw());
    if (preset.clusters) x = x.map((value, axis) => 0.15 * value + (i % 2 ? 1.6 : -1.6) * (axis ? 0.6 : 1));
    x = x.map((value) => rounded(scale * clamped(value, 0.95 * SPAN)));
    // After rounding: half of two decimals is on the line to the last digit.
    if (preset.collinear) x = dims === 1 ? [1.5] : [Math.round(100 * x[0]) / 100, Math.round(100 * x[0]) / 200];
    let y = x.reduce((sum, value, axis) => sum + value * weights[axis], 0);
    y += (preset.noise || (preset.collinear ? NOISE : 0)) * draw();
    if (preset.outlier && i === 0) { x = dims === 1 ? [2.2] : [2.0, -1.6]; y = -3.5; }
    examples.push({ x, y: rounded(clamped(y, scale * SPAN * HEIGHT)) });
  }
  return { examples, weights };
}

// The state of the page. `own` holds the steps of algorithms that no longer follow the loop.
function freshState(dims, presetId, sheets) {
  const preset = PRESETS.find((one) => one.id === presetId) || PRESETS[0];
  const { examples, weights } = examplesOf(preset, dims);
  const models = sheets.filter((sheet) => sheet.dims === dims).map((sheet) => sheet.name);
  return {
    dims, preset: preset.id, examples, weights, loop: 0, marked: 0, models: models.slice(0, 2),
    shown: ["descent", "ridge"], own: {}, reference: "ridge", span: SPAN * (preset.scale || 1),
  };
}

const fragmentOf = (state) => "#" + new URLSearchParams({
  d: state.dims, p: state.preset, k: state.loop, m: state.models.join(","), s: state.shown.join(","),
  r: state.reference, o: Object.entries(state.own).map((pair) => pair.join(":")).join(","),
  e: state.examples.map(({ x, y }) => [...x, y].map(rounded).join(",")).join(";"),
}).toString();

// A fragment may come from anybody: what cannot be read is left as a fresh page has it.
function stateFrom(fragment, sheets) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const known = (value) => sheets.some((sheet) => sheet.dims === value);
  const dims = known(Number(given.get("d"))) ? Number(given.get("d")) : sheets[0].dims;
  const state = freshState(dims, given.get("p"), sheets);
  const list = (key) => (given.get(key) || "").split(",").filter(Boolean);
  const loop = Number(given.get("k"));
  if (Number.isInteger(loop) && loop >= 0 && loop <= MOST_LOOPS) state.loop = loop;
  const models = list("m").filter((name) => sheets.some((sheet) => sheet.name === name && sheet.dims === dims));
  if (models.length) state.models = models.slice(0, 3);
  if (given.has("s")) state.shown = list("s").filter((id) => ALGORITHMS.some((one) => one.id === id));
  if (REFERENCES.some((one) => one.id === given.get("r"))) state.reference = given.get("r");
  for (const [id, step] of list("o").map((pair) => pair.split(":"))) {
    const number = Number(step), moves = ALGORITHMS.some((one) => one.id === id && one.moves);
    if (moves && Number.isInteger(number) && number >= 0 && number <= MOST_LOOPS) state.own[id] = number;
  }
  if (given.has("e")) {
    const rows = given.get("e").split(";").filter(Boolean).map((row) => row.split(",").map(Number));
    const fine = rows.length <= MOST_EXAMPLES
      && rows.every((row) => row.length === dims + 1 && row.every((value) => Number.isFinite(value)));
    if (fine) {
      state.examples = rows.map((row) => ({
        x: row.slice(0, dims).map((value) => clamped(value, state.span)),
        y: clamped(row[dims], state.span * HEIGHT),
      }));
    }
  }
  state.marked = Math.max(0, Math.min(state.marked, state.examples.length - 1));
  return state;
}

// The inputs at which everything is predicted and drawn.
function gridOf(dims, span) {
  const side = dims === 1 ? 61 : 15;
  const at = (i) => -span + (2 * span * i) / (side - 1);
  const queries = new Float64Array(dims === 1 ? side : 2 * side * side);
  for (let i = 0; i < queries.length; i++) {
    queries[i] = dims === 1 ? at(i) : i % 2 ? at(Math.floor((i >> 1) / side)) : at((i >> 1) % side);
  }
  return { side, queries };
}

function problemOf(state) {
  const { side, queries } = gridOf(state.dims, state.span);
  return {
    dims: state.dims, side, queries,
    xs: Float64Array.from(state.examples.flatMap((example) => example.x)),
    ys: Float64Array.from(state.examples.map((example) => example.y)),
  };
}
