// Questions and answers. Each conversation has at most one answer under way; it goes on while another is shown.
import { errorText } from './api.js';
import { Answer, chatRequest } from './answer.js';
import { add, path, remove } from './thread.js';

const mostAnswers = 4;  // at once: a browser opens six connections to a server, and some are for watching it

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');

export class Dialogue {
  /** `page`: began(conversation), grew(conversation, content, reasoning), ended(conversation, {facts, nothingCame,
   *  failure}), gaveBack(conversation, text, images) and notify(conversation, text) tell it what happens; settings(), model() and heard(). */
  constructor(page) {
    this.page = page;
    this.answers = new Map();  // by conversation
  }

  isBusy(conversation) {
    return this.answers.has(conversation);
  }

  describe(conversation) {
    return this.answers.get(conversation)?.describe() ?? '';
  }

  stop(conversation) {
    this.answers.get(conversation)?.stop();
  }

  /** Ends all answers at once; what has come of them is kept. */
  stopAll() {
    for (const [conversation, answer] of [...this.answers]) {
      answer.stop();
      this.end(conversation, answer);
    }
  }

  /** `images`: data: URLs; `parent`: the message before the question. False when no answer can begin now. */
  ask(conversation, text, images = [], parent = conversation.leaf) {
    if (!this.hasRoom(conversation)) return false;
    const shownBefore = conversation.leaf;
    const question = add(conversation, parent, { role: 'user', content: text, ...(images.length > 0 ? { images } : {}) });
    const message = add(conversation, question.id, { role: 'assistant', content: '' });
    this.run(conversation, Object.assign(new Answer(message), { question, shownBefore }));
    return true;
  }

  /** Another answer to the same question. */
  retry(conversation, old) {
    if (!this.hasRoom(conversation)) return;
    const shownBefore = conversation.leaf;
    this.run(conversation, Object.assign(new Answer(add(conversation, old.parent, { role: 'assistant', content: '' })), { shownBefore }));
  }

  /** More of an answer that was cut. */
  resume(conversation, message) {
    if (!this.hasRoom(conversation)) return;
    delete message.failure;
    this.run(conversation, new Answer(message));
  }

  hasRoom(conversation) {
    if (this.isBusy(conversation)) return false;
    if (this.answers.size < mostAnswers) return true;
    this.page.notify(conversation, `${mostAnswers} answers are under way. Wait for one, or stop one.`);
    return false;
  }

  async run(conversation, answer) {
    this.answers.set(conversation, answer);
    const settings = this.page.settings();
    const messages = path(conversation, answer.message.id).filter((message) => message.content !== '' || message.images?.length > 0);
    this.page.began(conversation);
    let failure = '';
    try {
      await answer.run(chatRequest(messages, settings, this.page.model()), settings.api_key, (content, reasoning) => {
        this.page.heard();
        this.page.grew(conversation, content, reasoning);
      });
    } catch (error) {
      failure = errorText(error);
    }
    this.end(conversation, answer, failure);
  }

  end(conversation, answer, failure = '') {
    if (this.answers.get(conversation) !== answer) return;  // stopAll() was here
    this.answers.delete(conversation);
    const { message } = answer;
    const nothingCame = message.content === '' && !message.reasoning && (failure || answer.stopped);
    if (nothingCame) this.takeBack(conversation, answer);
    else {
      message.facts = answer.describe();
      message.cut = Boolean(failure) || answer.cut;
      if (failure) message.failure = failure;
    }
    if (failure) this.page.notify(conversation, sentence(failure) + (nothingCame && answer.question ? ' Your message is back in the box.' : ''));
    this.page.ended(conversation, { facts: message.facts, nothingCame, failure });
  }

  /** As if nothing had been asked: what the server refuses may not stand in the way of what comes next. */
  takeBack(conversation, { message, question, shownBefore }) {
    remove(conversation, message);
    if (question) {
      remove(conversation, question);
      this.page.gaveBack(conversation, question.content, question.images ?? []);
    }
    conversation.leaf = shownBefore;
  }
}
