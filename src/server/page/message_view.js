// A message on the page.
import { MarkdownStream } from './markdown.js';

const make = (name, className, text) => {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
};

export class MessageView {
  /** `actions`: label -> what a press does. */
  constructor(message, actions = {}) {
    this.root = make('article', `message ${message.role}`);
    this.root.setAttribute('aria-label', message.role === 'user' ? 'You' : 'Assistant');
    this.reasoning = make('details');
    this.reasoning.hidden = true;
    this.reasoning.append(make('summary', '', 'Reasoning'), make('div'));
    this.body = make('div', 'body');
    this.tools = make('div', 'tools');
    this.facts = make('span', 'facts');
    this.tools.append(this.facts);
    for (const [label, act] of Object.entries(actions)) {
      const button = make('button', `quiet ${label.toLowerCase()}`, label);
      button.type = 'button';
      button.addEventListener('click', act);
      this.tools.append(button);
    }
    this.root.append(this.reasoning, this.body, this.tools);
    if (message.role === 'user') {
      this.body.textContent = message.content;
    } else {
      this.stream = new MarkdownStream(this.body);
      this.add(message.content, message.reasoning ?? '');
      this.describe(message.facts ?? '');
      if (message.failure) this.fail(message.failure);
    }
  }

  add(content, reasoning = '') {
    if (content) this.stream.append(content);
    if (reasoning) {
      this.reasoning.hidden = false;
      this.reasoning.lastChild.textContent += reasoning;
    }
  }

  describe(facts) {
    this.facts.textContent = facts;
  }

  fail(text) {
    this.root.insertBefore(make('p', 'failure', text), this.tools);
  }
}
