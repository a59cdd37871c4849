// The plot of the server's load: tokens a second as a line, running requests as bars.
import { metrics } from './api.js';

const svgNamespace = 'http://www.w3.org/2000/svg';
const period = 2000;   // ms between two samples
const mostSamples = 60;

export class LoadPlot {
  constructor(container, fields, key) {
    this.fields = fields;
    this.key = key;
    this.samples = [];
    this.svg = document.createElementNS(svgNamespace, 'svg');
    this.svg.setAttribute('viewBox', `0 0 ${mostSamples} 40`);
    this.svg.setAttribute('preserveAspectRatio', 'none');
    this.svg.setAttribute('role', 'img');
    container.append(this.svg);
  }

  start() {
    const tick = async () => {
      if (!document.hidden) await this.sample();
      setTimeout(tick, period);
    };
    tick();
  }

  async sample() {
    let values;
    try {
      values = await metrics(this.key());
    } catch {
      for (const field of Object.values(this.fields)) field.textContent = '–';
      this.last = undefined;
      return;
    }
    const now = performance.now();
    const tokens = values.get('rocmforge:generation_tokens_total') ?? 0;
    const rate = this.last ? Math.max(0, (tokens - this.last.tokens) / (now - this.last.time) * 1000) : 0;
    this.last = { tokens, time: now };
    const running = values.get('rocmforge:num_requests_running') ?? 0;
    this.samples = [...this.samples, { rate, running }].slice(-mostSamples);
    this.fields.running.textContent = running;
    this.fields.waiting.textContent = values.get('rocmforge:num_requests_waiting') ?? 0;
    this.fields.rate.textContent = rate.toFixed(rate < 10 ? 1 : 0);
    this.fields.cache.textContent = `${((values.get('rocmforge:kv_cache_usage_perc') ?? 0) * 100).toFixed(1)} %`;
    this.draw();
  }

  draw() {
    const most = (field) => Math.max(1, ...this.samples.map((sample) => sample[field]));
    const offset = mostSamples - this.samples.length;
    const height = (value, field) => 38 * value / most(field);
    const bars = this.samples.map((sample, index) => {
      const bar = document.createElementNS(svgNamespace, 'rect');
      const size = height(sample.running, 'running');
      const attributes = { class: 'running', x: offset + index, y: 40 - size, width: 0.8, height: size };
      for (const [name, value] of Object.entries(attributes)) bar.setAttribute(name, value);
      return bar;
    });
    const line = document.createElementNS(svgNamespace, 'polyline');
    line.setAttribute('class', 'tokens');
    line.setAttribute('points', this.samples.map((sample, i) => `${offset + i + 0.4},${40 - height(sample.rate, 'rate')}`).join(' '));
    this.svg.setAttribute('aria-label', `up to ${Math.round(most('rate'))} tokens a second, up to ${most('running')} requests at once`);
    this.svg.replaceChildren(...bars, line);
  }
}
