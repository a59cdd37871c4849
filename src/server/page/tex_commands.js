// Commands and environments of TeX, and what becomes of them.
import { fence, mathNode, space } from './mathml.js';

/** Environments with the brackets around them. */
export const environments = new Map(Object.entries({ matrix: ['', ''], pmatrix: ['(', ')'], bmatrix: ['[', ']'], Bmatrix: ['{', '}'],
  vmatrix: ['|', '|'], Vmatrix: ['‖', '‖'], smallmatrix: ['', ''], cases: ['{', ''], rcases: ['', '}'], array: ['', ''], aligned: ['', ''], align: ['', ''],
  alignat: ['', ''], alignedat: ['', ''], split: ['', ''], eqnarray: ['', ''], gather: ['', ''], gathered: ['', ''], equation: ['', ''],
  multline: ['', ''] }));
/** Those whose columns meet at a sign, and those that are as large as a formula of its own. */
export const inColumns = new Set(['aligned', 'align', 'alignat', 'alignedat', 'split', 'root']);
export const large = new Set(['aligned', 'align', 'alignat', 'alignedat', 'split', 'root', 'gather', 'gathered', 'equation', 'multline', 'eqnarray']);
export const ignored = new Set(('displaystyle textstyle scriptstyle scriptscriptstyle hline nonumber notag strut mathstrut allowbreak nobreak '
  + 'relax').split(' '));
export const bigger = /^(big|Big|bigg|Bigg)[lrm]?$/;
export const sizes = { big: 1.2, Big: 1.62, bigg: 2.05, Bigg: 2.47 };
export const asText = /^(text|textrm|textnormal|textup|mbox|textbf|textit|textsf|texttt)$/;
/** What TeX is told to take an argument for, as properties of an item. */
export const classes = new Map(Object.entries({ mathbin: 'isOperator', mathrel: 'isOperator', mathopen: 'isOpening', mathop: 'limits' }));

const scaled = (node, isLarge) => mathNode('mstyle', node, { displaystyle: isLarge });
const fraction = (above, below, isLarge) => {
  const node = mathNode('mfrac', [above, below]);
  return isLarge === undefined ? node : scaled(node, isLarge);
};
const binomial = ([above, below]) => mathNode('mrow', [fence('(', 'prefix', true), mathNode('mfrac', [above, below], { linethickness: 0 }), fence(')', 'postfix', true)]);

/** Commands with arguments: how many, and the node made of them. */
export const commands = new Map(Object.entries({
  frac: [2, ([above, below]) => fraction(above, below)],
  dfrac: [2, ([above, below]) => fraction(above, below, true)],
  cfrac: [2, ([above, below]) => fraction(above, below, true)],
  tfrac: [2, ([above, below]) => fraction(above, below, false)],
  binom: [2, binomial],
  dbinom: [2, (parts) => scaled(binomial(parts), true)],
  tbinom: [2, (parts) => scaled(binomial(parts), false)],
  overset: [2, ([above, base]) => mathNode('mover', [base, above])],
  stackrel: [2, ([above, base]) => mathNode('mover', [base, above])],
  underset: [2, ([below, base]) => mathNode('munder', [base, below])],
  phantom: [1, ([node]) => mathNode('mphantom', node)],
  overline: [1, ([node]) => mathNode('mrow', node, { class: 'overline' })],
  underline: [1, ([node]) => mathNode('mrow', node, { class: 'underline' })],
  boxed: [1, ([node]) => mathNode('mrow', node, { class: 'boxed' })],
  pmod: [1, ([node]) => mathNode('mrow', [space(0.6), fence('('), mathNode('mi', 'mod'), space(0.3), node, fence(')')])],
  not: [1, ([node]) => mathNode('mo', `${node.textContent}\u0338`)],
  mathclose: [1, ([node]) => node], mathord: [1, ([node]) => node], mathinner: [1, ([node]) => node],
  substack: [1, ([node]) => node],
}));
