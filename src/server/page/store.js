// Conversations and settings, kept in this browser alone.
import { isPictureUrl } from './pictures.js';
import { asTree } from './thread.js';

const prefix = 'rocmforge.conversation.';  // and the id: each tab writes what changed in it, and nothing else
const settingsKey = 'rocmforge.settings';

const read = (key, otherwise) => {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
};

const newId = () => String(Date.now()) + Math.random().toString(36).slice(2, 8);

const isText = (value) => value === undefined || typeof value === 'string';
const arePictures = (value) => value === undefined || (Array.isArray(value) && value.every(isPictureUrl));
const isMessage = (value) => ['user', 'assistant'].includes(value?.role) && typeof value.content === 'string' &&
  [value.reasoning, value.facts, value.failure].every(isText) && arePictures(value.images);
const isConversation = (value) =>
  typeof value?.id === 'string' && isText(value.title) && isText(value.draft) && arePictures(value.images) && Array.isArray(value.messages) && value.messages.every(isMessage);

const stored = (key) => {
  const conversation = read(key, null);
  return isConversation(conversation) && key === prefix + conversation.id ? [asTree(conversation)] : [];
};

const isKept = (conversation) => conversation.messages.length > 0 || Boolean(conversation.draft) || conversation.images?.length > 0;

export class Store {
  constructor() {
    this.conversations = Object.keys(localStorage).filter((key) => key.startsWith(prefix)).flatMap(stored);
    this.sort();
    this.settings = read(settingsKey, {});
  }

  /** The newest first: an id begins with its time. */
  sort() {
    this.conversations.sort((one, other) => (one.id < other.id ? 1 : -1));
  }

  create() {
    const conversation = { id: newId(), title: '', messages: [], leaf: null };
    this.conversations.unshift(conversation);
    return conversation;
  }

  /** One that nothing was said in, or a new one. */
  empty() {
    return this.conversations.find((item) => !isKept(item)) ?? this.create();
  }

  /** Throws when the browser has no more room. */
  save(conversation) {
    if (isKept(conversation)) localStorage.setItem(prefix + conversation.id, JSON.stringify(conversation));
    else localStorage.removeItem(prefix + conversation.id);
  }

  remove(conversation) {
    this.conversations = this.conversations.filter((item) => item !== conversation);
    localStorage.removeItem(prefix + conversation.id);
  }

  restore(conversation) {
    this.conversations.push(conversation);
    this.sort();
  }

  /** Follows other tabs, except in conversations that are `mine`. Calls `changed` afterwards. */
  watch(mine, changed) {
    addEventListener('storage', ({ key }) => {
      if (!key?.startsWith(prefix)) return;
      const [now] = stored(key);
      const here = this.conversations.find((item) => prefix + item.id === key);
      if (here && mine(here)) return;
      if (here && now) Object.assign(here, now);
      else if (now) this.restore(now);
      else this.conversations = this.conversations.filter((item) => item !== here);
      changed(here);
    });
  }

  saveSettings(settings) {
    this.settings = settings;
    localStorage.setItem(settingsKey, JSON.stringify(settings));
  }

  /** All conversations as a document for importText(). */
  exportText() {
    return JSON.stringify({ format: 'rocmforge-conversations', version: 1, conversations: this.conversations.filter(isKept) }, null, 1);
  }

  /** How many were added; those that are here already are not. Throws an Error that says what is wrong. */
  importText(text) {
    let document;
    try {
      document = JSON.parse(text);
    } catch (error) {
      throw new Error(`This is no JSON: ${error.message}`);
    }
    if (document?.format !== 'rocmforge-conversations' || !Array.isArray(document.conversations)) {
      throw new Error('This file was not exported from this page.');
    }
    const wrong = document.conversations.findIndex((item) => !isConversation(item));
    if (wrong >= 0) throw new Error(`Conversation ${wrong + 1} of the file is not one.`);
    const known = new Map(this.conversations.map((item) => [item.id, JSON.stringify(item)]));
    const added = document.conversations.map(asTree).filter((item) => known.get(item.id) !== JSON.stringify(item));
    try {
      for (const item of added) {
        if (known.has(item.id)) item.id = newId();  // it went on here: both are kept
        this.conversations.push(item);
        this.save(item);
      }
    } finally {
      this.sort();
    }
    return added.length;
  }
}
