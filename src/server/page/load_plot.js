// The server's load over the last minutes: tokens a second as a line, running and waiting requests as bars.
import { ApiError, metrics } from './api.js';
import { TimePlot, svgNode } from './axes.js';

const periodMs = 2000;     // between two samples
const shortestMs = 500;    // that a rate is taken over
const seconds = 120;

const shown = (rate) => rate.toFixed(rate < 10 ? 1 : 0);

export class LoadPlot {
  /** `at` finds an element by id, `key` gives the API key. `connection` says whether the server can be asked, and hears when not. */
  constructor(at, key, connection) {
    this.fields = Object.fromEntries(['running', 'waiting', 'rate', 'cache', 'line'].map((name) => [name, at(`load-${name}`)]));
    this.key = key;
    this.connection = connection;
    this.samples = [];
    this.ratePlot = new TimePlot(at('load-rate-plot'), { seconds, height: 74 });
    this.requestsPlot = new TimePlot(at('load-requests-plot'), { seconds, height: 62, whole: true });
    new ResizeObserver(() => this.draw()).observe(at('load'));
  }

  start() {
    const tick = async () => {
      if (!document.hidden) await this.sample();
      setTimeout(tick, periodMs);
    };
    tick();
  }

  async sample() {
    let values;
    try {
      if (!this.connection.works) throw new ApiError('not now');
      values = await metrics(this.key());
    } catch (error) {
      if (!(error instanceof ApiError)) this.connection.check();
      for (const field of Object.values(this.fields)) field.textContent = '–';
      this.fields.line.textContent = '';
      this.last = undefined;
      this.draw();
      return;
    }
    const value = (name) => values.get(`rocmforge:${name}`) ?? 0;
    const running = value('num_requests_running');
    const waiting = value('num_requests_waiting');
    const now = performance.now();
    this.fields.running.textContent = running;
    this.fields.waiting.textContent = waiting;
    this.fields.cache.textContent = `${(value('kv_cache_usage_perc') * 100).toFixed(1)} %`;
    if (!this.last || now - this.last.time >= shortestMs) {
      const tokens = value('generation_tokens_total');
      if (this.last) {
        const rate = Math.max(0, (tokens - this.last.tokens) / (now - this.last.time) * 1000);
        this.samples.push({ time: now, from: this.last.time, rate, running, waiting });
        this.fields.rate.textContent = shown(rate);
      }
      this.last = { tokens, time: now };
    }
    this.draw();
    const { rate, cache } = this.fields;
    this.fields.line.textContent = `${running} running · ${rate.textContent} tokens/s · KV cache ${cache.textContent}`;
  }

  draw() {
    const now = performance.now();
    const ago = (time) => (now - time) / 1000;
    this.samples = this.samples.filter((sample) => ago(sample.time) < seconds);
    const most = (measure) => Math.max(0, ...this.samples.map(measure));
    const mostRate = most((sample) => sample.rate);
    const span = `the last ${seconds / 60} minutes`;
    this.ratePlot.draw(mostRate, `${span}: up to ${shown(mostRate)} tokens a second`, (x, y) => this.pieces().map((piece) =>
      svgNode('polyline', { class: 'tokens', points: piece.map(({ time, rate }) => `${x(ago(time)).toFixed(1)},${y(rate).toFixed(1)}`).join(' ') })));
    const mostRequests = most((sample) => sample.running + sample.waiting);
    this.requestsPlot.draw(mostRequests, `${span}: up to ${most((sample) => sample.running)} requests at once`, (x, y) =>
      this.samples.flatMap(({ time, from, running, waiting }) => {
        const left = x(ago(from));
        const bar = (name, low, high) => svgNode('rect', { class: name, x: left, width: Math.max(1, x(ago(time)) - left - 0.5), y: y(high), height: y(low) - y(high) });
        return [[0, running, 'running'], [running, running + waiting, 'waiting']]
          .filter(([low, high]) => high > low).map(([low, high, name]) => bar(name, low, high));
      }));
  }

  /** Samples that follow one another without a pause. */
  pieces() {
    const list = [];
    for (const sample of this.samples) {
      if (list.at(-1)?.at(-1).time === sample.from) list.at(-1).push(sample);
      else list.push([sample]);
    }
    return list;
  }
}
