// Conversations and settings, kept in this browser alone.

const conversationsKey = 'rocmforge.conversations';
const settingsKey = 'rocmforge.settings';
const mostConversations = 200;

const read = (key, otherwise) => {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
};

const isConversation = (value) =>
  typeof value?.id === 'string' && Array.isArray(value.messages) &&
  value.messages.every((message) => typeof message?.role === 'string' && typeof message.content === 'string');

export class Store {
  constructor() {
    const stored = read(conversationsKey, []);
    this.conversations = Array.isArray(stored) ? stored.filter(isConversation) : [];
    this.settings = read(settingsKey, {});
  }

  create() {
    const conversation = { id: String(Date.now()) + Math.random().toString(36).slice(2, 8), title: '', messages: [] };
    this.conversations.unshift(conversation);
    return conversation;
  }

  find(id) {
    return this.conversations.find((conversation) => conversation.id === id);
  }

  remove(id) {
    this.conversations = this.conversations.filter((conversation) => conversation.id !== id);
    this.save();
  }

  saveSettings(settings) {
    this.settings = settings;
    localStorage.setItem(settingsKey, JSON.stringify(settings));
  }

  /** Drops the oldest conversations when the browser has no more room. */
  save() {
    let kept = this.conversations.filter((conversation) => conversation.messages.length > 0).slice(0, mostConversations);
    for (;;) {
      try {
        localStorage.setItem(conversationsKey, JSON.stringify(kept));
        return;
      } catch (error) {
        if (kept.length <= 1) throw error;
        kept = kept.slice(0, Math.floor(kept.length / 2));
      }
    }
  }
}
