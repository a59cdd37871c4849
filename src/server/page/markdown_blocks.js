// Markdown to DOM nodes, block by block. Each line is looked at a bounded number of times, whatever stands in it.
import { element, longestBlock, plain } from './elements.js';
import { highlight } from './highlight.js';
import { formula, inline } from './markdown_inline.js';

const deepest = 8;          // nested lists and quotes
const mostColumns = 200;    // of a table
const freeCells = 200;      // that a table has without a text for them

const fence = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const heading = /^ {0,3}(#{1,6})\s/;
const quote = /^ {0,3}> ?/;
const item = /^( *)([-*+]|\d{1,9}[.)])(\s+|$)/;
const mathOpens = /^ {0,3}(\$\$|\\\[|\\begin\{(?:equation|align|gather|multline)\*?\})/;
const mostMathLines = 100;
const mostMath = 10000;  // characters
const isBlank = (line) => line.trim() === '';

/** Three or more marks of one kind and blanks. */
function isRule(line) {
  const mark = /^ {0,3}([-*_])/.exec(line)?.[1];
  if (!mark) return false;
  let count = 0;
  for (const character of line) {
    if (character === mark) count++;
    else if (!/\s/.test(character)) return false;
  }
  return count >= 3;
}

const isTableRule = (line) => /^ {0,3}[-:|]/.test(line) && cells(line).every((cell) => /^:?-+:?$/.test(cell));
const startsBlock = (line) => isRule(line) || [fence, mathOpens, heading, quote, item].some((pattern) => pattern.test(line));

/** Characters of the lines from `at` to before `end`, counted up to a bit more than a block may have. */
function sizeOf(lines, at, end) {
  let size = 0;
  for (let index = at; index < end && size <= longestBlock; index++) size += lines[index].length + 1;
  return size;
}

function codeBlock(lines, at) {
  const [, marks, info] = fence.exec(lines[at]);
  const closes = (line) => line.trim().startsWith(marks) && line.trim().replaceAll(marks[0], '') === '';
  let end = at + 1;
  while (end < lines.length && !closes(lines[end])) end++;
  const copy = element('button', 'Copy', 'copy-code quiet small');
  copy.type = 'button';
  const [language] = info.trim().split(/\s/, 1);
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
  let sizeLeft = mostMath;
  for (let end = at; end < last && sizeLeft > 0 && !isBlank(lines[end]); end++) {
    const line = lines[end].trim();
    sizeLeft -= line.length;
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
function headingBlock(line) {
  const [{ length: before }, { length: level }] = heading.exec(line);
  const title = line.slice(before).trim();
  let end = title.length;
  while (title[end - 1] === '#') end--;
  const text = title.slice(0, end).trimEnd();
  const node = element(`h${level}`, inline(text));
  node.ariaLevel = Math.min(level + 2, 6);
  return node;
}

function quoteBlock(lines, at, depth) {
  let end = at;
  while (end < lines.length && !isBlank(lines[end]) && (quote.test(lines[end]) || !startsBlock(lines[end]))) end++;
  if (sizeOf(lines, at, end) > longestBlock) return [plain(lines.slice(at, end)), end];
  return [element('blockquote', blocks(lines.slice(at, end).map((line) => line.replace(quote, '')), depth + 1)), end];
}

function listBlock(lines, at, depth) {
  const [, indent, mark] = item.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const list = element(ordered ? 'ol' : 'ul');
  let sizeLeft = longestBlock;  // then a list of its own goes on
  if (ordered) list.start = Number.parseInt(mark, 10);
  let end = at;
  while (end < lines.length && sizeLeft > 0) {
    const match = item.exec(lines[end]);
    if (!match || match[1].length > indent.length + 3 || /\d/.test(match[2]) !== ordered || isRule(lines[end])) break;
    const width = match[0].length;
    const content = [lines[end].slice(width)];
    for (end++; end < lines.length; end++) {
      const inner = /^ */.exec(lines[end])[0].length;
      const blank = isBlank(lines[end]);
      if (!blank && inner <= indent.length && (item.test(lines[end]) || isBlank(content.at(-1)) || startsBlock(lines[end]))) break;
      content.push(blank ? '' : lines[end].slice(Math.min(inner, width)));
    }
    const task = /^\[([ xX])\] +/.exec(content[0]);
    if (task) content[0] = content[0].slice(task[0].length);
    const size = sizeOf(content, 0, content.length);
    sizeLeft -= size;
    const body = size > longestBlock ? [plain(content)] : blocks(content, depth + 1);
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
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|')) end++;
  const align = cells(lines[at + 1]).map((cell) => (/^:-+:$/.test(cell) ? 'center' : cell.endsWith(':') ? 'right' : ''));
  if (align.length > mostColumns || sizeOf(lines, at, end) > longestBlock) return [plain(lines.slice(at, end)), end];
  let free = freeCells;
  const row = (line, name) => {
    const texts = cells(line).slice(0, align.length);
    free += texts.length;
    const missing = Math.min(align.length - texts.length, free);  // the rest of many short rows stays open
    free -= missing;
    return element('tr', align.slice(0, texts.length + missing).map((side, column) => element(name, inline(texts[column] ?? ''), side)));
  };
  const head = element('thead', row(lines[at], 'th'));
  return [element('table', [head, element('tbody', lines.slice(at + 2, end).map((line) => row(line, 'td')))]), end];
}

/** The block that begins with a line, and where the next one may begin. */
function block(lines, at, depth) {
  const line = lines[at];
  if (fence.test(line)) return codeBlock(lines, at);
  const math = mathOpens.test(line) ? mathBlock(lines, at) : null;
  if (math) return math;
  if (heading.test(line)) return [headingBlock(line), at + 1];
  if (isRule(line)) return [element('hr'), at + 1];
  if (depth < deepest && quote.test(line)) return quoteBlock(lines, at, depth);
  if (depth < deepest && item.test(line)) return listBlock(lines, at, depth);
  if (line.includes('|') && at + 1 < lines.length && isTableRule(lines[at + 1])) return tableBlock(lines, at);
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines[end])) end++;
  return [element('p', inline(lines.slice(at, end).map((part) => part.trimStart()).join('\n'))), end];
}

function blocks(lines, depth) {
  const nodes = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const [node, end] = block(lines, at, depth);
    nodes.push(node);
    at = end;
  }
  return nodes;
}

const linesOf = (text) => text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n');

export const renderMarkdown = (text) => blocks(linesOf(text), 0);

/** Lines of a text that grows, and the blocks in them one after another. */
export class Blocks {
  constructor() {
    this.lines = [''];  // the last one may still grow
    this.last = '';     // as it came
    this.at = 0;        // the line of the next block
  }

  add(text) {
    const [first, ...more] = text.split('\n');
    this.last += first;
    for (const line of more) {
      this.lines[this.lines.length - 1] = linesOf(`${this.last}\n`)[0];
      this.lines.push('');
      this.last = line;
    }
    this.isRead = false;
  }

  /** The next block: {node, size in characters, end, isSettled: what is added can't change it}; null at the end of the text. */
  read(at) {
    if (!this.isRead) this.lines[this.lines.length - 1] = linesOf(this.last)[0];
    this.isRead = true;
    const { lines } = this;
    while (at < lines.length && isBlank(lines[at])) at++;
    if (at === lines.length) return null;
    const [node, behind] = block(lines, at, 0);
    const end = Math.min(behind, lines.length);  // a fence may lack its end
    let size = 0;
    for (let index = at; index < end; index++) size += lines[index].length + 1;
    // A formula may be found in what was none, as long as lines come.
    const isSettled = end < lines.length - 1 && (!mathOpens.test(lines[at]) || at + mostMathLines < lines.length);
    return { node, size, end, isSettled };
  }
}
