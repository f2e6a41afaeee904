// All learners on the same problem, step by step, and how far their predictions are apart.

const ALGORITHMS = [
  // With one input a whole step of 1 / L is the answer at once: a part of it shows how descent goes.
  { id: "descent", title: "gradient descent", moves: true, dash: "7 4", make: (dims) => new GradientDescent(dims === 1 ? 0.3 : 1) },
  { id: "newton", title: "Newton's method", moves: true, dash: "2 3", make: () => new Newton() },
  { id: "ridge", title: "ridge", moves: false, dash: "10 3 2 3", make: () => new Ridge(NOISE * NOISE) },
  { id: "least", title: "least squares", moves: false, dash: "4 2", make: () => new LeastSquares() },
];
const REFERENCES = [
  { id: "ridge", title: "ridge, the best answer at the noise of training" },
  { id: "least", title: "least squares" },
  { id: "truth", title: "the function that the examples began with" },
];

// The states of a learner on a problem, each computed when it is first asked for.
class Trajectory {
  constructor(learner, problem) {
    this.learner = learner;
    this.states = [learner.init(problem)];
    this.outputs = [];
  }

  get length() { return this.states.length; }

  state(k) {
    while (this.states.length <= k) {
      const last = this.states.length - 1;
      this.states.push(this.learner.step(this.states[last], last));
    }
    return this.states[k];
  }

  output(k) {
    if (!this.outputs[k]) this.outputs[k] = this.learner.read(this.state(k));
    return this.outputs[k];
  }
}

class Race {
  constructor(state, models) {
    this.problem = problemOf(state);
    this.algorithms = Object.fromEntries(
      ALGORITHMS.map((one) => [one.id, new Trajectory(one.make(state.dims), this.problem)]));
    this.models = models.map((model) => model.fits(this.problem) ? new Trajectory(model, this.problem) : null);
    const { dims, queries } = this.problem;
    this.truth = new Float64Array(queries.length / dims);
    for (let q = 0; q < this.truth.length; q++) {
      for (let axis = 0; axis < dims; axis++) this.truth[q] += state.weights[axis] * queries[q * dims + axis];
    }
  }

  reference(id) {
    return id === "truth" ? this.truth : this.algorithms[id].output(0);
  }

  // Compute loops that are not there yet, for so many milliseconds; whether all of them are.
  advance(milliseconds) {
    const end = performance.now() + milliseconds;
    for (const one of this.models) {
      while (one && one.length <= MOST_LOOPS) {
        one.output(one.length);
        if (performance.now() > end) return false;
      }
    }
    return true;
  }

  // Every algorithm at the step where it is nearest to an output, the nearest first.
  nearest(output) {
    return ALGORITHMS.map((algorithm) => {
      const steps = algorithm.moves ? MOST_LOOPS : 0;
      let best = { algorithm, step: 0, distance: Infinity };
      for (let step = 0; step <= steps; step++) {
        const distance = spd(output, this.algorithms[algorithm.id].output(step));
        if (distance < best.distance) best = { algorithm, step, distance };
      }
      return best;
    }).sort((a, b) => a.distance - b.distance);
  }
}

const meanSquare = (a, b) => a.reduce((sum, value, i) => sum + (value - b[i]) ** 2, 0) / a.length;

// |Y_k - Y_last| / |Y_last| at every loop: the distance to the fixed point, if it has come to one.
function distancesToLast(trajectory) {
  const last = trajectory.learner.moving(trajectory.state(MOST_LOOPS));
  const norm = Math.sqrt(last.reduce((sum, value) => sum + value * value, 0));
  return Array.from({ length: MOST_LOOPS }, (_, k) => {
    const now = trajectory.learner.moving(trajectory.state(k));
    return Math.sqrt(now.reduce((sum, value, i) => sum + (value - last[i]) ** 2, 0)) / norm;
  });
}
