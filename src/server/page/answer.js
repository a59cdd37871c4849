// One streamed answer: its text goes into its message, its speed is what the server has measured.
import { streamChat } from './api.js';
import { withPictures } from './pictures.js';
import { samplingNames } from './settings.js';

const number = (value) => (value === '' || value === undefined || value === null ? undefined : Number(value));

/** What the API gets of a conversation; settings that are empty are left to the server. */
export function chatRequest(messages, settings, model) {
  const system = settings.system?.trim() ? [{ role: 'system', content: settings.system }] : [];
  const request = { model, messages: [...system, ...messages.map(({ role, content, images }) => ({ role, content: withPictures(content, images) }))] };
  for (const name of [...samplingNames, 'max_tokens', 'seed']) {
    const value = number(settings[name]);
    if (value !== undefined && !Number.isNaN(value)) request[name] = value;
  }
  return request;
}

const duration = (ms) => (ms < 1000 ? `${Math.ceil(ms)} ms` : `${(ms / 1000).toFixed(2)} s`);

/** "12 tokens · 34.5 tokens/s · prompt of 30 tokens in 120 ms": the server's figures, the prompt's with the last event. */
export function describeTimings(timings) {
  if (!timings) return [];
  const count = timings.predicted_n;
  const parts = [`${count} token${count === 1 ? '' : 's'}`];
  if (timings.predicted_per_second > 0) parts.push(`${timings.predicted_per_second.toFixed(1)} tokens/s`);
  if (timings.prompt_ms !== undefined) {
    parts.push(`prompt of ${timings.prompt_n + timings.cache_n} tokens in ${duration(timings.prompt_ms)}`);
  }
  return parts;
}

export class Answer {
  /** What comes is appended to the message. */
  constructor(message) {
    this.message = message;
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
    try {
      for await (const chunk of streamChat(request, key, this.controller.signal)) {
        if (this.stopped) return;
        this.take(chunk, show);
      }
    } catch (error) {
      if (!this.stopped) throw error;
    }
  }

  take(chunk, show) {
    if (chunk.timings) this.timings = chunk.timings;
    const choice = chunk.choices[0];
    if (!choice) return;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    const content = choice.delta.content ?? '';
    const reasoning = choice.delta.reasoning_content ?? '';
    if (!content && !reasoning) return;
    this.message.content += content;
    if (reasoning) this.message.reasoning = (this.message.reasoning ?? '') + reasoning;
    show(content, reasoning);
  }

  /** Whether the answer could go on. */
  get cut() {
    return this.finish !== 'stop';
  }

  describe() {
    const parts = describeTimings(this.timings);
    if (this.stopped) parts.push('stopped');
    else if (this.finish === 'length') parts.push('cut at the limit');
    return parts.join(' · ');
  }
}
