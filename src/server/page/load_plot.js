// The plot of the server's load: tokens a second as a line, running requests as bars.
import { metrics } from './api.js';

const svgNamespace = 'http://www.w3.org/2000/svg';
const period = 2000;   // ms between two samples
const shortest = 500;  // ms that a rate is taken over
const mostSamples = 60;

const shown = (rate) => rate.toFixed(rate < 10 ? 1 : 0);

export class LoadPlot {
  /** `fields`: elements for the figures, `line` for all of them in one. `key` gives the API key. */
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
      this.fields.line.textContent = '';
      this.last = undefined;
      return;
    }
    const value = (name) => values.get(`rocmforge:${name}`) ?? 0;
    const running = value('num_requests_running');
    const now = performance.now();
    this.fields.running.textContent = running;
    this.fields.waiting.textContent = value('num_requests_waiting');
    this.fields.cache.textContent = `${(value('kv_cache_usage_perc') * 100).toFixed(1)} %`;
    if (!this.last || now - this.last.time >= shortest) {
      const tokens = value('generation_tokens_total');
      if (this.last) {
        const rate = Math.max(0, (tokens - this.last.tokens) / (now - this.last.time) * 1000);
        this.samples = [...this.samples, { rate, running }].slice(-mostSamples);
        this.fields.rate.textContent = shown(rate);
        this.draw();
      }
      this.last = { tokens, time: now };
    }
    const { rate, cache } = this.fields;
    this.fields.line.textContent = `${running} running · ${rate.textContent} tokens/s · KV cache ${cache.textContent}`;
  }

  draw() {
    const largest = (field) => Math.max(...this.samples.map((sample) => sample[field]));
    const most = { rate: largest('rate'), running: largest('running') };
    const offset = mostSamples - this.samples.length;
    const height = (sample, field) => 38 * sample[field] / Math.max(1, most[field]);
    const bars = this.samples.map((sample, index) => {
      const bar = document.createElementNS(svgNamespace, 'rect');
      const size = height(sample, 'running');
      const attributes = { class: 'running', x: offset + index, y: 40 - size, width: 0.8, height: size };
      for (const [name, value] of Object.entries(attributes)) bar.setAttribute(name, value);
      return bar;
    });
    const line = document.createElementNS(svgNamespace, 'polyline');
    line.setAttribute('class', 'tokens');
    line.setAttribute('points', this.samples.map((sample, i) => `${offset + i + 0.4},${40 - height(sample, 'rate')}`).join(' '));
    this.svg.setAttribute('aria-label', `the last ${mostSamples * period / 60000} minutes: up to ${Math.round(most.rate)} tokens a second, up to ${most.running} requests at once`);
    this.svg.replaceChildren(...bars, line);
    this.fields.mostRate.textContent = shown(most.rate);
    this.fields.mostRunning.textContent = most.running;
  }
}
