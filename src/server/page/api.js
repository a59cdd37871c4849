// The server's API as the page uses it.

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** What a person is told of an error. fetch throws a TypeError when there is no connection. */
export const errorText = (error) => (error instanceof TypeError ? 'The server cannot be reached.' : error.message);

const headers = (key) => ({ 'Content-Type': 'application/json', ...(key ? { Authorization: `Bearer ${key}` } : {}) });

async function failure(response) {
  const text = await response.text();
  try {
    return new ApiError(JSON.parse(text).error.message, response.status);
  } catch {
    return new ApiError(`the server answered ${response.status}`, response.status);
  }
}

async function get(path, key, options = {}) {
  const response = await fetch(path, { headers: headers(key), ...options });
  if (!response.ok) throw await failure(response);
  return response;
}

/** The models that can be asked: {name, sees}. `sees`: whether it takes pictures, undefined where the server does not say. */
export const models = async (key) => (await (await get('v1/models', key)).json()).data.map(({ id, capabilities }) => (
  { name: id, sees: capabilities?.includes('multimodal') }));

/** The server's own values of the sampling parameters, by the API's names. */
export const samplingDefaults = async (key) => (await (await get('props', key)).json()).default_generation_settings.params;

/** Throws unless the server works. */
export const checkHealth = async (milliseconds) => {
  await get('health', '', { cache: 'no-store', signal: AbortSignal.timeout(milliseconds) });
};

/** The data of server-sent events, one string an event. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let from = Math.max(0, pending.length - 1);  // there is no end before
    pending += value;
    for (let end; (end = pending.indexOf('\n\n', from)) >= 0; from = 0, pending = pending.slice(end + 2)) {
      const lines = pending.slice(0, end).split('\n').filter((line) => line.startsWith('data:'));
      if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join('\n');
    }
  }
}

/** Yields the chunks of a streamed chat completion. `signal` ends it. */
export async function* streamChat(request, key, signal) {
  const body = JSON.stringify({ ...request, stream: true, timings_per_token: true });
  const response = await fetch('v1/chat/completions', { method: 'POST', headers: headers(key), body, signal });
  if (!response.ok) throw await failure(response);
  for await (const data of events(response.body)) {
    if (data === '[DONE]') return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message);
    yield chunk;
  }
  throw new ApiError('The connection ended before the answer did.');
}

/** Sums of the Prometheus samples by name, labels ignored. */
export function parseMetrics(text) {
  const values = new Map();
  for (const line of text.split('\n')) {
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{.*\})? (\S+)/.exec(line);
    if (sample) values.set(sample[1], (values.get(sample[1]) ?? 0) + Number(sample[2]));
  }
  return values;
}

export const metrics = async (key) => parseMetrics(await (await get('metrics', key)).text());
