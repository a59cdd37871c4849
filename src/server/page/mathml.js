// Nodes of MathML, which browsers draw by themselves, and what TeX puts between the things of a row.

const namespace = 'http://www.w3.org/1998/Math/MathML';

export function mathNode(name, children = [], attributes = {}) {
  const node = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  for (const child of [children].flat()) node.append(child);
  return node;
}

export const space = (em) => mathNode('mspace', [], { width: `${em}em` });

/** A bracket of its own height; `grows`: of its row's. */
export const fence = (text, form, grows = false) =>
  mathNode('mo', text, { stretchy: grows, ...(grows ? { symmetric: true } : {}), ...(form ? { form } : {}), lspace: 0, rspace: 0 });

/** One node of several. */
export const group = (nodes) => (nodes.length === 1 ? nodes[0] : mathNode('mrow', nodes));

function withScripts({ node, sub, sup, limits }) {
  const [both, below, above] = limits ? ['munderover', 'munder', 'mover'] : ['msubsup', 'msub', 'msup'];
  if (sub && sup) return mathNode(both, [node, sub, sup]);
  if (sub) return mathNode(below, [node, sub]);
  return sup ? mathNode(above, [node, sup]) : node;
}

const isSign = (item) => item === undefined || item.isOperator || item.isOpening;

/**
 * The node of a row of items: {node, sub, sup, limits: scripts stand below and above, isOperator, isOpening, isFenced, isFunction}.
 * A sign behind another one is a prefix; a function has a thin space from what it belongs to, unless that is in brackets.
 */
export function row(items) {
  const nodes = [];
  items.forEach((item, index) => {
    const [last, next] = [items[index - 1], items[index + 1]];
    if (item.isOperator && isSign(last) && /^[-−+±∓]$/.test(item.node.textContent)) item.node.setAttribute('form', 'prefix');
    if (item.isFunction && !isSign(last) && !last.isFunction) nodes.push(space(0.167));
    nodes.push(withScripts(item));
    if (item.isFunction && next && !next.isOpening && !next.isFenced && !next.isOperator) nodes.push(space(0.167));
  });
  return group(nodes);
}

/** `rows` of nodes; `sides(column)` gives the class of a column's cells. */
export const grid = (rows, sides, attributes) => mathNode('mtable', rows.map((cells) =>
  mathNode('mtr', cells.map((cell, column) => mathNode('mtd', cell, { class: sides(column) })))), attributes);
