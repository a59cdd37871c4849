// The page: conversations at the side, messages in the middle, answers that go on while another conversation is shown.
import { errorText, models, samplingDefaults } from './api.js';
import { Bar } from './bars.js';
import { Connection } from './connection.js';
import { ConversationList } from './conversation_list.js';
import { ConversationView } from './conversation_view.js';
import { Dialogue } from './dialogue.js';
import { LoadPlot } from './load_plot.js';
import { acceptPasted, isPicture, mostPictures, pictureList, readPicture } from './pictures.js';
import { SettingsDialog } from './settings.js';
import { Store } from './store.js';
import { acceptFiles, quoteFile } from './text_files.js';
import { add, removeTurn, removeVersion, show } from './thread.js';

const at = (id) => document.getElementById(id);
const prompt = at('prompt');
const store = new Store();
const banner = new Bar(at('banner'));
const notice = new Bar(at('notice'));
const unseen = new WeakMap();   // conversation -> 'new' or 'failed'
const notices = new WeakMap();  // conversation -> what went wrong in it while another was shown
const blind = new Set();        // names of models that take no pictures
let conversation = store.conversations[0] ?? store.create();

const key = () => store.settings.api_key;
const announce = (text) => { at('status').textContent = text; };

const dialogue = new Dialogue({
  settings: () => store.settings,
  model: () => at('model').value,
  heard: () => connection.heard(),
  began(item) {
    notice.hide();
    if (item === conversation) {
      showMessages();
      view.scrollToEnd();
    }
    announce('The model is answering.');
    save(item);
  },
  grew(item, content, reasoning) {
    if (item === conversation) view.grow(content, reasoning, () => dialogue.describe(item));
  },
  gaveBack(item, text, images) {
    item.images = [...images, ...item.images ?? []];
    if (item !== conversation) item.draft = [text, item.draft].filter(Boolean).join('\n\n');
    else {
      setPrompt([text, prompt.value].filter(Boolean).join('\n\n'));
      showPictures();
    }
  },
  notify(item, text) {
    if (item === conversation) notice.show(text);
    else notices.set(item, text);
  },
  ended(item, { facts, nothingCame, failure }) {
    if (item.messages.length === 0) item.title = '';
    if (item === conversation) showMessages();
    else if (!nothingCame || failure) unseen.set(item, failure ? 'failed' : 'new');
    if (!failure) announce(nothingCame ? 'Stopped.' : `The answer is complete: ${facts}`);
    else connection.check();
    save(item);
    load.sample();
  },
});

const view = new ConversationView(at('messages'), {
  ask(item, text, images, parent) {
    dialogue.ask(item, text, images, parent);
  },
  retry: (item, message) => dialogue.retry(item, message),
  resume: (item, message) => dialogue.resume(item, message),
  show(item, message) {
    show(item, message);
    showMessages();
    save(item);
  },
  /** The answer in the user's own words: a version beside it, which can be continued. */
  rewrite(item, message, text) {
    add(item, message.parent, { role: 'assistant', content: text, facts: 'edited', cut: true });
    showMessages();
    save(item);
  },
  remove: (item, question) => removeMessages(item, 'The message and its answers are deleted.', () => removeTurn(item, question)),
  removeVersion: (item, answer) => removeMessages(item, 'The answer and what followed it are deleted.', () => removeVersion(item, answer)),
}, () => notice.show('This browser does not let the page copy. Select the text and press Ctrl+C.'));

const list = new ConversationList(at('conversations'), at('search'), {
  select,
  rename(item, title) {
    item.title = title;
    save(item);
  },
  remove(item) {
    dialogue.stop(item);
    if (item === conversation) {
      item.draft = prompt.value;
      store.remove(item);
      conversation = null;
      select(store.conversations[0] ?? store.create());
    } else {
      store.remove(item);
      showList();
    }
    offerUndo('The conversation is deleted.', item, () => store.restore(item));
  },
}, (item) => (dialogue.isBusy(item) ? 'answering' : unseen.get(item) ?? ''));

const settings = new SettingsDialog(at('settings'), (values) => {
  store.saveSettings({ ...store.settings, ...values });
  connect();
}, (presets) => store.saveSettings({ ...store.settings, presets }));

const connection = new Connection((problem) => {
  if (problem) banner.show(problem);
  else connect();
  load.sample();
});

const load = new LoadPlot(at, key, connection);

function removeMessages(item, text, remove) {
  const before = structuredClone({ messages: item.messages, leaf: item.leaf });
  remove();
  showMessages();
  save(item);
  offerUndo(text, item, () => Object.assign(item, before));
}

function offerUndo(text, item, undo) {
  notice.show(text, { isBad: false, action: ['Undo', () => {
    undo();
    select(item);
    save(item);
  }] });
}

const showList = () => list.show(store.conversations, conversation);

function save(item) {
  if (item === conversation) item.draft = prompt.value;
  if (!store.conversations.includes(item)) return;  // deleted while its answer came
  try {
    store.save(item);
  } catch {
    notice.show('This browser has no room to keep the conversation. Export and delete old ones.');
  }
  showList();
}

function saveDraft() {
  if (conversation && prompt.value !== (conversation.draft ?? '')) save(conversation);
}

function showMessages() {
  const busy = dialogue.isBusy(conversation);
  const hadFocus = at('messages').contains(document.activeElement);
  view.show(conversation, busy);
  at('send').hidden = busy;
  at('stop').hidden = !busy;
  if (hadFocus) focusPrompt();
}

function select(item) {
  saveDraft();
  conversation = item;
  unseen.delete(item);
  setPrompt(item.draft ?? '');
  showPictures();
  notice.hide();
  if (notices.has(item)) notice.show(notices.get(item));
  notices.delete(item);
  at('sidebar').classList.remove('open');
  showList();
  showMessages();
  view.scrollToEnd();
  focusPrompt();
}

/** A finger's press on the box opens a keyboard over half the screen: only where it was asked for. */
function focusPrompt() {
  if (!matchMedia('(pointer: coarse)').matches) prompt.focus();
}

function setPrompt(text) {
  prompt.value = text;
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

/** The pictures that will go with the next message. */
function showPictures() {
  const images = conversation.images ?? [];
  at('pictures').hidden = images.length === 0;
  at('pictures').replaceChildren(pictureList(images, (index) => {
    images.splice(index, 1);
    showPictures();
    save(conversation);
    focusPrompt();
  }));
}

const seesNothing = () => blind.has(at('model').value) &&
  `${at('model').value} sees no pictures: it was loaded without an image encoder (mmproj).`;

function submit() {
  const text = prompt.value.trim();
  const images = conversation.images ?? [];
  if ((text === '' && images.length === 0) || !dialogue.hasRoom(conversation)) return;
  if (images.length > 0 && seesNothing()) {
    notice.show(seesNothing());
    return;
  }
  conversation.title ||= (text.split('\n')[0] || 'Picture').slice(0, 60);
  setPrompt('');
  conversation.images = [];
  showPictures();
  dialogue.ask(conversation, text, images);
}

async function addPicture(item, file) {
  if (seesNothing()) throw new Error(seesNothing());
  const url = await readPicture(file);
  if ((item.images ?? []).length >= mostPictures) throw new Error(`A message has at most ${mostPictures} pictures.`);
  item.images = [...item.images ?? [], url];
}

async function addFiles(files) {
  const item = conversation;
  const parts = [];
  const problems = new Set();
  for (const file of files) {
    try {
      if (isPicture(file)) await addPicture(item, file);
      else parts.push(await quoteFile(file));
    } catch (error) {
      problems.add(error.message);
    }
  }
  if (parts.length > 0) setPrompt([prompt.value, ...parts].filter(Boolean).join('\n'));
  if (item.images?.length > 0) save(item);
  if (item === conversation) showPictures();
  if (problems.size > 0) notice.show([...problems].join(' '));
  focusPrompt();
}

/** Keeps the one that was chosen, if there still is one of this name. */
function showModels(all) {
  const chosen = store.settings.model;
  blind.clear();
  for (const { name, sees } of all) if (sees === false) blind.add(name);
  at('model').replaceChildren(...all.map(({ name }) => new Option(name, name, false, name === chosen)));
}

/** What the server says of itself. Its defaults need a key where it has one. */
async function connect() {
  try {
    showModels(await models(key()));
    settings.showDefaults(await samplingDefaults(key()));
    banner.hide();
  } catch (error) {
    if (error.status === 401 || error.status === 403) banner.show(`${errorText(error)} (Settings, API key)`);
    else {
      await connection.check();
      if (connection.works) setTimeout(connect, 2000);
    }
  }
}

function exportConversations() {
  saveDraft();
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([store.exportText()], { type: 'application/json' }));
  link.download = `conversations-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function importConversations(file) {
  try {
    const count = store.importText(await file.text());
    notice.show(`${count} conversation${count === 1 ? '' : 's'} added.`, { isBad: false });
    showList();
  } catch (error) {
    notice.show(error.message);
  }
}

at('banner').querySelector('button').addEventListener('click', () => connection.check());
at('model').addEventListener('change', () => store.saveSettings({ ...store.settings, model: at('model').value }));
at('open-settings').addEventListener('click', () => settings.open(store.settings));
at('open-sidebar').addEventListener('click', () => {
  at('sidebar').classList.add('open');
  at('new-conversation').focus();
});
at('close-sidebar').addEventListener('click', () => at('sidebar').classList.remove('open'));
at('new-conversation').addEventListener('click', () => select(store.empty()));
at('export').addEventListener('click', exportConversations);
at('import').addEventListener('click', () => at('import-file').click());
at('import-file').addEventListener('change', async (event) => {
  const [file] = event.target.files;
  if (file) await importConversations(file);
  event.target.value = '';
});
acceptFiles(document.querySelector('main'), at('attach'), at('attach-file'), addFiles);
acceptPasted(prompt, addFiles);
at('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  submit();
});
at('stop').addEventListener('click', () => dialogue.stop(conversation));
prompt.addEventListener('input', () => setPrompt(prompt.value));
prompt.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});
document.querySelector('main').addEventListener('click', (event) => {
  if (!at('open-sidebar').contains(event.target)) at('sidebar').classList.remove('open');
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || at('settings').open || event.target === at('search')) return;
  if (dialogue.isBusy(conversation)) dialogue.stop(conversation);
  else at('sidebar').classList.remove('open');
});
addEventListener('pagehide', () => {
  saveDraft();
  dialogue.stopAll();
});
store.watch((item) => dialogue.isBusy(item), (item) => {
  if (!store.conversations.includes(conversation)) {
    conversation = null;
    select(store.conversations[0] ?? store.create());
  } else if (item === conversation) showMessages();
  showList();
});

setPrompt(conversation.draft ?? '');
showPictures();
showList();
showMessages();
view.scrollToEnd();
load.start();
connection.check();
