// Colours for code: comments, strings, numbers and words that languages keep for themselves. Text in, nodes out.
import { longestBlock } from './elements.js';

const words = (text) => new Set(text.split(' '));

const cLike = words('alignas auto async await bool break case catch char class const constexpr continue debugger default defer delete do '
  + 'double else enum explicit export extends extern false final finally float fn for from func function go if impl implements '
  + 'import in inline instanceof int interface let long loop match mod mut namespace new nil null nullptr of operator override package '
  + 'private protected pub public return select self short signed sizeof static struct super switch template this throw throws trait '
  + 'true try type typedef typename typeof undefined union unsafe unsigned use using var virtual void volatile where while yield');
const pythonLike = words('False None True and as assert async await break class continue def del elif else except finally for from '
  + 'global if import in is lambda nonlocal not or pass raise return self try while with yield');
const shellLike = words('case do done echo elif else end esac exit export fi for function if in local return set source then until while');
const sqlLike = words('all and as asc between by case create delete desc distinct drop else end exists from full group having in index '
  + 'inner insert into is join key left like limit not null on or order outer primary right select set table then union update '
  + 'values view when where with');
const data = words('true false null yes no');

// What begins a comment, and the words.
const slashes = [String.raw`//[^\n]*|/\*[\s\S]*?(?:\*/|$)`, cLike];
const hash = String.raw`#[^\n]*`;
const families = [
  ['c h cc cpp c++ cxx hpp cuda hip java javascript js jsx ts tsx typescript rust rs go golang csharp c# cs kotlin swift scala php dart', slashes],
  ['python py python3', [hash, pythonLike]],
  ['sh bash shell zsh console fish dockerfile makefile make cmake ruby rb perl', [hash, shellLike]],
  ['sql sqlite mysql postgresql', [String.raw`--[^\n]*|/\*[\s\S]*?(?:\*/|$)`, sqlLike]],
  ['json yaml yml toml ini', [hash, data]],
];
const languages = new Map(families.flatMap(([names, [comment, keywords]]) => {
  const strings = String.raw`"""[\s\S]*?(?:"""|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
  const pattern = new RegExp(`(${comment})|(${strings})|(\\b\\d[\\w.]*)|[\\p{L}_][\\p{L}\\d_]*`, 'gu');
  return names.split(' ').map((name) => [name, { pattern, keywords, anyCase: keywords === sqlLike }]);
}));

function span(className, text) {
  const node = document.createElement('span');
  node.className = className;
  node.textContent = text;
  return node;
}

export function highlight(code, name) {
  const language = languages.get(name.toLowerCase());
  if (!language || code.length > longestBlock) return [code];
  const nodes = [];
  let done = 0;
  for (const match of code.matchAll(language.pattern)) {
    const [text, comment, string, number] = match;
    const isWord = language.keywords.has(language.anyCase ? text.toLowerCase() : text);
    const kind = comment ? 'comment' : string ? 'string' : number ? 'number' : isWord ? 'keyword' : '';
    if (!kind) continue;
    nodes.push(code.slice(done, match.index), span(kind, text));
    done = match.index + text.length;
  }
  return [...nodes, code.slice(done)];
}
