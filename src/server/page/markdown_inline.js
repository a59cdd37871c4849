// Marks within a paragraph: formulas, code, links, emphasis. One pass over the text: each mark is looked at once, and where its partner
// is sought, what was passed over is not passed again. No pattern here may go back over what it has matched more than once.
import { element, longestBlock } from './elements.js';
import { renderTex } from './tex.js';

const deepest = 8;             // emphasis in emphasis
const longestEmphasis = 1001;  // characters between two marks
const longestCode = 4001;
const safeLink = /^(https?:|mailto:)/i;
const isBlank = (character) => character === undefined || /\s/.test(character);

function link(label, target) {
  if (!safeLink.test(target)) return [label];
  const node = element('a', label);
  node.href = target;
  node.rel = 'noopener noreferrer nofollow';
  node.target = '_blank';
  return [node];
}

/** A formula; `source` as it was written stands for one that can't be read. */
export function formula(tex, source, isBlock) {
  const math = renderTex(tex, isBlock);
  if (!math) return element('code', source, 'math');
  if (!isBlock) return math;
  const box = element('span', math, 'math');
  box.tabIndex = 0;  // it may scroll
  return box;
}

/** Where the partners of marks stand in a text. Places are asked for in their order, so each search goes on where the last one ended. */
class Partners {
  constructor(text) {
    this.text = text;
    this.places = new Map();
  }

  /** The first `mark` from `from` on that stands behind a character; -1: there is none. */
  closing(mark, from) {
    let place = this.places.get(mark) ?? 0;
    if (place < 0) return place;
    place = this.text.indexOf(mark, Math.max(place, from));
    while (place >= 0 && isBlank(this.text[place - 1])) place = this.text.indexOf(mark, place + 1);
    this.places.set(mark, place);
    return place;
  }

  /** The first run of exactly `length` backticks from `from` on; -1: there is none. */
  backticks(length, from) {
    this.runs ??= runsOfBackticks(this.text);
    const run = this.runs.get(length);
    if (!run) return -1;
    while (run.next < run.places.length && run.places[run.next] < from) run.next++;
    return run.places[run.next] ?? -1;
  }
}

function runsOfBackticks(text) {
  const runs = new Map();
  for (const { index, 0: { length } } of text.matchAll(/`+/g)) {
    if (!runs.has(length)) runs.set(length, { places: [], next: 0 });
    runs.get(length).places.push(index);
  }
  return runs;
}

/** What a sticky pattern matches at a place. */
const matchAt = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text);
};
const found = (match, nodes) => ({ begin: match.index, end: match.index + match[0].length, nodes });

const inParentheses = /\\\(((?:[^\\]|\\[^()]){1,1000})\\\)/y;
const inBrackets = /\\\[((?:[^\\]|\\[^[\]]){1,2000})\\\]/y;
const inTwoDollars = /\$\$((?:[^$\\]|\\[\s\S]){1,2000})\$\$/y;
// A price is none: there are no blanks inside, and no letter or digit beside it.
const inDollars = /(?<![\p{L}\p{N}_$])\$(?![\s$])((?:[^$\\]|\\[\s\S]){1,1000})(?<!\s)\$(?![\p{L}\p{N}_$])/uy;
const escaped = /\\([\\`*_{}[\]()#+\-.!|~<>$])/y;
const backticks = /`+/y;
const label = /!?\[([^[\]]{0,1000})\]\(/y;
const blanks = /\s*/y;
const target = /[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*/y;
const address = /<(https?:[^\s<>]+)>/y;
const bareAddress = /https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]]/y;
const underscoreOpens = /(?<![\p{L}\p{N}_])_(?=\S)/uy;
const underscoreCloses = /_(?![\p{L}\p{N}_])/uy;

function backslash(text, at) {
  const math = matchAt(inParentheses, text, at) ?? matchAt(inBrackets, text, at);
  if (math) return found(math, [formula(math[1], math[0], text[at + 1] === '[')]);
  const match = matchAt(escaped, text, at);
  return match && found(match, [match[1]]);
}

function dollar(text, at) {
  const block = matchAt(inTwoDollars, text, at);
  if (block) return found(block, [formula(block[1], block[0], true)]);
  const match = matchAt(inDollars, text, at);
  return match && found(match, [formula(match[1], match[0], false)]);
}

function code(text, at, partners) {
  const { length } = matchAt(backticks, text, at)[0];
  const begin = at + length;
  const end = partners.backticks(length, begin + 1);
  if (end < 0 || end - begin > longestCode) return { begin: at, end: begin, nodes: [text.slice(at, begin)] };
  return { begin: at, end: end + length, nodes: [element('code', text.slice(begin, end).replace(/^ (.*) $/s, '$1'))] };
}

function bracket(text, at) {
  const match = matchAt(label, text, at);
  if (!match) return null;
  const skipBlanks = (place) => place + matchAt(blanks, text, place)[0].length;
  let place = skipBlanks(at + match[0].length);
  if (text[place] === '<') place++;
  const [url] = matchAt(target, text, place);
  place += url.length;
  if (text[place] === '>') place++;
  const title = skipBlanks(place);
  if (title > place && text[title] === '"') {
    const end = text.indexOf('"', title + 1);
    if (end < 0) return null;
    place = end + 1;
  }
  place = skipBlanks(place);
  return text[place] === ')' ? { begin: at, end: place + 1, nodes: link(match[1] || url, url) } : null;
}

function addressIn(pattern, part) {
  return (text, at) => {
    const match = matchAt(pattern, text, at);
    return match && found(match, link(match[part], match[part]));
  };
}

/** Two marks around a text: `name` is that of its element. */
function doubled(name, mark, text, at, partners, depth) {
  if (!text.startsWith(mark, at) || isBlank(text[at + 2])) return null;
  const end = partners.closing(mark, at + 3);
  if (end < 0 || end - at - 2 > longestEmphasis) return null;
  return { begin: at, end: end + 2, nodes: [element(name, inline(text.slice(at + 2, end), depth))] };
}

/** The same with one mark, which does not stand in the text. `closes(end)`: whether it may end there. */
function single(mark, text, at, depth, closes) {
  if (isBlank(text[at + 1])) return null;
  const end = text.indexOf(mark, at + 1);
  if (end < at + 2 || end - at - 1 > longestEmphasis || isBlank(text[end - 1]) || !closes(end)) return null;
  return { begin: at, end: end + 1, nodes: [element('em', inline(text.slice(at + 1, end), depth))] };
}

const star = (text, at, partners, depth) =>
  doubled('strong', '**', text, at, partners, depth) ?? single('*', text, at, depth, (end) => text[end + 1] !== '*');

const underscore = (text, at, partners, depth) => doubled('strong', '__', text, at, partners, depth) ??
  (matchAt(underscoreOpens, text, at) && single('_', text, at, depth, (end) => matchAt(underscoreCloses, text, end)));

function lineEnd(text, at, done) {
  let begin = at;
  while (begin > done && text[begin - 1] === ' ') begin--;
  return at - begin >= 2 ? { begin, end: at + 1, nodes: [element('br')] } : null;
}

// By its first character, what stands at a place: where it begins and ends and its nodes, or null.
const readers = {
  '\\': backslash, $: dollar, '`': code, '!': bracket, '[': bracket, '<': addressIn(address, 1), h: addressIn(bareAddress, 0),
  '*': star, _: underscore, '~': (text, at, partners, depth) => doubled('del', '~~', text, at, partners, depth),
};

/** The nodes of a text. One that is too long or too deep stays as it is. */
export function inline(text, depth = 0) {
  if (depth >= deepest || text.length > longestBlock) return [text];
  const marks = /[\\`$![<*_~\n]|https?:\/\//g;
  const partners = new Partners(text);
  const nodes = [];
  let done = 0;
  for (let mark; (mark = marks.exec(text));) {
    const [first] = mark[0];
    const part = first === '\n' ? lineEnd(text, mark.index, done) : readers[first](text, mark.index, partners, depth + 1);
    if (!part) continue;
    if (part.begin > done) nodes.push(text.slice(done, part.begin));
    nodes.push(...part.nodes);
    done = marks.lastIndex = part.end;
  }
  return [...nodes, text.slice(done)];
}
