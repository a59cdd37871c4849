// Elements of a message. They are made by name and filled as text, so what a model writes is never parsed as markup.

/** Characters of a paragraph, list, quote, table or code that get marks and colours. What is longer is shown as it was written. */
export const longestBlock = 500000;

// A call has room for some ten thousand arguments, a text may have more parts.
export const appendAll = (node, children) => {
  for (const child of children) node.append(child);
};

export const element = (name, children = [], className = '') => {
  const node = document.createElement(name);
  if (className) node.className = className;
  appendAll(node, [children].flat());
  return node;
};

/** Text as it was written. */
export const plain = (lines) => element('div', lines.join('\n'), 'plain');
