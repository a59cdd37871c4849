// Watches whether the server works: asks every few seconds while it does, and less and less often while it does not.
import { ApiError, checkHealth } from './api.js';

const periodMs = 10000;
const loadingPeriodMs = 1000;
const shortestPauseMs = 1000;
const longestPauseMs = 30000;
const patienceMs = 10000;  // for one answer

export class Connection {
  /** `changed(problem)`: '' when the server works, else what is wrong. Called when that changes. */
  constructor(changed) {
    this.changed = changed;
    this.problem = undefined;
    this.pause = shortestPauseMs;
    addEventListener('online', () => this.check());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.check();
    });
  }

  get works() {
    return this.problem === '';
  }

  /** Asks now, and from then on by itself. */
  async check() {
    clearTimeout(this.timer);
    this.asking ??= this.ask().finally(() => { this.asking = undefined; });
    await this.asking;
  }

  /** Something came from the server: it lives, even if its answer to a question is late. */
  heard() {
    this.lastHeard = performance.now();
  }

  async ask() {
    const asked = performance.now();
    let wait = periodMs;
    try {
      await checkHealth(patienceMs);
      this.pause = shortestPauseMs;
      this.report('');
    } catch (error) {
      const isLoading = error instanceof ApiError && /loading/i.test(error.message);
      wait = isLoading ? loadingPeriodMs : this.pause;
      if (!isLoading) this.pause = Math.min(longestPauseMs, 2 * this.pause);
      if (!(this.lastHeard > asked)) this.report(isLoading ? 'The server is loading its model.' : this.describe(error));
    }
    this.timer = setTimeout(() => this.check(), wait);
  }

  describe(error) {
    return error instanceof ApiError ? `The server does not work: ${error.message}` : 'The server does not answer.';
  }

  report(problem) {
    if (problem === this.problem) return;
    this.problem = problem;
    this.changed(problem);
  }
}
