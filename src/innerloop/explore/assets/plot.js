// Plots as SVG, and what is dense (surfaces, attention) on canvases.

function svg(name, attributes = {}, parent = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

function html(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

// One linear or logarithmic axis: values to pixels and back.
class Axis {
  constructor(low, high, from, to, log = false) {
    Object.assign(this, { low, high, from, to, log });
  }

  share(value) {
    return this.log
      ? Math.log(value / this.low) / Math.log(this.high / this.low)
      : (value - this.low) / (this.high - this.low);
  }

  at(value) { return this.from + this.share(value) * (this.to - this.from); }

  value(pixel) { return this.low + ((pixel - this.from) / (this.to - this.from)) * (this.high - this.low); }

  ticks() {
    if (this.log) {
      const first = Math.ceil(Math.log10(this.low) - 1e-9), last = Math.floor(Math.log10(this.high) + 1e-9);
      const every = Math.max(1, Math.ceil((last - first) / 5));
      return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, i) => 10 ** (first + i * every));
    }
    const raw = (this.high - this.low) / 6, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw);
    const first = Math.ceil(this.low / step - 1e-9);
    return Array.from({ length: Math.floor(this.high / step - first + 1e-9) + 1 }, (_, i) => (first + i) * step);
  }
}

const shortNumber = (value) => (Math.abs(value) >= 1e-3 || value === 0 ? String(Number(value.toPrecision(3))) : value.toExponential(1).replace(".0e", "e"));

// A frame with axes and their numbers, into which others draw.
class Frame {
  constructor(width, height, x, y, names) {
    const left = 38, bottom = 30;
    this.svg = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group" });
    this.x = new Axis(...x, left, width - 8);
    this.y = new Axis(y[0], y[1], height - bottom, 8, y[2]);
    this.clip = `clip${Frame.count = (Frame.count || 0) + 1}`;
    const box = { x: left, y: 8, width: width - 8 - left, height: height - bottom - 8 };
    svg("rect", box, svg("clipPath", { id: this.clip }, this.svg));
    svg("rect", { ...box, class: "frame" }, this.svg);
    for (const tick of this.x.ticks()) {
      svg("line", { x1: this.x.at(tick), x2: this.x.at(tick), y1: height - bottom, y2: height - bottom + 4, class: "axis" }, this.svg);
      svg("text", { x: this.x.at(tick), y: height - bottom + 16, "text-anchor": "middle" }, this.svg).textContent = shortNumber(tick);
    }
    for (const tick of this.y.ticks()) {
      svg("line", { x1: left - 4, x2: left, y1: this.y.at(tick), y2: this.y.at(tick), class: "axis" }, this.svg);
      svg("text", { x: left - 6, y: this.y.at(tick) + 4, "text-anchor": "end" }, this.svg).textContent = shortNumber(tick);
    }
    svg("text", { x: width - 8, y: height - 2, "text-anchor": "end" }, this.svg).textContent = names[0];
    
    this.under = svg("g", { "clip-path": `url(#${this.clip})` }, this.svg);
    svg("text", { x: left + 5, y: 21, class: "name" }, this.svg).textContent = names[1];
    this.over = svg("g", {}, this.svg);
  }

  path(xs, ys) {
    let text = "";
    for (let i = 0; i < xs.length; i++) {
      const y = this.y.at(ys[i]);
      // Far outside the frame a path may leave the range of a renderer's numbers.
      if (!Number.isNaN(y)) text += `${text ? "L" : "M"}${this.x.at(xs[i]).toFixed(1)} ${Math.max(-1e4, Math.min(1e4, y)).toFixed(1)}`;
    }
    return text;
  }
}

// Colours of a value from -most to most, between two ends that colour-blind people tell apart.
function colourScale(most) {
  const style = getComputedStyle(document.documentElement);
  const [low, middle, high] = ["--low", "--middle", "--high"].map((name) =>
    style.getPropertyValue(name).split(",").map(Number));
  return (value) => {
    const share = Math.max(-1, Math.min(1, value / most)), end = share < 0 ? low : high;
    return middle.map((one, i) => Math.round(one + Math.abs(share) * (end[i] - one)));
  };
}

function paint(canvas, width, height, colourAt) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    const [red, green, blue] = colourAt(i);
    image.data.set([red, green, blue, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

// Level lines of values on a square grid, by marching squares: segments in units of cells.
function levelLines(values, side, level) {
  const segments = [];
  for (let row = 0; row + 1 < side; row++) {
    for (let column = 0; column + 1 < side; column++) {
      const corners = [[0, 0], [1, 0], [1, 1], [0, 1]];
      const height = corners.map(([dx, dy]) => values[(row + dy) * side + column + dx] - level);
      const ends = [];
      for (let edge = 0; edge < 4; edge++) {
        const next = (edge + 1) % 4;
        if (height[edge] < 0 === height[next] < 0) continue;
        const share = height[edge] / (height[edge] - height[next]);
        ends.push([0, 1].map((axis) => (axis ? row : column) + corners[edge][axis] + share * (corners[next][axis] - corners[edge][axis])));
      }
      for (let i = 0; i + 1 < ends.length; i += 2) segments.push([ends[i], ends[i + 1]]);
    }
  }
  return segments;
}

// A surface over two inputs: colours, and a line per unit of height.
class Surface {
  constructor(frame, side, most) {
    Object.assign(this, { frame, side, most });
    const { x, y } = frame, [, , width, height] = frame.svg.getAttribute("viewBox").split(" ").map(Number);
    // Behind the SVG, and as wide as its frame however wide that is drawn.
    this.canvas = html("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    Object.assign(this.canvas.style, {
      left: `${(100 * x.from) / width}%`, width: `${(100 * (x.to - x.from)) / width}%`,
      top: `${(100 * y.to) / height}%`, height: `${(100 * (y.from - y.to)) / height}%`,
    });
    this.lines = svg("path", { class: "level" }, frame.under);
  }

  show(values, colour) {
    const { side, frame, most } = this, fine = 4 * (side - 1) + 1;
    paint(this.canvas, fine, fine, (i) => {
      // The canvas begins at the top, where the second input is largest; between grid points: bilinear.
      const column = (i % fine) / 4, row = (fine - 1 - Math.floor(i / fine)) / 4;
      const c = Math.min(side - 2, Math.floor(column)), r = Math.min(side - 2, Math.floor(row));
      const s = column - c, t = row - r, at = (dr, dc) => values[(r + dr) * side + c + dc];
      return colour((1 - t) * ((1 - s) * at(0, 0) + s * at(0, 1)) + t * ((1 - s) * at(1, 0) + s * at(1, 1)));
    });
    const scale = (point) => {
      const x = frame.x.low + (point[0] / (side - 1)) * (frame.x.high - frame.x.low);
      const y = frame.y.low + (point[1] / (side - 1)) * (frame.y.high - frame.y.low);
      return `${frame.x.at(x).toFixed(1)} ${frame.y.at(y).toFixed(1)}`;
    };
    let text = "";
    for (let level = -4; level <= 4; level++) {
      for (const [from, to] of levelLines(values, side, (level * most) / 5)) text += `M${scale(from)}L${scale(to)}`;
    }
    this.lines.setAttribute("d", text);
  }
}

// Curves by loop on a logarithmic axis, with a hairline at the current loop and one at the trained.
class Chart {
  constructor(place, name) {
    this.place = place;
    this.name = name;
    place.classList.add("chart");
  }

  draw(curves, loop, trained) {
    const values = curves.flatMap((curve) => curve.values).filter((value) => Number.isFinite(value) && value > 0);
    const floor = 1e-8, high = values.length ? Math.max(...values) : 1;
    const low = Math.max(floor, values.length ? Math.min(...values) : floor);
    const top = 10 ** Math.ceil(Math.log10(Math.max(high, 10 * low)));
    const frame = new Frame(460, 250, [0, MOST_LOOPS], [10 ** Math.floor(Math.log10(low)), Math.min(top, 1e12), true], ["loop", ""]);
    for (const curve of curves) {
      const shown = curve.values.map((value) => Math.max(frame.y.low, value));
      const line = svg("path", { d: frame.path([...shown.keys()], shown), class: "curve", stroke: `var(--${curve.colour})` }, frame.under);
      if (curve.dash) line.setAttribute("stroke-dasharray", curve.dash);
      svg("title", {}, line).textContent = curve.name;
      const end = shown[Math.min(loop, shown.length - 1)];
      if (Number.isFinite(end)) svg("circle", { cx: frame.x.at(Math.min(loop, shown.length - 1)), cy: frame.y.at(end), r: 3.5, fill: `var(--${curve.colour})` }, frame.under);
    }
    for (const [at, label] of [[loop, ""], [trained, "trained"]]) {
      if (at === null) continue;
      svg("line", { x1: frame.x.at(at), x2: frame.x.at(at), y1: frame.y.to, y2: frame.y.from, class: "hair" }, frame.over);
      if (label) svg("text", { x: frame.x.at(at) + 3, y: frame.y.to + 11 }, frame.over).textContent = label;
    }
    frame.svg.setAttribute("role", "img");
    frame.svg.setAttribute("aria-label", `${this.name}. ` + curves.map((curve) =>
      `${curve.name}: ${shortNumber(curve.values[Math.min(loop, curve.values.length - 1)] || 0)} at loop ${loop}`).join("; "));
    this.place.replaceChildren(frame.svg, html("p", { className: "note" }, ...curves.flatMap((curve) => [html("span", { className: "entry" }, swatch(curve), curve.name), " "])));
  }
}

function swatch(curve) {
  const mark = svg("svg", { width: 30, height: 8, viewBox: "0 0 30 8", "aria-hidden": "true" });
  mark.style.cssText = "width:30px;height:8px;display:inline-block;margin-right:.3rem";
  const line = svg("path", { d: "M0 4H30", stroke: `var(--${curve.colour})`, "stroke-width": 3 }, mark);
  if (curve.dash) line.setAttribute("stroke-dasharray", curve.dash);
  return mark;
}
