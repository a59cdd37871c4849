// No text makes the page's modules do more than linear work. Counted as processor time a character: a text of ten times the size may not
// take several times as long for each character. PAGE_FOLDER holds the modules; an argument is the seed of the mixes.
import { load } from './modules.mjs';

const { renderMarkdown, MarkdownStream, renderTex, highlight, removeTurn, versions } = await load(process.env.PAGE_FOLDER, 'markdown', 'tex', 'highlight', 'thread');

const most = 5;       // times the processor time a character: quadratic work takes ten times as long
const attempts = 6;   // another program may disturb some
const draws = 3;      // of a small text, in place of as many as make a large one
const repeated = (unit) => (size) => unit.repeat(Math.ceil(size / unit.length)).slice(0, size);
const around = (before, unit, behind = '') => (size) => before + repeated(unit)(size) + behind;
const nested = (open, middle, shut) => (size) => {
  const depth = Math.floor(size / (open.length + shut.length));
  return open.repeat(depth) + middle + shut.repeat(depth);
};
const marks = [...'*_~[]()!<>|#-+=:\\${}^&`"\'', ' ', '\t', '\n', '.', '1', 'h', 'é', '😀'];

let seed = Number(process.argv[2] ?? 1);
const random = (count) => {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return Math.floor(seed / 65536) % count;
};

function table(size, columns) {
  const line = (cell) => `|${`${cell}|`.repeat(columns)}\n`;
  const head = line('a') + line('-');
  return head + line('*b*').repeat(Math.ceil(Math.max(0, size - head.length) / (4 * columns)));
}

const shapes = new Map();
for (const mark of marks) {
  shapes.set(`run of ${mark}`, repeated(mark));
  shapes.set(`${mark} behind a letter`, around('a', mark, 'a'));
  shapes.set(`heading with ${mark}`, around('# a', mark, 'a'));
  shapes.set(`item with ${mark}`, around('- a', mark, 'a'));
  shapes.set(`fence with ${mark}`, around('```', mark, '`'));
  shapes.set(`fence of tildes with ${mark}`, around('~~~', mark, '`'));
  shapes.set(`rule with ${mark}`, around('- -', mark, 'x'));
  shapes.set(`table rule with ${mark}`, around('a|b\n---', mark, 'x'));
  shapes.set(`link with ${mark}`, around('[a](', mark));
  shapes.set(`title with ${mark}`, around('[a](b "', mark));
  shapes.set(`words and ${mark}`, repeated(`ab ${mark}`));
  shapes.set(`lines that begin with ${mark}`, repeated(`${mark} a\n`));
  for (const other of marks) shapes.set(`${mark}${other}`, repeated(mark + other));
}
for (const unit of ['**a', 'a**', '__a ', '~~a', '*a_', '***a', '[a](', '[a](b "', '[a](b(', '[a](<b', '![', '](', '`a``', '`` ` ', '\\(a', '\\[a', '$a', '$$a',
  '\\(\\', '$\\', 'http://', 'http://.', '<http:', 'a\n$$\n', '\\begin{align}\n', '\\begin{align}a', '> ', '>', '- a\n', '- a\n\n', ' - ', '1. ', '* - ', '```\n', '```a\n',
  '~~~\n```\n', '# \n', '# #', '- [ ] ', '|a', 'a|b\n-|-\n', '|a|\n|-|\n', '\\|', '| \\', '   \n', '*a* ', '**a** `b` ', '-\n', '- - ']) {
  shapes.set(JSON.stringify(unit), repeated(unit));
}
for (const unit of ['**', '*', '_', '__', '~~', '[', '(', '> ', '- ', '`', '$', '{']) shapes.set(`nested ${unit}`, nested(unit, 'a', unit));
shapes.set('nested lists', (size) => Array.from({ length: Math.floor(Math.sqrt(size)) }, (_, depth) => `${' '.repeat(2 * depth)}- a`).join('\n'));
shapes.set('runs of backticks of all lengths', (size) => Array.from({ length: Math.floor(Math.sqrt(2 * size)) }, (_, length) => '`'.repeat(length + 1)).join('a'));
shapes.set('wide table', (size) => table(size, Math.floor(size / 10)));
shapes.set('wide head over short rows', (size) => `${table(0, 200)}${'|a\n'.repeat(size / 3)}`);
shapes.set('wide head over many short rows', (size) => `${table(0, Math.floor(size / 10))}${'|\n'.repeat(size / 3)}`);
shapes.set('long table', (size) => table(size, 4));
for (const language of ['js', 'python', 'sql', 'sh', 'json']) {
  for (const unit of ['"', '\'', '\\', '"\\', '/*', '/', '"""', '#', '--', '1', '1.', 'a', 'a1', ' ']) {
    shapes.set(`${language}: ${unit}`, (size) => `\`\`\`${language}\n${repeated(unit)(size)}`);
  }
}
const parts = [...marks, ...marks, 'word', ' ', '\n', '\n\n', '**', '``', '```\n', '](', '\\(', '\\)', '\\frac', '|-|\n', '\n- ', '\n> ', '  \n', 'http://a.b'];
for (let number = 0; number < 60; number++) {
  const unit = Array.from({ length: 1 + random(30) }, () => parts[random(parts.length)]).join('');
  shapes.set(`mix ${number} ${JSON.stringify(unit)}`, repeated(unit));
}
const pool = Array.from({ length: 200000 }, () => parts[random(parts.length)]).join('');
shapes.set('one long mix', (size) => pool.slice(0, size));

const milliseconds = (act) => {
  const begin = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(begin);
  return (user + system) / 1000;
};

/** How many times longer a character takes in a large text. */
function growth(act, makeText, small, large) {
  const [one, other] = [makeText(small), makeText(large)];
  let [least, quickest] = [Infinity, Infinity];
  let ratio;
  for (let attempt = 0; attempt < attempts; attempt++) {
    least = Math.min(least, milliseconds(() => { for (let time = 0; time < draws; time++) act(one); }) * large / small / draws);
    quickest = Math.min(quickest, milliseconds(() => act(other)));
    ratio = quickest / Math.max(least, 1);
    if (ratio <= most / 2) break;
  }
  return ratio;
}

function streamed(text) {
  const stream = new MarkdownStream(document.createElement('div'));
  const size = Math.ceil(text.length / 400);
  for (let at = 0; at < text.length; at += size) stream.append(text.slice(at, at + size));
}

const failures = [];
let count = 0;
function check(name, act, makeText, small, large) {
  count++;
  const ratio = growth(act, makeText, small, large);
  if (ratio > most) failures.push(`${name}: ${ratio.toFixed(1)} times as long for a character of ${large} as of ${small}`);
}

for (const [name, makeText] of shapes) check(name, renderMarkdown, makeText, 3000, 30000);
for (const name of ['run of `', 'heading with  ', 'wide table', 'long table', 'one long mix', 'nested **', '"**a"', '"[a]("', 'js: "']) {
  check(`long ${name}`, renderMarkdown, shapes.get(name), 10000, 100000);
  check(`streamed ${name}`, streamed, shapes.get(name), 30000, 300000);
}
for (const unit of [...marks, '{', 'a_{', '\\frac', '\\frac{a}', '\\sqrt[', '\\left(', '\\text{', '\\text{ ', '\\begin{array}{', '^{a', '\\not', '\\mathbin{', '&', '\\\\', '%', '%\n']) {
  const tex = (text) => renderTex(text, true);
  check(`TeX ${unit}`, tex, repeated(unit), 999, 9990);
  check(`TeX text with ${unit}`, tex, around('\\text{a', unit, 'a}'), 990, 9900);
  check(`TeX array of ${unit}`, tex, around('\\begin{array}{a', unit, 'a}x\\end{array}'), 990, 9900);
}
for (const unit of ['"a', '\\', '/* ', '1.']) check(`colours ${unit}`, (text) => highlight(text, 'js'), repeated(unit), 10000, 100000);
const conversation = (size) => ({ messages: Array.from({ length: size }, (_, id) => ({ id, parent: null, role: 'user' })) });
const allVersions = (item) => { const of = versions(item); for (const message of item.messages) of(message); };
check('versions of a message', allVersions, conversation, 5000, 50000);
const answers = (size) => [{ id: 'q', parent: null, role: 'user' }, ...Array.from({ length: size }, (_, id) => ({ id, parent: 'q', role: 'assistant' }))];
check('a turn of many answers', (messages) => removeTurn({ messages, leaf: 0 }, messages[0]), answers, 2000, 20000);

console.log(`${count} shapes, ${failures.length} of them take more than linear time`);
for (const failure of failures) console.log(failure);
process.exit(failures.length > 0 ? 1 : 0);
