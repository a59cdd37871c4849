// A message on the page.
import { MarkdownStream } from './markdown.js';
import { pictureList } from './pictures.js';

const make = (name, className, text) => {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
};

const button = (label, className, act) => {
  const node = make('button', `quiet small ${className}`, label);
  node.type = 'button';
  node.addEventListener('click', () => act(node));
  return node;
};

export class MessageView {
  /** `actions`: label -> what a press does, with its button. `branches`: {index, count, go(step)} where there are several. */
  constructor(message, actions = {}, branches = null) {
    this.root = make('article', `message ${message.role}`);
    this.root.setAttribute('aria-label', message.role === 'user' ? 'You' : 'Assistant');
    this.body = make('div', 'body');
    this.tools = make('div', 'tools');
    this.facts = make('span', 'facts');
    if (branches) this.tools.append(this.switcher(branches));
    this.tools.append(this.facts);
    for (const [label, act] of Object.entries(actions)) this.tools.append(button(label, label.toLowerCase(), act));
    this.root.append(this.body, this.tools);
    this.waiting = { content: '', reasoning: '' };
    if (message.role === 'user') {
      this.body.textContent = message.content;
      this.body.hidden = message.content === '';
      if (message.images?.length > 0) this.body.before(pictureList(message.images));
    } else {
      this.stream = new MarkdownStream(this.body);
      this.add(message.content, message.reasoning ?? '');
      this.describe(message.facts ?? '');
      if (message.failure) this.tools.before(make('p', 'failure', message.failure));
    }
  }

  switcher({ index, count, go }) {
    const group = make('span', 'branches');
    group.setAttribute('role', 'group');
    group.setAttribute('aria-label', 'Versions');
    const back = button('‹', 'back', () => go(-1));
    const on = button('›', 'on', () => go(1));
    back.setAttribute('aria-label', 'Version before');
    on.setAttribute('aria-label', 'Next version');
    back.disabled = index === 0;
    on.disabled = index === count - 1;
    group.append(back, `${index + 1} / ${count}`, on);
    return group;
  }

  /** What is added is drawn with the next draw(). */
  add(content, reasoning = '') {
    this.waiting.content += content;
    this.waiting.reasoning += reasoning;
  }

  /** Whether nothing waits to be drawn. */
  get isDrawn() {
    return !this.waiting.content && !this.waiting.reasoning && (this.stream?.hasAll ?? true);
  }

  /** Draws about `budget` characters: what is left of it. */
  draw(budget) {
    const { content, reasoning } = this.waiting;
    this.waiting = { content: '', reasoning: '' };
    this.showReasoning(reasoning);
    if (content) this.stream.add(content);
    return this.stream?.draw(budget) ?? budget;
  }

  showReasoning(reasoning) {
    if (!reasoning) return;
    if (!this.reasoning) {
      this.reasoning = make('details');
      this.reasoning.append(make('summary', '', 'Reasoning'), make('div'));
      this.root.prepend(this.reasoning);
    }
    this.reasoning.lastChild.append(reasoning);
  }

  describe(facts) {
    this.facts.textContent = facts;
  }

  /** Lets the text be changed in its place; `done(text)` gets what was written, unless that is nothing new. */
  edit(message, done) {
    const form = make('form', 'edit');
    const isQuestion = message.role === 'user';
    const area = make('textarea');
    area.value = message.content;
    area.rows = Math.min(isQuestion ? 12 : 24, message.content.split('\n').length + 1);
    area.setAttribute('aria-label', isQuestion ? 'Your message' : 'The answer');
    const send = make('button', 'small', isQuestion ? 'Send' : 'Save');
    const end = () => {
      form.remove();
      this.body.hidden = isQuestion && message.content === '';
      this.tools.hidden = false;
    };
    const submit = () => {
      const text = area.value.trim();
      end();
      if (text !== '' && text !== message.content) done(text);
    };
    const row = make('div', 'row end');
    row.append(button('Cancel', 'cancel', end), send);
    form.append(area, row);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      submit();
    });
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') end();
      else if (event.key === 'Enter' && (isQuestion ? !event.shiftKey : event.ctrlKey) && !event.isComposing) submit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.body.hidden = this.tools.hidden = true;
    this.root.append(form);
    area.focus();
  }
}
