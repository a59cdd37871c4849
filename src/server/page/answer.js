// One streamed answer: its text, and how fast it came.
import { streamChat } from './api.js';

const number = (value) => (value === '' || value === undefined || value === null ? undefined : Number(value));

/** What the API gets of a conversation; settings that are empty are left to the server. */
export function chatRequest(messages, settings, model) {
  const system = settings.system?.trim() ? [{ role: 'system', content: settings.system }] : [];
  const request = { model, messages: [...system, ...messages.map(({ role, content }) => ({ role, content }))] };
  for (const name of ['temperature', 'top_p', 'top_k', 'max_tokens', 'seed']) {
    const value = number(settings[name]);
    if (value !== undefined && !Number.isNaN(value)) request[name] = value;
  }
  return request;
}

export class Answer {
  constructor() {
    this.content = '';
    this.reasoning = '';
    this.tokens = 0;
    this.controller = new AbortController();
  }

  stop() {
    this.controller.abort();
  }

  get stopped() {
    return this.controller.signal.aborted;
  }

  /** Calls `show(content, reasoning)` with what is new. Ends early, without an error, after stop(). */
  async run(request, key, show) {
    this.started = performance.now();
    try {
      for await (const chunk of streamChat(request, key, this.controller.signal)) this.take(chunk, show);
    } catch (error) {
      if (!this.stopped) throw error;
    } finally {
      this.ended = performance.now();
    }
  }

  take(chunk, show) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices[0];
    if (!choice) return;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    const content = choice.delta.content ?? '';
    const reasoning = choice.delta.reasoning_content ?? '';
    if (!content && !reasoning) return;
    this.firstToken ??= performance.now();
    this.lastToken = performance.now();
    this.tokens += 1;
    this.content += content;
    this.reasoning += reasoning;
    show(content, reasoning);
  }

  /** "12 tokens · 34.5 tokens/s · first after 0.12 s" */
  describe() {
    if (!this.firstToken) return this.stopped ? 'stopped' : '';
    const tokens = this.usage?.completion_tokens ?? this.tokens;
    const seconds = (this.lastToken - this.firstToken) / 1000;
    const parts = [`${tokens} token${tokens === 1 ? '' : 's'}`];
    if (tokens > 1 && seconds > 0) parts.push(`${((tokens - 1) / seconds).toFixed(1)} tokens/s`);
    parts.push(`first after ${((this.firstToken - this.started) / 1000).toFixed(2)} s`);
    if (this.stopped) parts.push('stopped');
    else if (this.finish === 'length') parts.push('cut at the limit');
    return parts.join(' · ');
  }
}
