"use strict";
/* The in-context transformer, from a sheet of `innerloop.explore.sheet`.

   It has the interface of every learner here: init(problem), step(state, k), read(state). A problem
   is {dims, xs, ys, queries}, flat arrays; the queries are asked after the last example.

   Hidden states are rows of `width` numbers in one array: first the T tokens (a start token where
   there is one, then x and y of each example in turn), then the queries. No token sees a query, so
   that all queries share the keys and values of the tokens. All numbers are float64, also those of
   models that were trained in float32.

   This file declares one name, Transformer. */
const Transformer = (() => {
  const EPSILON = 1e-5; // what norms add to a variance

  /** The numbers of a tensor; browsers run on little-endian machines alone. */
  function decode({ type, data }) {
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const numbers = type === "float64" ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
    return Float64Array.from(numbers);
  }

  // The exact GELU, x Phi(x), by cubic pieces through its values and slopes: as exact as 1e-13, and
  // quicker than an error function. [value, slope * cell] at 0, 1 / CELLS, .. END.
  const CELLS = 512, END = 8;
  const pieces = new Float64Array(2 * (END * CELLS + 1));
  {
    const density = (x) => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
    let mass = 0.5; // Phi, by Simpson's rule from cell to cell
    for (let i = 0; i <= END * CELLS; i++) {
      const x = i / CELLS, half = x + 0.5 / CELLS, next = x + 1 / CELLS;
      pieces[2 * i] = x * mass;
      pieces[2 * i + 1] = (mass + x * density(x)) / CELLS;
      mass += (density(x) + 4 * density(half) + density(next)) / (6 * CELLS);
    }
  }

  function gelu(x) {
    const size = Math.abs(x);
    if (size >= END) return x > 0 ? x : 0;
    const cell = Math.floor(size * CELLS), t = size * CELLS - cell;
    const p = pieces[2 * cell], m = pieces[2 * cell + 1];
    const rise = pieces[2 * cell + 2] - p, n = pieces[2 * cell + 3];
    const value = p + t * (m + t * (3 * rise - 2 * m - n + t * (m + n - 2 * rise)));
    return x < 0 ? value + x : value; // G(-x) = G(x) - x
  }

  const ACTIVATIONS = {
    gelu,
    "gelu-tanh": (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x))),
    relu: (x) => (x > 0 ? x : 0),
  };

  /** to (rows, outputs) = from (rows, inputs) times the map's weights, plus its bias. */
  function applyLinear(map, from, to, rows) {
    const { weight, bias, inputs, outputs } = map;
    // Four rows at a time, so that a weight is loaded once for all of them. Where fewer are left,
    // the last row is computed several times over.
    for (let row = 0; row < rows; row += 4) {
      const r1 = Math.min(row + 1, rows - 1), r2 = Math.min(row + 2, rows - 1);
      const r3 = Math.min(row + 3, rows - 1);
      const a = row * inputs, b = r1 * inputs, c = r2 * inputs, d = r3 * inputs;
      for (let o = 0, w = 0; o < outputs; o++) {
        const start = bias === null ? 0 : bias[o];
        let s0 = start, s1 = start, s2 = start, s3 = start;
        for (let i = 0; i < inputs; i++, w++) {
          const factor = weight[w];
          s0 += factor * from[a + i];
          s1 += factor * from[b + i];
          s2 += factor * from[c + i];
          s3 += factor * from[d + i];
        }
        to[row * outputs + o] = s0;
        to[r1 * outputs + o] = s1;
        to[r2 * outputs + o] = s2;
        to[r3 * outputs + o] = s3;
      }
    }
  }

  /** to = the norm of each row of from, LayerNorm or RMSNorm; the two may be one array. */
  function applyNorm(norm, from, to, rows) {
    const { weight, bias } = norm, width = weight.length;
    for (let row = 0, at = 0; row < rows; row++, at += width) {
      let mean = 0, variance = 0;
      if (bias !== null) {
        for (let i = 0; i < width; i++) mean += from[at + i];
        mean /= width;
      }
      for (let i = 0; i < width; i++) variance += (from[at + i] - mean) ** 2;
      const factor = 1 / Math.sqrt(variance / width + EPSILON);
      for (let i = 0; i < width; i++) {
        to[at + i] = (from[at + i] - mean) * factor * weight[i] + (bias === null ? 0 : bias[i]);
      }
    }
  }

  /** to += what is added, over so many numbers. */
  function addTo(to, added, numbers) {
    for (let i = 0; i < numbers; i++) to[i] += added[i];
  }

  /** The softmax of the first so many numbers, in place. */
  function softmax(values, count) {
    let largest = -Infinity, sum = 0;
    for (let j = 0; j < count; j++) if (values[j] > largest) largest = values[j];
    for (let j = 0; j < count; j++) sum += values[j] = Math.exp(values[j] - largest);
    for (let j = 0; j < count; j++) values[j] /= sum;
  }

  /** The first so many numbers divided by another, in place; those below 0 may count as 0. */
  function divide(values, count, divisor, positive) {
    for (let j = 0; j < count; j++) values[j] = positive && values[j] < 0 ? 0 : values[j] / divisor;
  }

  return class Transformer {
    constructor(sheet) {
      const tensors = {};
      for (const [key, tensor] of Object.entries(sheet.tensors)) tensors[key] = decode(tensor);
      const numbers = (key) => tensors[key] ?? null;
      const linear = (key) => {
        const [outputs, inputs] = sheet.tensors[`${key}.weight`].shape;
        return { weight: tensors[`${key}.weight`], bias: numbers(`${key}.bias`), inputs, outputs };
      };
      // RMSNorm is the norm without a bias; where there is no norm there are no numbers.
      const norm = (key) =>
        tensors[`${key}.weight`] ? { weight: tensors[`${key}.weight`], bias: numbers(`${key}.bias`) } : null;
      const blocks = (part) =>
        sheet.blocks[part].map((size, i) => {
          const key = `backbone.${part}.${i}`, mlp = `${key}.mlp`;
          return {
            ...size,
            attentionNorm: norm(`${key}.attention_norm`),
            inward: linear(`${key}.attention.inward`),
            outward: linear(`${key}.attention.outward`),
            mlpNorm: norm(`${key}.mlp_norm`),
            up: tensors[`${mlp}.up.weight`] ? linear(`${mlp}.up`) : null,
            down: tensors[`${mlp}.up.weight`] ? linear(`${mlp}.down`) : null,
          };
        });
      this.sheet = sheet;
      this.name = sheet.name;
      this.dims = sheet.dims;
      this.looped = sheet.looped;
      this.steps = sheet.steps; // the trained loops, or the layers
      this.width = sheet.width;
      this.activation = ACTIVATIONS[sheet.activation];
      this.embedding = linear("embedding.inward");
      this.start = numbers("embedding.start");
      this.positions = numbers("backbone.positions");
      this.pre = blocks("pre");
      this.layers = blocks("blocks");
      this.post = blocks("post");
      this.loopNorm = norm("backbone.loop_norm");
      this.finalNorm = norm("backbone.final_norm");
      this.readout = linear("readout");
      this.scratch = { rows: 0 };
    }

    /** Whether the model has positions for all examples, and was made for numbers of their size. */
    fits({ dims, xs, ys, queries }) {
      const { points, largest_input, largest_output } = this.sheet;
      if (dims !== this.dims || (points !== null && ys.length + 1 > points)) return false;
      const within = (values, size, largest) => {
        if (largest === null) return true;
        for (let i = 0; i < values.length; i += size) {
          if (!(Math.hypot(...values.subarray(i, i + size)) <= largest)) return false;
        }
        return true;
      };
      return within(xs, dims, largest_input) && within(queries, dims, largest_input)
        && within(ys, 1, largest_output);
    }

    init(problem) {
      if (!this.fits(problem)) {
        throw new RangeError(`${this.name} was not made for this problem: ask fits(problem) first.`);
      }
      const tokens = (this.start ? 1 : 0) + 2 * problem.ys.length;
      const state = { tokens, asked: problem.queries.length / this.dims, now: null, factor: null, term: null };
      const embedded = this._embed(problem, state);
      let positions = this._positions(state);
      if (this.pre.length) {
        if (positions) addTo(embedded, positions, embedded.length);
        this._run(this.pre, embedded, state);
        positions = null; // the pre-transformer has seen them
      }
      const { inject } = this.sheet, numbers = embedded.length;
      if (!this.looped || inject === "add") {
        if (positions) addTo(embedded, positions, numbers);
        if (!this.looped) return { ...state, now: embedded };
        return { ...state, now: new Float64Array(numbers), term: embedded };
      }
      if (inject === "none") return { ...state, now: embedded, term: positions };
      return { ...state, now: new Float64Array(numbers).fill(1), factor: embedded, term: positions };
    }

    /** The state after step k. A loop goes on for ever; a stack ends with its last layer. */
    step(state, k) {
      const blocks = this._blocksOfStep(k);
      if (!blocks.length) return state;
      const now = this._entering(state);
      this._run(blocks, now, state);
      if (this.loopNorm) applyNorm(this.loopNorm, now, now, state.tokens + state.asked);
      return { ...state, now };
    }

    /** The prediction at each query. */
    read(state) {
      const { tokens, asked } = state, answers = new Float64Array(asked);
      let hidden = state.now;
      if (this.post.length) this._run(this.post, (hidden = hidden.slice()), state);
      let last = hidden.subarray(tokens * this.width);
      if (this.finalNorm) applyNorm(this.finalNorm, last, (last = last.slice()), asked);
      applyLinear(this.readout, last, answers, asked);
      return answers;
    }

    /** What the steps move: the tokens of the examples, then the queries. */
    moving(state) {
      return state.now;
    }

    /** The attention in each block of step k, from the state before it: who looks at whom, row by row.

        among (heads, T, T): tokens at tokens; asked (heads, q, T + 1): queries at tokens, and, last,
        at themselves. */
    attention(state, k) {
      const { tokens, asked } = state;
      const seen = this._blocksOfStep(k).map(({ heads }) => ({
        heads, tokens,
        among: new Float64Array(heads * tokens * tokens),
        asked: new Float64Array(heads * asked * (tokens + 1)),
      }));
      this._run(this._blocksOfStep(k), this._entering(state), state, seen);
      return seen;
    }

    _blocksOfStep(k) {
      const each = this.sheet.layers_per_step;
      return this.looped ? this.layers : this.layers.slice(k * each, (k + 1) * each);
    }

    /** What the blocks of the next step are applied to: now * factor + term. */
    _entering({ now, factor, term }) {
      const hidden = now.slice();
      if (factor) for (let i = 0; i < hidden.length; i++) hidden[i] *= factor[i];
      if (term) addTo(hidden, term, hidden.length);
      return hidden;
    }

    /** Tokens and queries as rows: x in the first numbers, y in the first or in one of its own. */
    _embed({ dims, xs, ys, queries }, { tokens, asked }) {
      const { inputs } = this.embedding, first = this.start ? 1 : 0;
      const raw = new Float64Array((tokens + asked) * inputs);
      for (let i = 0; i < ys.length; i++) {
        const at = (first + 2 * i) * inputs;
        for (let j = 0; j < dims; j++) raw[at + j] = xs[i * dims + j];
        raw[at + inputs + this.sheet.output_offset] = ys[i];
      }
      for (let i = 0; i < asked; i++) {
        for (let j = 0; j < dims; j++) raw[(tokens + i) * inputs + j] = queries[i * dims + j];
      }
      const embedded = new Float64Array((tokens + asked) * this.width);
      applyLinear(this.embedding, raw, embedded, tokens + asked);
      if (this.start) embedded.set(this.start);
      return embedded;
    }

    /** The vector of each place; all queries have that of the x behind the last example. */
    _positions({ tokens, asked }) {
      if (!this.positions) return null;
      const { width } = this, vectors = new Float64Array((tokens + asked) * width);
      vectors.set(this.positions.subarray(0, tokens * width));
      const last = this.positions.subarray(tokens * width, (tokens + 1) * width);
      for (let i = 0; i < asked; i++) vectors.set(last, (tokens + i) * width);
      return vectors;
    }

    /** Apply blocks to hidden, in place; seen, where given, takes the attention of each. */
    _run(blocks, hidden, { tokens, asked }, seen = null) {
      const rows = tokens + asked, numbers = rows * this.width;
      const { normed, inner, taken, change, units } = this._room(rows);
      blocks.forEach((block, index) => {
        const ready = (norm) => (norm ? (applyNorm(norm, hidden, normed, rows), normed) : hidden);
        applyLinear(block.inward, ready(block.attentionNorm), inner, rows);
        this._attend(block, tokens, asked, seen && seen[index]);
        applyLinear(block.outward, taken, change, rows);
        addTo(hidden, change, numbers);
        if (!block.up) return;
        applyLinear(block.up, ready(block.mlpNorm), units, rows);
        const { activation } = this;
        for (let i = 0, end = rows * block.up.outputs; i < end; i++) units[i] = activation(units[i]);
        applyLinear(block.down, units, change, rows);
        addTo(hidden, change, numbers);
      });
    }

    /** Fill taken (rows, heads * size) with what each row takes from those that it sees. */
    _attend({ heads, head_size: size, scale }, tokens, asked, seen) {
      const { inner, taken, weights, columns } = this.scratch;
      const { attention, mask, divisor } = this.sheet, causal = mask === "causal";
      const all = heads * size, stride = 3 * all; // a row of inner: queries, keys, values
      // Keys and values of the tokens by number, then by token: the long loops below run over tokens.
      for (let j = 0; j < tokens; j++) {
        for (let i = 0; i < 2 * all; i++) columns[i * tokens + j] = inner[j * stride + all + i];
      }
      for (let row = 0; row < tokens + asked; row++) {
        const query = row >= tokens, reach = query || !causal ? tokens : row + 1;
        // A query sees itself, too, behind all tokens. Examples with full attention would see it as
        // well; a sheet is made only where that changes nothing but how many are seen.
        const count = query ? tokens + 1 : reach;
        const number = divisor ?? (causal ? count : tokens + 1);
        for (let head = 0; head < heads; head++) {
          const own = row * stride + head * size;
          weights.fill(0, 0, count);
          for (let i = 0; i < size; i++) {
            const factor = scale * inner[own + i], key = (head * size + i) * tokens;
            for (let j = 0; j < reach; j++) weights[j] += factor * columns[key + j];
            if (query) weights[tokens] += factor * inner[own + all + i];
          }
          if (attention === "softmax") softmax(weights, count);
          else divide(weights, count, number, attention === "relu");
          for (let i = 0; i < size; i++) {
            const value = (all + head * size + i) * tokens;
            let sum = query ? weights[tokens] * inner[own + 2 * all + i] : 0;
            for (let j = 0; j < reach; j++) sum += weights[j] * columns[value + j];
            taken[row * all + head * size + i] = sum;
          }
          if (!seen) continue;
          const part = weights.subarray(0, count);
          if (query) seen.asked.set(part, (head * asked + row - tokens) * count);
          else seen.among.set(part, (head * tokens + row) * tokens);
        }
      }
    }

    /** Arrays for what blocks compute on the way, kept from call to call. */
    _room(rows) {
      if (rows > this.scratch.rows) {
        const all = [...this.pre, ...this.layers, ...this.post];
        const widest = (size) => new Float64Array(rows * Math.max(...all.map(size)));
        this.scratch = {
          rows,
          normed: widest(() => this.width),
          inner: widest((block) => block.inward.outputs),
          taken: widest((block) => block.outward.inputs),
          change: widest(() => this.width),
          units: widest((block) => (block.up ? block.up.outputs : 0)),
          weights: new Float64Array(rows + 1),
          columns: widest((block) => block.inward.outputs),
        };
      }
      return this.scratch;
    }
  };
})();
