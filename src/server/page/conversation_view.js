// The messages of the conversation that is shown.
import { copyWith } from './clipboard.js';
import { MessageView } from './message_view.js';
import { path, versions } from './thread.js';

const shareOfTime = 0.2;  // that drawing an answer may take while it comes
const slice = 20000;      // characters that are drawn before the page does anything else

export class ConversationView {
  /** `act`: ask, rewrite, retry, resume, remove, removeVersion, show: what a message's buttons do. `copyFailed()` when nothing could be copied. */
  constructor(container, act, copyFailed) {
    Object.assign(this, { container, act, copyFailed });
    for (const event of ['wheel', 'touchmove', 'keydown', 'pointerdown']) container.addEventListener(event, () => { this.place = undefined; }, { passive: true });
    container.addEventListener('click', (event) => {
      const button = event.target.closest('.copy-code');
      if (button) this.copy(button, button.closest('.code').querySelector('code').textContent);
    });
  }

  async copy(button, text) {
    if (!await copyWith(button, text)) this.copyFailed();
  }

  show(conversation, isBusy) {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.place ??= this.isNearEnd ? 'end' : this.container.scrollTop;
    const messages = path(conversation);
    const all = versions(conversation);
    const views = messages.map((message, index) => this.viewOf(conversation, message, all(message), isBusy, index === messages.length - 1));
    this.container.replaceChildren(...views.map((view) => view.root));
    this.container.setAttribute('aria-busy', String(isBusy));
    this.last = views.at(-1);
    this.undrawn = views;
    this.drawSlice();
  }

  /** Draws messages, the last ones first, and goes on a little later where much is left. */
  drawSlice() {
    clearTimeout(this.sliceTimer);
    for (let left = slice; left > 0 && this.undrawn.length > 0;) {
      const view = this.undrawn.at(-1);
      left = view.draw(left);
      if (view.isDrawn) this.undrawn.pop();
    }
    this.keepPlace();
    if (this.undrawn.length > 0) this.sliceTimer = setTimeout(() => this.drawSlice(), 0);
    else this.place = undefined;
  }

  /** Stays where the reader was, unless the reader has moved since. */
  keepPlace() {
    if (this.place === 'end') this.scrollToEnd();
    else if (this.place !== undefined) this.container.scrollTop = this.place;
  }

  viewOf(conversation, message, all, isBusy, isLast) {
    const actions = {};
    const { act } = this;
    if (message.role === 'user') {
      if (!isBusy) actions.Edit = () => view.edit(message, (text) => act.ask(conversation, text, message.images, message.parent));
    } else if (!isBusy) {
      actions.Retry = () => act.retry(conversation, message);
      actions.Edit = () => view.edit(message, (text) => act.rewrite(conversation, message, text));
      // A template may leave out the end of a line that comes last.
      const canGoOn = isLast && message.cut && message.content && !message.content.endsWith('\n');
      if (canGoOn) actions.Continue = () => act.resume(conversation, message);
    }
    if (!(isBusy && isLast)) actions.Copy = (button) => this.copy(button, message.content);
    if (message.role === 'user' && !isBusy) actions.Delete = () => act.remove(conversation, message);
    // The only answer goes with its question: two questions may not follow one another.
    else if (all.length > 1 && !isBusy) actions.Delete = () => act.removeVersion(conversation, message);
    const index = all.indexOf(message);
    const switcher = all.length > 1 && !isBusy ? { index, count: all.length, go: (step) => act.show(conversation, all[index + step]) } : null;
    const view = new MessageView(message, actions, switcher);
    return view;
  }

  get isNearEnd() {
    return this.container.scrollHeight - this.container.scrollTop - this.container.clientHeight < 80;
  }

  scrollToEnd() {
    if (this.undrawn?.length > 0) this.place = 'end';
    this.container.scrollTop = this.container.scrollHeight;
  }

  /** The last message has grown. Drawn a little later, with what comes until then. */
  grow(content, reasoning, describe) {
    this.last.add(content, reasoning);
    this.timer ??= setTimeout(() => this.draw(describe), this.pause ?? 0);
  }

  draw(describe) {
    this.timer = undefined;
    const follow = this.isNearEnd;
    const begin = performance.now();
    this.last.draw(slice);
    this.last.describe(describe());
    if (follow) this.scrollToEnd();
    this.pause = Math.max(16, (performance.now() - begin) * (1 / shareOfTime - 1));
    if (!this.last.isDrawn) this.timer = setTimeout(() => this.draw(describe), this.pause);
  }
}
