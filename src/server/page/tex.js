// Mathematics: what models write of TeX, as MathML. Groups and arguments that are not complete yet lie on a stack, so that nothing
// depends on how deep a text goes; what is deeper than `deepest`, or makes no sense, is shown as it was written.
import { fence, grid, group, mathNode, row, space } from './mathml.js';
import { asText, bigger, classes, commands, environments, ignored, inColumns, large, sizes } from './tex_commands.js';
import * as symbols from './tex_symbols.js';

const longest = 10000;  // characters of a formula
const deepest = 60;     // groups and arguments in one another
const widest = 4;       // em of a space
const switches = new Map(Object.entries({ bf: 'mathbf', rm: 'upright', it: 'italic', cal: 'mathcal' }));  // for the rest of a group

class Unreadable extends Error {}

const refuse = (unless, why) => {
  if (!unless) throw new Unreadable(why);
};

/** The classes of the columns of an array: "l|c" has a line before the second. */
function columnsOf(specification) {
  const columns = [];
  let line = '';
  for (const sign of specification) {
    const side = { l: 'left', c: '', r: 'right' }[sign];
    if (side !== undefined) columns.push(side + line);
    if (sign === '|') line = ' line';
    else if (sign.trim() !== '') line = '';
  }
  return columns;
}

/** Blanks at the ends of a text, which MathML would drop, as one that stays. */
function withBlanks(text) {
  const inner = text.trim();
  if (inner === '') return text && '\u00a0';
  return (text.startsWith(inner[0]) ? '' : '\u00a0') + inner + (text.endsWith(inner.at(-1)) ? '' : '\u00a0');
}

class Reader {
  constructor(source) {
    this.source = source;
    this.at = 0;
    this.stack = [];
    this.pushRow('root');
  }

  get top() {
    return this.stack.at(-1);
  }

  push(frame) {
    refuse(this.stack.length < deepest, 'too deep');
    this.stack.push({ font: this.top?.font ?? '', ...frame });
  }

  pushRow(kind, more = {}) {
    this.push({ kind, rows: [], cells: [], items: [], ...more });
  }

  /** `build(nodes)` makes a node of as many arguments. */
  pushCommand(need, build, more = {}) {
    this.push({ kind: 'command', need, nodes: [], build: (nodes) => ({ node: build(nodes) }), ...more });
  }

  /** An item is complete: it belongs to the row or the argument that is under way. */
  deliver(item) {
    while (this.top.kind === 'command') {
      const { nodes, need, build } = this.top;
      nodes.push(item.node);
      if (nodes.length < need) return;
      this.stack.pop();
      item = build(nodes);
    }
    this.top.items.push(item);
  }

  node(name, text, attributes, more) {
    this.deliver({ node: mathNode(name, text, attributes), ...more });
  }

  operator(text, attributes = {}) {
    this.node('mo', text, attributes, { isOperator: true });
  }

  /** The next character or command, {text, isCommand}; null at the end. */
  next() {
    const token = /(?:\s|%[^\n]*(?:\n|$))*(?:\\([a-zA-Z]+)|\\([\s\S])|([^\s%]))/uy;
    token.lastIndex = this.at;
    const match = token.exec(this.source);
    if (!match) return null;
    this.at = token.lastIndex;
    return { text: match[1] ?? match[2] ?? match[3], isCommand: match[3] === undefined };
  }

  /** What matches at this place, behind blanks. */
  take(pattern) {
    const [, blanks, rest] = /^(\s*)([\s\S]{0,200})/.exec(this.source.slice(this.at, this.at + 400));
    const match = pattern.exec(rest);
    if (match) this.at += blanks.length + match[0].length;
    return match;
  }

  /** An argument as text. */
  raw() {
    refuse(this.next()?.text === '{', 'no argument');
    const begin = this.at;
    for (let depth = 1; depth > 0;) {
      const token = this.next();
      refuse(token, 'no end');
      if (!token.isCommand) depth += { '{': 1, '}': -1 }[token.text] ?? 0;
    }
    return this.source.slice(begin, this.at - 1);
  }

  /** The sign behind \left, \right, \big; '' for a dot. */
  delimiter() {
    const token = this.next();
    refuse(token, 'no delimiter');
    const { text, isCommand } = token;
    if (!isCommand && text === '.') return { text: '' };
    const angle = isCommand ? undefined : { '<': ['⟨', 'prefix'], '>': ['⟩', 'postfix'], '/': ['/'], '|': ['|'] }[text];
    if (angle) return { text: angle[0], form: angle[1] };
    for (const [kind, form] of [[symbols.opening, 'prefix'], [symbols.closing, 'postfix'], [symbols.bars], [symbols.operators]]) {
      const sign = isCommand || !/[{}]/.test(text) ? kind.get(text) : undefined;
      if (sign !== undefined) return { text: sign, form };
    }
    throw new Unreadable('no delimiter');
  }

  read() {
    for (let token; (token = this.next());) {
      if (token.isCommand) this.command(token.text);
      else this.character(token.text);
    }
    refuse(this.stack.length === 1, 'no end');
    return this.close();
  }

  /** Ends the row on top of the stack: its node. */
  close() {
    const frame = this.stack.pop();
    this.endCell(frame);
    frame.rows.push(frame.cells);
    if (frame.rows.length > 1 && frame.rows.at(-1).length === 1 && frame.isBlank) frame.rows.pop();
    const isTable = frame.name || frame.rows.length > 1 || frame.rows[0].length > 1;
    return isTable ? this.table(frame) : frame.rows[0][0];
  }

  endCell(frame) {
    frame.isBlank = frame.items.length === 0;
    frame.cells.push(row(frame.items));
    frame.items = [];
  }

  table({ name = 'root', rows, columns }) {
    const align = (column) => columns?.[column] ?? (name.endsWith('cases') ? 'left' : inColumns.has(name) ? ['right', 'left'][column % 2] : '');
    const kind = inColumns.has(name) ? 'aligned' : name;
    const nodes = rows.length > 1 && name === 'root' && rows.every((cells) => cells.length === 1)
      ? grid(rows, () => '', { displaystyle: true }) : grid(rows, align, { class: kind, ...(large.has(name) ? { displaystyle: true } : {}) });
    const [open, shut] = environments.get(name) ?? ['', ''];
    if (!open && !shut) return nodes;
    return mathNode('mrow', [...(open ? [fence(open, 'prefix', true)] : []), nodes, ...(shut ? [fence(shut, 'postfix', true)] : [])]);
  }

  character(text) {
    const { top } = this;
    if (text === '{') this.pushRow('group');
    else if (text === '}') this.end('group');
    else if (text === ']' && top.kind === 'optional') this.end('optional');
    else if (text === '^' || text === '_') this.script(text === '^' ? 'sup' : 'sub');
    else if (text === '\'') this.prime();
    else if (text === '&') {
      refuse(top.kind !== 'command', 'no argument');
      this.endCell(top);
    } else if (text === '~') this.deliver({ node: space(0.25) });
    else if (/\d/.test(text)) this.digit(text);
    else if (/\p{L}/u.test(text)) this.letter(text);
    else if (symbols.opening.has(text)) this.deliver({ node: fence(text, 'prefix'), isOpening: true });
    else if (symbols.closing.has(text)) this.deliver({ node: fence(text, 'postfix') });
    else if (text === '|') this.deliver({ node: fence(text) });
    else if (text === '/') this.node('mo', text, { lspace: 0, rspace: 0 }, { isOperator: true });
    else if (/[!.?]/.test(text)) this.node('mo', text, { lspace: 0, rspace: 0 });
    else this.operator({ '-': '−', '*': '∗' }[text] ?? text);
  }

  end(kind) {
    refuse(this.top.kind === kind, 'an end without a beginning');
    this.deliver({ node: this.close() });
  }

  /** One digit as an argument, else a whole number. */
  digit(first) {
    const { kind, font } = this.top;
    const more = kind === 'command' ? '' : this.run(/\d*(?:\.\d+)?/y);
    this.node('mn', [...first + more].map((digit) => symbols.inFont(digit, font)).join(''));
  }

  /** What a sticky pattern matches from here on. */
  run(pattern) {
    pattern.lastIndex = this.at;
    const [text] = pattern.exec(this.source);
    this.at += text.length;
    return text;
  }

  letter(text) {
    const { font } = this.top;
    this.node('mi', symbols.inFont(text, font), font === 'upright' ? { mathvariant: 'normal' } : {});
  }

  script(which) {
    refuse(this.top.kind !== 'command', 'no argument');
    const base = this.top.items.pop() ?? { node: mathNode('mrow') };
    const primes = which === 'sup' && base.hasPrimes ? [base.sup] : [];
    refuse(!base[which] || primes.length > 0, 'two scripts');
    this.push({ kind: 'command', need: 1, nodes: [], build: ([node]) => ({ ...base, hasPrimes: false, [which]: group([...primes, node]) }) });
  }

  prime() {
    refuse(this.top.kind !== 'command', 'no argument');
    const base = this.top.items.pop() ?? { node: mathNode('mrow') };
    refuse(!base.sup, 'two scripts');
    this.top.items.push({ ...base, hasPrimes: true, sup: mathNode('mo', '′'.repeat(1 + this.run(/'*/y).length)) });
  }

  command(name) {
    const sign = symbols.operators.get(name);
    const letter = symbols.letters.get(name);
    if (sign) this.operator(sign);
    else if (letter) this.letter(letter);
    else if (symbols.sums.has(name)) this.node('mo', symbols.sums.get(name), { movablelimits: true }, { limits: true, isOperator: true });
    else if (symbols.integrals.has(name)) this.node('mo', symbols.integrals.get(name), {}, { isOperator: true });
    else if (symbols.functions.has(name)) this.node('mi', name, {}, { isFunction: true });
    else if (symbols.limits.has(name)) this.limit(symbols.limits.get(name));
    else if (symbols.opening.has(name)) this.deliver({ node: fence(symbols.opening.get(name), 'prefix'), isOpening: true });
    else if (symbols.closing.has(name)) this.deliver({ node: fence(symbols.closing.get(name), 'postfix') });
    else if (symbols.bars.has(name)) this.deliver({ node: fence(symbols.bars.get(name)) });
    else if (symbols.spaces.has(name)) this.deliver({ node: space(symbols.spaces.get(name)) });
    else if (commands.has(name)) this.pushCommand(...commands.get(name));
    else if (symbols.fonts.has(name)) this.pushCommand(1, ([node]) => node, { font: symbols.fonts.get(name) });
    else this.form(name);
  }

  limit(text) {
    this.node('mo', text, { movablelimits: true, lspace: 0, rspace: 0 }, { limits: true, isFunction: true });
  }

  /** Commands with a form of their own. */
  form(name) {
    const accent = symbols.accents.get(name);
    const under = symbols.underAccents.get(name);
    const big = bigger.exec(name);
    if (accent || under) this.accent(name, accent, under);
    else if (symbols.arrows.has(name)) this.arrow(symbols.arrows.get(name));
    else if (classes.has(name)) this.push({ kind: 'command', need: 1, nodes: [], build: ([node]) => ({ node, [classes.get(name)]: true }) });
    else if (switches.has(name)) this.top.font = switches.get(name);
    else if (big) this.big(sizes[big[1]]);
    else if (asText.test(name)) this.text(name);
    else if (name === '\\') this.newRow();
    else if (name === 'begin') this.begin(this.raw());
    else if (name === 'end') this.endEnvironment(this.raw());
    else if (name === 'left') this.pushRow('left', { open: this.delimiter() });
    else if (name === 'right') this.right();
    else if (name === 'middle') this.deliver({ node: fence(this.delimiter().text, '', true) });
    else if (name === 'sqrt') this.root();
    else if (name === 'operatorname') this.operatorName();
    else if (name === 'limits' || name === 'nolimits') this.setLimits(name === 'limits');
    else if (name === 'bmod' || name === 'mod') this.operator('mod', { lspace: '0.222em', rspace: '0.222em' });
    else if (name === 'tag') this.tag();
    else if (name === 'label') this.raw();
    else if (name === 'hspace') this.deliver({ node: space(Math.max(-widest, Math.min(widest, Number.parseFloat(this.raw()) || 0))) });
    else if (!ignored.has(name)) this.node('mtext', `\\${name}`, { class: 'unknown' });
  }

  accent(name, above, below) {
    const sign = mathNode('mo', above ?? below, { stretchy: symbols.stretched.has(name) });
    const isBrace = name.endsWith('brace');
    this.push({ kind: 'command', need: 1, nodes: [], build: ([base]) => ({ limits: isBrace,
      node: above ? mathNode('mover', [base, sign], { accent: true }) : mathNode('munder', [base, sign], { accentunder: true }) }) });
  }

  arrow(sign) {
    const node = mathNode('mo', sign, { stretchy: true, minsize: '2em' });
    const above = ([text]) => mathNode('mover', [node, mathNode('mpadded', text, { lspace: '0.3em', width: '+0.6em' })]);
    if (!this.take(/^\[/)) return this.pushCommand(1, above);
    this.pushCommand(2, ([below, text]) => mathNode('munderover', [node, below, text]));
    return this.pushRow('optional');
  }

  root() {
    if (!this.take(/^\[/)) return this.pushCommand(1, ([base]) => mathNode('msqrt', base));
    this.pushCommand(2, ([index, base]) => mathNode('mroot', [base, index]));
    return this.pushRow('optional');
  }

  big(em) {
    const { text, form } = this.delimiter();
    const node = fence(text, form, true);
    node.setAttribute('minsize', `${em}em`);
    node.setAttribute('maxsize', `${em}em`);
    this.deliver({ node, isOpening: form === 'prefix' });
  }

  text(name) {
    const shown = this.raw().replace(/\\([^a-zA-Z])/g, '$1');
    this.node('mtext', withBlanks(shown), name === 'text' ? {} : { class: name });
  }

  operatorName() {
    const below = Boolean(this.take(/^\*/));
    const name = this.raw().replace(/\\[,;: ]/g, ' ').trim();
    if (below) this.limit(name);
    else this.node('mi', name, { mathvariant: 'normal' }, { isFunction: true });
  }

  setLimits(limits) {
    const last = this.top.items?.at(-1);
    refuse(last, 'no operator');
    last.limits = limits;
    if (limits) last.node.setAttribute('movablelimits', false);
  }

  tag() {
    this.deliver({ node: space(2) });
    this.node('mtext', `(${this.raw()})`);
  }

  newRow() {
    refuse(this.top.kind !== 'command', 'no argument');
    this.take(/^\[-?[\d.]+\s*[a-z]{2}\]/);
    this.endCell(this.top);
    this.top.rows.push(this.top.cells);
    this.top.cells = [];
  }

  begin(full) {
    const name = full.replace(/\*$/, '');
    refuse(environments.has(name), `no environment ${name}`);
    let columns;
    if (name === 'array') columns = columnsOf(this.raw());
    else if (name.startsWith('aligna') || name === 'alignedat') this.raw();
    this.pushRow('environment', { name, columns });
  }

  endEnvironment(full) {
    refuse(this.top.kind === 'environment' && this.top.name === full.replace(/\*$/, ''), 'an end without a beginning');
    this.end('environment');
  }

  right() {
    refuse(this.top.kind === 'left', 'an end without a beginning');
    const { open } = this.top;
    const shut = this.delimiter();
    const inner = this.close();
    this.deliver({ isFenced: true, node: mathNode('mrow', [...(open.text ? [fence(open.text, 'prefix', true)] : []), inner,
      ...(shut.text ? [fence(shut.text, 'postfix', true)] : [])]) });
  }
}

/** A formula as a node; null where it can't be read. `isBlock`: on a line of its own. */
export function renderTex(source, isBlock) {
  if (source.length > longest) return null;
  let node;
  try {
    node = new Reader(source).read();
  } catch (error) {
    if (error instanceof Unreadable) return null;
    throw error;
  }
  const annotation = mathNode('annotation', source.trim(), { encoding: 'application/x-tex' });
  return mathNode('math', mathNode('semantics', [node, annotation]), isBlock ? { display: 'block' } : {});
}
