// A small plot over the last minutes: axes with ticks and labels, and room for what is drawn between them.

const svgNamespace = 'http://www.w3.org/2000/svg';
const margin = { top: 6, right: 8, bottom: 16, left: 34 };

export function svgNode(name, attributes, text = '') {
  const node = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

/** Round values from 0 to at least `most`, two or three steps. */
export function ticks(most, whole = false) {
  const rough = Math.max(most, 1) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power, whole ? 1 : 0);
  const count = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, index) => index * step);
}

/** "950", "1.2k", "3M" */
export function shortNumber(value) {
  for (const [size, unit] of [[1e6, 'M'], [1e3, 'k']]) {
    if (value >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}

export class TimePlot {
  /** `seconds`: how far back it goes. `whole`: only whole values. */
  constructor(container, { seconds, height, whole = false }) {
    Object.assign(this, { container, seconds, height, whole });
    this.svg = svgNode('svg', { role: 'img', height });
    container.append(this.svg);
  }

  /** `draw(x, y)` gives the nodes: x maps seconds before now, y a value. `label` says in words what is seen. */
  draw(most, label, draw) {
    const width = Math.max(120, this.container.clientWidth);
    const bottom = this.height - margin.bottom;
    const marks = ticks(most, this.whole);
    const x = (ago) => width - margin.right - (width - margin.left - margin.right) * Math.min(ago, this.seconds) / this.seconds;
    const y = (value) => bottom - (bottom - margin.top) * value / marks.at(-1);
    const right = width - margin.right;
    const nodes = [];
    for (const value of marks) {
      nodes.push(svgNode('line', { class: value === 0 ? 'axis' : 'grid', x1: margin.left, x2: right, y1: y(value), y2: y(value) }),
        svgNode('text', { class: 'y-label', x: margin.left - 5, y: y(value) + 3.5 }, shortNumber(value)));
    }
    nodes.push(svgNode('line', { class: 'axis', x1: margin.left, x2: margin.left, y1: margin.top, y2: bottom }));
    for (const part of [1, 0.5, 0]) {
      const ago = part * this.seconds;
      const label = ago === 0 ? 'now' : `−${ago / 60} min`;
      nodes.push(svgNode('line', { class: 'axis', x1: x(ago), x2: x(ago), y1: bottom, y2: bottom + 3 }),
        svgNode('text', { class: `x-label ${['end', 'middle', 'start'][part * 2]}`, x: x(ago), y: this.height - 3 }, label));
    }
    this.svg.setAttribute('width', width);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${this.height}`);
    this.svg.setAttribute('aria-label', label);
    this.svg.replaceChildren(...nodes, ...draw(x, y));
  }
}
