// A conversation is a tree of messages: a question asked again and an answer given again are branches. `leaf` is the id of
// the last message that is shown.

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 10);

export const find = (conversation, id) => conversation.messages.find((message) => message.id === id);

/** Messages that were kept without ids follow one another. */
export function asTree(conversation) {
  const known = new Set();
  let previous = null;
  for (const [index, message] of conversation.messages.entries()) {
    if (typeof message.id !== 'string') message.id = `${conversation.id}.${index}`;
    while (known.has(message.id)) message.id = newId();
    // A parent stands before its children, so there is no circle.
    if (message.parent !== null && !known.has(message.parent)) message.parent = previous;
    known.add(message.id);
    previous = message.id;
  }
  if (!known.has(conversation.leaf)) conversation.leaf = previous;
  return conversation;
}

/** The messages from the first to `last`. */
export function path(conversation, last = conversation.leaf) {
  const byId = new Map(conversation.messages.map((message) => [message.id, message]));
  const list = [];
  for (let message = byId.get(last); message; message = byId.get(message.parent)) list.push(message);
  return list.reverse();
}

export function add(conversation, parent, message) {
  const added = { id: newId(), parent, ...message };
  conversation.messages.push(added);
  conversation.leaf = added.id;
  return added;
}

const groupOf = ({ parent, role }) => `${role} ${parent}`;

/** Of each message the versions that there are of it, itself among them. */
export function versions(conversation) {
  const groups = new Map();
  for (const message of conversation.messages) {
    const group = groupOf(message);
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(message);
  }
  return (message) => groups.get(groupOf(message));
}

export const branches = (conversation, message) => versions(conversation)(message);

/** Shows the branch that begins with a message, down to what was said last in it. */
export function show(conversation, message) {
  const lastChild = new Map(conversation.messages.map((other) => [other.parent, other.id]));
  conversation.leaf = message.id;
  while (lastChild.has(conversation.leaf)) conversation.leaf = lastChild.get(conversation.leaf);
}

/** Removes one message; what followed it follows what it followed. */
export function remove(conversation, message) {
  conversation.messages = conversation.messages.filter((other) => other !== message);
  for (const other of conversation.messages) if (other.parent === message.id) other.parent = message.parent;
  if (conversation.leaf === message.id) conversation.leaf = message.parent;
}

/** Removes one of several versions of a message and all that was said behind it, and shows its neighbour. */
export function removeVersion(conversation, message) {
  const all = branches(conversation, message);
  const index = all.indexOf(message);
  const gone = new Set([message.id]);
  // A parent stands before its children.
  for (const other of conversation.messages) if (gone.has(other.parent)) gone.add(other.id);
  conversation.messages = conversation.messages.filter((other) => !gone.has(other.id));
  show(conversation, all[index - 1] ?? all[index + 1]);
}

/** Removes a question and its answers; what was said later stays, and follows what the question followed. */
export function removeTurn(conversation, question) {
  const shown = path(conversation).at(-1);
  const gone = new Set([question.id]);
  for (const other of conversation.messages) if (other.parent === question.id && other.role !== 'user') gone.add(other.id);
  conversation.messages = conversation.messages.filter((other) => !gone.has(other.id));
  for (const other of conversation.messages) if (gone.has(other.parent)) other.parent = question.parent;
  if (gone.has(conversation.leaf)) conversation.leaf = question.parent;
  const left = find(conversation, shown.id) ?? find(conversation, conversation.leaf) ?? conversation.messages.at(-1);
  if (left) show(conversation, left);
  else conversation.leaf = null;
}
