// The page: conversations at the side, messages in the middle, one answer at a time.
import { firstModel } from './api.js';
import { Answer, chatRequest } from './answer.js';
import { LoadPlot } from './load_plot.js';
import { MessageView } from './message_view.js';
import { Store } from './store.js';

const at = (id) => document.getElementById(id);
const store = new Store();
let conversation = store.conversations[0] ?? store.create();
let answer = null;
let keepAnswer = () => {};   // puts what has come of the running answer into its message
let model = '';

const titleOf = (item) => item.title || 'New conversation';
const isNearEnd = () => at('messages').scrollHeight - at('messages').scrollTop - at('messages').clientHeight < 80;
const scrollToEnd = () => { at('messages').scrollTop = at('messages').scrollHeight; };

function showBanner(text) {
  at('banner').textContent = text;
  at('banner').hidden = text === '';
}

function save() {
  try {
    store.save();
  } catch {
    showBanner('This browser has no room to keep the conversation.');
  }
  showConversations();
}

function showConversations() {
  const items = store.conversations.map((item) => {
    const row = document.createElement('li');
    row.classList.toggle('current', item === conversation);
    const open = document.createElement('button');
    open.className = 'open';
    open.textContent = titleOf(item);
    if (item === conversation) open.setAttribute('aria-current', 'true');
    open.addEventListener('click', () => select(item));
    const remove = document.createElement('button');
    remove.textContent = '✕';
    remove.setAttribute('aria-label', `Delete ${titleOf(item)}`);
    remove.addEventListener('click', () => removeConversation(item));
    row.append(open, remove);
    return row;
  });
  at('conversations').replaceChildren(...items);
}

function select(item) {
  answer?.stop();
  conversation = item;
  at('sidebar').classList.remove('open');
  showConversations();
  showMessages();
  at('prompt').focus();
}

function removeConversation(item) {
  store.remove(item.id);
  if (item === conversation) select(store.conversations[0] ?? store.create());
  else showConversations();
}

function viewOf(message) {
  const actions = message.role === 'assistant' ? { Retry: () => retry(message), Copy: () => navigator.clipboard?.writeText(message.content) } : {};
  return new MessageView(message, actions);
}

function showMessages() {
  at('messages').replaceChildren(...conversation.messages.map((message) => viewOf(message).root));
  scrollToEnd();
}

function setBusy(busy) {
  at('send').hidden = busy;
  at('stop').hidden = !busy;
  at('messages').setAttribute('aria-busy', String(busy));
}

function retry(message) {
  if (answer) return;
  conversation.messages.length = conversation.messages.indexOf(message);
  showMessages();
  generate();
}

function submit() {
  const text = at('prompt').value.trim();
  if (answer || text === '') return;
  at('prompt').value = '';
  fitPrompt();
  conversation.title ||= text.slice(0, 60);
  conversation.messages.push({ role: 'user', content: text });
  at('messages').append(viewOf(conversation.messages.at(-1)).root);
  save();
  generate();
}

async function generate() {
  const shown = conversation;
  const running = answer = new Answer();
  const request = chatRequest(shown.messages.filter((message) => message.content !== ''), store.settings, model);
  const message = { role: 'assistant', content: '' };
  shown.messages.push(message);
  const view = viewOf(message);
  at('messages').append(view.root);
  scrollToEnd();
  setBusy(true);
  at('status').textContent = 'The model is answering.';
  const keep = keepAnswer = () => {
    message.content = running.content;
    message.reasoning = running.reasoning;
    message.facts = running.describe();
  };
  try {
    await running.run(request, store.settings.api_key, (content, reasoning) => {
      const follow = isNearEnd();
      view.add(content, reasoning);
      view.describe(running.describe());
      if (follow) scrollToEnd();
    });
  } catch (error) {
    message.failure = error instanceof TypeError ? 'The server cannot be reached.' : error.message;
    view.fail(message.failure);
  }
  keep();
  view.describe(message.facts);
  at('status').textContent = message.failure ?? `The answer is complete: ${message.facts}`;
  if (answer === running) answer = null;
  setBusy(answer !== null);
  save();
  load.sample();
}

function fitPrompt() {
  const prompt = at('prompt');
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

async function connect() {
  try {
    const found = await firstModel(store.settings.api_key);
    model = found.id;
    at('model').textContent = found.id;
    showBanner('');
  } catch (error) {
    showBanner(error instanceof TypeError ? 'The server cannot be reached.' : error.message);
    setTimeout(connect, 3000);
  }
}

function openSettings() {
  const form = at('settings').querySelector('form');
  for (const field of form.elements) if (field.name) field.value = store.settings[field.name] ?? '';
  at('settings').returnValue = 'cancel';
  at('settings').showModal();
}

at('settings').addEventListener('close', () => {
  if (at('settings').returnValue !== 'save') return;
  store.saveSettings(Object.fromEntries(new FormData(at('settings').querySelector('form'))));
  connect();
});
at('open-settings').addEventListener('click', openSettings);
at('open-sidebar').addEventListener('click', () => {
  at('sidebar').classList.add('open');
  at('new-conversation').focus();
});
at('close-sidebar').addEventListener('click', () => at('sidebar').classList.remove('open'));
at('new-conversation').addEventListener('click', () => {
  select(store.conversations.find((item) => item.messages.length === 0) ?? store.create());
});
at('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  submit();
});
at('stop').addEventListener('click', () => answer?.stop());
at('prompt').addEventListener('input', fitPrompt);
at('prompt').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});
document.querySelector('main').addEventListener('click', (event) => {
  if (!at('open-sidebar').contains(event.target)) at('sidebar').classList.remove('open');
});
window.addEventListener('pagehide', () => {
  if (!answer) return;
  answer.stop();
  keepAnswer();
  save();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || at('settings').open) return;
  if (answer) answer.stop();
  else at('sidebar').classList.remove('open');
});

const load = new LoadPlot(at('load-plot'), {
  running: at('load-running'), waiting: at('load-waiting'), rate: at('load-rate'), cache: at('load-cache'),
  mostRate: at('load-most-rate'), mostRunning: at('load-most-running'), line: at('load-line'),
}, () => store.settings.api_key);
load.start();
showConversations();
showMessages();
connect();
