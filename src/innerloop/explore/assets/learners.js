"use strict";
/* The classical learners, in float64 and with the interface of every learner here:

     learner.init(problem) -> state, learner.step(state, k) -> the next state, learner.read(state)

   A problem is {dims, xs, ys, queries}: flat arrays of n inputs, n outputs and q queries, which are
   asked after the last example; dims is 1 or 2. They are the learners of `innerloop.learners` at
   their defaults, and draw the same lines between small and zero.

   This file declares five names: GradientDescent, Newton, Ridge, LeastSquares and spd. */
const { GradientDescent, Newton, Ridge, LeastSquares, spd } = (() => {
  const EPS = Number.EPSILON;

  function dot(one, other) {
    let sum = 0;
    for (let i = 0; i < one.length; i++) sum += one[i] * other[i];
    return sum;
  }

  /** The inputs along orthogonal directions v, the longest first: |X v|^2, and X'y along v.

      These are squared singular values and right singular vectors. X'X is never formed, since that
      squares the condition number: the columns of X are rotated into each other until they are
      orthogonal. With two columns that is one rotation; another takes care of its rounding. */
  function decompose({ dims, xs, ys }) {
    const columns = [], directions = dims === 1 ? [[1]] : [[1, 0], [0, 1]];
    for (let j = 0; j < dims; j++) columns.push(xs.filter((_, i) => i % dims === j));
    for (let turn = 0; dims === 2 && turn < 2; turn++) {
      const [a, b] = columns;
      const angle = Math.atan2(2 * dot(a, b), dot(a, a) - dot(b, b)) / 2;
      const c = Math.cos(angle), s = Math.sin(angle);
      for (const pair of [columns, directions]) {
        const [p, q] = pair;
        pair[0] = p.map((value, i) => c * value + s * q[i]);
        pair[1] = q.map((value, i) => c * value - s * p[i]);
      }
    }
    return columns.map((column, j) => ({
      square: dot(column, column), moment: dot(column, ys), direction: directions[j],
    }));
  }

  /** The weights w = sum of sizes[j] times direction j. */
  function combine(parts, sizes) {
    const weights = new Float64Array(parts.length);
    parts.forEach(({ direction }, j) => direction.forEach((part, i) => (weights[i] += sizes[j] * part)));
    return weights;
  }

  /** What linear learners share: they predict x . w. A state holds its problem and its weights. */
  class LinearLearner {
    /** The next state; those that are done at once stay where they are. */
    step(state, k) {
      return state;
    }

    read({ problem: { dims, queries }, weights }) {
      const answers = new Float64Array(queries.length / dims);
      for (let i = 0; i < answers.length; i++) {
        for (let j = 0; j < dims; j++) answers[i] += queries[i * dims + j] * weights[j];
      }
      return answers;
    }

    /** What the steps move. */
    moving({ weights }) {
      return weights;
    }
  }

  /** w <- w - pace X'(Xw - y) / L from 0, with L the largest eigenvalue of X'X. */
  class GradientDescent extends LinearLearner {
    constructor(pace = 1) {
      super();
      this.pace = pace;
    }

    get name() {
      return "gradient descent";
    }

    init(problem) {
      const largest = decompose(problem)[0].square;
      // Without inputs it stays where it starts.
      return { problem, weights: new Float64Array(problem.dims), rate: largest > 0 ? this.pace / largest : 0 };
    }

    step({ problem, weights, rate }, k) {
      const { dims, xs, ys } = problem, next = weights.slice();
      for (let i = 0; i < ys.length; i++) {
        const x = xs.subarray(i * dims, (i + 1) * dims), left = ys[i] - dot(x, weights);
        for (let j = 0; j < dims; j++) next[j] += rate * left * x[j];
      }
      return { problem, weights: next, rate };
    }
  }

  /** M <- 2M - M S M from M = S / |S S'|_F, with S = X'X; the weights are M X'y.

      M shares the eigenvectors of S, so that each step is one of their eigenvalues m and s. Those of
      S that are no larger than the rounding of S count as zero. */
  class Newton extends LinearLearner {
    get name() {
      return "Newton";
    }

    init(problem) {
      const parts = decompose(problem), largest = parts[0].square;
      const least = 4 * EPS * (problem.ys.length + problem.dims) * largest;
      const gram = parts.map(({ square }) => (square <= least ? 0 : square));
      const scaled = gram.map((s) => (largest > 0 ? s / largest : 0));
      const norm = Math.max(1, Math.hypot(...scaled.map((s) => s * s)));
      return this._state(problem, parts, gram, scaled.map((s) => (s > 0 ? s / norm / largest : 0)));
    }

    step({ problem, parts, gram, inverse }, k) {
      return this._state(problem, parts, gram, inverse.map((m, j) => m * (2 - gram[j] * m)));
    }

    _state(problem, parts, gram, inverse) {
      const weights = combine(parts, inverse.map((m, j) => m * parts[j].moment));
      return { problem, parts, gram, inverse, weights };
    }
  }

  /** The smallest w among those with the smallest |y - Xw|^2 + penalty |w|^2; done at once. */
  class Ridge extends LinearLearner {
    constructor(penalty) {
      super();
      this.penalty = penalty;
    }

    get name() {
      return "ridge";
    }

    init(problem) {
      const parts = decompose(problem);
      const least = (Math.max(problem.ys.length, problem.dims) * EPS) ** 2 * parts[0].square;
      const sizes = parts.map(({ square, moment }) => (square > least ? moment / (square + this.penalty) : 0));
      return { problem, weights: combine(parts, sizes) };
    }
  }

  /** Ordinary least squares, of minimum norm. */
  class LeastSquares extends Ridge {
    constructor() {
      super(0);
    }

    get name() {
      return "least squares";
    }
  }

  /** SPD: the mean over queries of squared differences of predictions. */
  function spd(one, other) {
    let sum = 0;
    for (let i = 0; i < one.length; i++) sum += (one[i] - other[i]) ** 2;
    return sum / one.length;
  }

  return { GradientDescent, Newton, Ridge, LeastSquares, spd };
})();
