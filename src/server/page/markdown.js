// Markdown to DOM nodes. Nodes are made by name and filled as text, so what a model writes is never parsed as markup.
import { highlight } from './highlight.js';
import { renderTex } from './tex.js';

// A call has room for some ten thousand arguments, a text may have more parts.
const appendAll = (node, children) => {
  for (const child of children) node.append(child);
};

const element = (name, children = [], className = '') => {
  const node = document.createElement(name);
  if (className) node.className = className;
  appendAll(node, [children].flat());
  return node;
};

const deepest = 8;          // nested lists and quotes
const safeLink = /^(https?:|mailto:)/i;

function link(label, target) {
  if (!safeLink.test(target)) return [label];
  const node = element('a', label);
  node.href = target;
  node.rel = 'noopener noreferrer nofollow';
  node.target = '_blank';
  return [node];
}

/** A formula; `source` as it was written stands for one that can't be read. */
function formula(tex, source, isBlock) {
  const math = renderTex(tex, isBlock);
  if (!math) return element('code', source, 'math');
  if (!isBlock) return math;
  const box = element('span', math, 'math');
  box.tabIndex = 0;  // it may scroll
  return box;
}

// Each rule: what it matches, and the nodes for it. What stands between two marks is bounded, so that a mark without its
// partner does not cost a search to the end of the text.
const inlineRules = [
  [/\\\(((?:[^\\]|\\[^()]){1,1000})\\\)/g, (match) => [formula(match[1], match[0], false)]],
  [/\\\[((?:[^\\]|\\[^[\]]){1,2000})\\\]/g, (match) => [formula(match[1], match[0], true)]],
  [/\$\$((?:[^$\\]|\\[\s\S]){1,2000})\$\$/g, (match) => [formula(match[1], match[0], true)]],
  // A price is none: there are no blanks inside, and no letter or digit beside it.
  [/(?<![\p{L}\p{N}_$])\$(?![\s$])((?:[^$\\]|\\[\s\S]){1,1000})(?<!\s)\$(?![\p{L}\p{N}_$])/gu, (match) => [formula(match[1], match[0], false)]],
  [/\\([\\`*_{}[\]()#+\-.!|~<>$])/g, (match) => [match[1]]],
  [/(`+)([\s\S]{0,4000}?[^`])\1(?!`)/g, (match) => [element('code', match[2].replace(/^ (.*) $/s, '$1'))]],
  [/!?\[([^[\]]{0,1000})\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)/g, (match) => link(match[1] || match[2], match[2])],
  [/<(https?:[^\s<>]+)>/g, (match) => link(match[1], match[1])],
  [/https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]]/g, (match) => link(match[0], match[0])],
  [/(\*\*|__)(?=\S)([\s\S]{0,1000}?\S)\1/g, (match, depth) => [element('strong', inline(match[2], depth))]],
  [/\*(?=\S)([^*]{0,1000}?[^\s*])\*(?!\*)/g, (match, depth) => [element('em', inline(match[1], depth))]],
  [/(?<![\p{L}\p{N}_])_(?=\S)([^_]{0,1000}?[^\s_])_(?![\p{L}\p{N}_])/gu, (match, depth) => [element('em', inline(match[1], depth))]],
  [/~~(?=\S)([\s\S]{0,1000}?\S)~~/g, (match, depth) => [element('del', inline(match[1], depth))]],
  [/ {2,}\n/g, () => [element('br')]],
];

function inline(text, depth = 0) {
  if (depth >= deepest) return [text];
  const nodes = [];
  const next = inlineRules.map(() => undefined);  // the next match of each rule; null: there is none
  let at = 0;
  for (;;) {
    let best = null;
    inlineRules.forEach(([pattern, make], rule) => {
      if (next[rule] === undefined || next[rule]?.index < at) {
        pattern.lastIndex = at;
        next[rule] = pattern.exec(text);
      }
      if (next[rule] && (!best || next[rule].index < best.match.index)) best = { match: next[rule], make };
    });
    if (!best) break;
    if (best.match.index > at) nodes.push(text.slice(at, best.match.index));
    nodes.push(...best.make(best.match, depth + 1));
    at = best.match.index + best.match[0].length;
  }
  return [...nodes, text.slice(at)];
}

const fence = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const rule = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const quote = /^ {0,3}> ?/;
const item = /^( *)([-*+]|\d{1,9}[.)])(\s+|$)/;
const tableRule = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const mathOpens = /^ {0,3}(\$\$|\\\[|\\begin\{(?:equation|align|gather|multline)\*?\})/;
const mostMathLines = 100;
const startsBlock = (line) => [fence, mathOpens, heading, rule, quote, item].some((pattern) => pattern.test(line));

function codeBlock(lines, at) {
  const [, marks, info] = fence.exec(lines[at]);
  const closes = (line) => line.trim().startsWith(marks) && line.trim().replaceAll(marks[0], '') === '';
  let end = at + 1;
  while (end < lines.length && !closes(lines[end])) end++;
  const copy = element('button', 'Copy', 'copy-code quiet small');
  copy.type = 'button';
  const [language] = info.trim().split(/\s/);
  const head = element('div', [element('span', language), copy], 'row');
  const code = element('pre', element('code', highlight(lines.slice(at + 1, end).join('\n'), language)));
  code.tabIndex = 0;  // it may scroll
  return [element('div', [head, code], 'code'), end + 1];
}

/** A formula that begins and ends with its lines and has no empty one, or null. */
function mathBlock(lines, at) {
  const [, mark] = mathOpens.exec(lines[at]);
  const shut = { '$$': '$$', '\\[': '\\]' }[mark] ?? mark.replace('begin', 'end');
  const last = Math.min(lines.length, at + mostMathLines);
  for (let end = at; end < last && lines[end].trim() !== ''; end++) {
    const line = lines[end].trim();
    const place = line.indexOf(shut, end === at ? mark.length : 0);
    if (place >= 0) return place + shut.length === line.length ? mathOf(lines.slice(at, end + 1), mark, end + 1) : null;
  }
  return null;
}

function mathOf(lines, mark, end) {
  const source = lines.join('\n').trim();
  const tex = mark.length === 2 ? source.slice(2, -2) : source;
  return [element('p', formula(tex, source, true)), end];
}

// Below the page's own headings, which are of the levels 1 and 2.
function headingBlock(level, text) {
  const node = element(`h${level}`, inline(text));
  node.ariaLevel = Math.min(level + 2, 6);
  return node;
}

function quoteBlock(lines, at, depth) {
  let end = at;
  while (end < lines.length && lines[end].trim() !== '' && (quote.test(lines[end]) || !startsBlock(lines[end]))) end++;
  return [element('blockquote', blocks(lines.slice(at, end).map((line) => line.replace(quote, '')), depth + 1)), end];
}

function listBlock(lines, at, depth) {
  const [, indent, mark] = item.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const list = element(ordered ? 'ol' : 'ul');
  if (ordered) list.start = Number.parseInt(mark, 10);
  let end = at;
  while (end < lines.length) {
    const match = item.exec(lines[end]);
    if (!match || match[1].length > indent.length + 3 || /\d/.test(match[2]) !== ordered || rule.test(lines[end])) break;
    const width = match[0].length;
    const content = [lines[end].slice(width)];
    for (end++; end < lines.length; end++) {
      const inner = /^ */.exec(lines[end])[0].length;
      const blank = lines[end].trim() === '';
      if (!blank && inner <= indent.length && (item.test(lines[end]) || content.at(-1).trim() === '' || startsBlock(lines[end]))) break;
      content.push(blank ? '' : lines[end].slice(Math.min(inner, width)));
    }
    const task = /^\[([ xX])\] +/.exec(content[0]);
    if (task) content[0] = content[0].slice(task[0].length);
    const body = blocks(content, depth + 1);
    const entry = element('li', body.length === 1 && body[0].nodeName === 'P' ? [...body[0].childNodes] : body);
    if (task) {
      const box = element('input');
      box.type = 'checkbox';
      box.checked = task[1] !== ' ';
      box.disabled = true;
      box.ariaLabel = box.checked ? 'Done' : 'Open';
      entry.prepend(box, ' ');
      entry.className = 'task';
    }
    list.append(entry);
  }
  return [list, end];
}

const cells = (line) => line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '').split(/(?<!\\)\|/).map((cell) => cell.trim());

function tableBlock(lines, at) {
  const align = cells(lines[at + 1]).map((cell) => (/:-*:$/.test(cell) || /^:-+:$/.test(cell) ? 'center' : cell.endsWith(':') ? 'right' : ''));
  const row = (line, name) => element('tr', align.map((side, column) => element(name, inline(cells(line)[column] ?? ''), side)));
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|')) end++;
  return [element('table', [element('thead', row(lines[at], 'th')), element('tbody', lines.slice(at + 2, end).map((line) => row(line, 'td')))]), end];
}

function block(lines, at, depth) {
  const line = lines[at];
  if (fence.test(line)) return codeBlock(lines, at);
  const math = mathOpens.test(line) ? mathBlock(lines, at) : null;
  if (math) return math;
  const title = heading.exec(line);
  if (title) return [headingBlock(title[1].length, title[2]), at + 1];
  if (rule.test(line)) return [element('hr'), at + 1];
  if (depth < deepest && quote.test(line)) return quoteBlock(lines, at, depth);
  if (depth < deepest && item.test(line)) return listBlock(lines, at, depth);
  if (line.includes('|') && at + 1 < lines.length && tableRule.test(lines[at + 1])) return tableBlock(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== '' && !startsBlock(lines[end])) end++;
  return [element('p', inline(lines.slice(at, end).map((part) => part.trimStart()).join('\n'))), end];
}

function blocks(lines, depth) {
  const nodes = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === '') {
      at++;
      continue;
    }
    const [node, end] = block(lines, at, depth);
    nodes.push(node);
    at = end;
  }
  return nodes;
}

export const renderMarkdown = (text) => blocks(text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n'), 0);

/** Renders text that grows: paragraphs that can't change any more keep their nodes. */
export class MarkdownStream {
  constructor(container) {
    this.container = container;
    this.text = '';
    this.settled = 0;       // characters whose nodes stay
    this.settledNodes = 0;
  }

  append(piece) {
    this.text += piece;
    this.settle();
    const tail = renderMarkdown(this.text.slice(this.settled));
    while (this.container.childNodes.length > this.settledNodes) this.container.lastChild.remove();
    appendAll(this.container, tail);
  }

  // Up to the last empty line before a line that starts at the margin and is no list, outside of code.
  settle() {
    const lines = this.text.slice(this.settled).split('\n');
    let fenced = false;
    let position = 0;
    let end = 0;
    lines.forEach((line, index) => {
      if (fence.test(line)) fenced = !fenced;
      position += line.length + 1;
      const next = lines[index + 1];
      if (!fenced && line.trim() === '' && next !== undefined && /^\S/.test(next) && !item.test(next) && index + 2 < lines.length) end = position;
    });
    if (end === 0) return;
    const nodes = renderMarkdown(this.text.slice(this.settled, this.settled + end));
    while (this.container.childNodes.length > this.settledNodes) this.container.lastChild.remove();
    appendAll(this.container, nodes);
    this.settledNodes += nodes.length;
    this.settled += end;
  }
}
