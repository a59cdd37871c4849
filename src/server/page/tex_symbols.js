// The names of TeX that stand for one character or word, by what TeX takes them for: "name character" pairs.

const table = (text) => new Map(text.trim().split(/\s+/).map((pair) => [pair.slice(0, pair.indexOf(':')), pair.slice(pair.indexOf(':') + 1)]));

/** Letters and what is set like them. */
export const letters = table(`
  alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι kappa:κ lambda:λ mu:μ nu:ν xi:ξ
  omicron:ο pi:π varpi:ϖ rho:ρ varrho:ϱ sigma:σ varsigma:ς tau:τ upsilon:υ phi:ϕ varphi:φ chi:χ psi:ψ omega:ω
  Gamma:Γ Delta:Δ Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ Upsilon:Υ Phi:Φ Psi:Ψ Omega:Ω
  infty:∞ partial:∂ nabla:∇ hbar:ℏ ell:ℓ emptyset:∅ varnothing:∅ Re:ℜ Im:ℑ aleph:ℵ wp:℘ imath:ı jmath:ȷ angle:∠ triangle:△
  top:⊤ bot:⊥ forall:∀ exists:∃ nexists:∄ neg:¬ lnot:¬ degree:° square:□ Box:□ blacksquare:■ checkmark:✓ star:⋆ dagger:†
  clubsuit:♣ diamondsuit:♢ heartsuit:♡ spadesuit:♠ dots:… ldots:… cdots:⋯ dotsc:… dotsb:⋯ vdots:⋮ ddots:⋱ prime:′
  $:$ %:% #:# &:& _:_ S:§ pounds:£`);

/** Signs between two things, or before one. */
export const operators = table(`
  times:× div:÷ cdot:⋅ ast:∗ circ:∘ bullet:∙ pm:± mp:∓ oplus:⊕ ominus:⊖ otimes:⊗ oslash:⊘ odot:⊙ wedge:∧ land:∧ vee:∨ lor:∨
  cap:∩ cup:∪ sqcap:⊓ sqcup:⊔ setminus:∖ amalg:⨿ uplus:⊎ wr:≀ diamond:⋄ ltimes:⋉ rtimes:⋊
  leq:≤ le:≤ geq:≥ ge:≥ leqslant:⩽ geqslant:⩾ neq:≠ ne:≠ ll:≪ gg:≫ lt:< gt:> equiv:≡ sim:∼ simeq:≃ approx:≈ cong:≅ propto:∝
  asymp:≍ doteq:≐ prec:≺ succ:≻ preceq:⪯ succeq:⪰ in:∈ ni:∋ notin:∉ subset:⊂ supset:⊃ subseteq:⊆ supseteq:⊇ subsetneq:⊊
  supsetneq:⊋ sqsubseteq:⊑ sqsupseteq:⊒ perp:⟂ parallel:∥ mid:∣ nmid:∤ vdash:⊢ dashv:⊣ models:⊨ vDash:⊨ coloneqq:≔ triangleq:≜
  to:→ rightarrow:→ leftarrow:← gets:← leftrightarrow:↔ Rightarrow:⇒ Leftarrow:⇐ Leftrightarrow:⇔ iff:⟺ implies:⟹ impliedby:⟸
  longrightarrow:⟶ longleftarrow:⟵ longleftrightarrow:⟷ Longrightarrow:⟹ Longleftarrow:⟸ Longleftrightarrow:⟺ mapsto:↦
  longmapsto:⟼ uparrow:↑ downarrow:↓ updownarrow:↕ Uparrow:⇑ Downarrow:⇓ nearrow:↗ searrow:↘ swarrow:↙ nwarrow:↖
  hookrightarrow:↪ hookleftarrow:↩ rightharpoonup:⇀ rightleftharpoons:⇌ leadsto:⇝ rightsquigarrow:⇝ therefore:∴ because:∵ colon::`);

/** Large signs whose bounds stand above and below where there is room, and those whose bounds stand beside them. */
export const sums = table('sum:∑ prod:∏ coprod:∐ bigcup:⋃ bigcap:⋂ bigvee:⋁ bigwedge:⋀ bigoplus:⨁ bigotimes:⨂ bigodot:⨀ bigsqcup:⨆ biguplus:⨄');
export const integrals = table('int:∫ iint:∬ iiint:∭ oint:∮ oiint:∯ smallint:∫');

export const functions = new Set(('arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan tanh '
  + 'arcsinh arccosh arctanh').split(' '));
/** What stands below them. */
export const limits = new Map(['det', 'gcd', 'inf', 'lim', 'max', 'min', 'Pr', 'sup', 'argmax', 'argmin'].map((name) => [name, name]));
limits.set('liminf', 'lim inf').set('limsup', 'lim sup');

/** Brackets, also behind \left and \right. A dot is none. */
export const opening = new Map([...table('lbrace:{ {:{ langle:⟨ lfloor:⌊ lceil:⌈ lvert:| lVert:‖ lbrack:[ lgroup:⟮'), ['(', '('], ['[', '[']]);
export const closing = new Map([...table('rbrace:} }:} rangle:⟩ rfloor:⌋ rceil:⌉ rvert:| rVert:‖ rbrack:] rgroup:⟯'), [')', ')'], [']', ']']]);
export const bars = table('vert:| Vert:‖ |:‖ backslash:\\');

export const accents = table(`hat:^ widehat:^ tilde:~ widetilde:~ bar:¯ vec:→ dot:˙ ddot:¨ dddot:⃛ check:ˇ breve:˘ acute:´ grave:\`
  mathring:˚ overrightarrow:→ overleftarrow:← overleftrightarrow:↔ overbrace:⏞`);
export const underAccents = table('underbrace:⏟ underrightarrow:→ underleftarrow:←');
export const stretched = new Set(`widehat widetilde overrightarrow overleftarrow overleftrightarrow overbrace underbrace
  underrightarrow underleftarrow`.trim().split(/\s+/));
export const arrows = table(`xrightarrow:→ xleftarrow:← xleftrightarrow:↔ xRightarrow:⇒ xLeftarrow:⇐ xLeftrightarrow:⇔ xmapsto:↦
  xhookrightarrow:↪ xrightleftharpoons:⇌`);

/** Widths in em. */
export const spaces = new Map(Object.entries({ ',': 0.167, ':': 0.222, '>': 0.222, ';': 0.278, ' ': 0.25, '!': -0.167, quad: 1, qquad: 2,
  thinspace: 0.167, enspace: 0.5, medspace: 0.222, thickspace: 0.278, negthinspace: -0.167 }));

// Alphabets: where their capitals, small letters and digits begin, and the characters that Unicode had before.
const alphabets = {
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce], boldsymbol: [0x1d468, 0x1d482, 0x1d7ce], mathbb: [0x1d538, 0x1d552, 0x1d7d8],
  mathcal: [0x1d49c, 0x1d4b6], mathfrak: [0x1d504, 0x1d51e], mathsf: [0x1d5a0, 0x1d5ba, 0x1d7e2], mathtt: [0x1d670, 0x1d68a, 0x1d7f6],
};
const before = { mathbb: 'CℂHℍNℕPℙQℚRℝZℤ', mathcal: 'BℬEℰFℱHℋIℐLℒMℳRℛeℯgℊoℴ', mathfrak: 'CℭHℌIℑRℜZℨ' };

/** The alphabet that a command asks for. */
export const fonts = new Map(Object.entries({ mathbf: 'mathbf', boldsymbol: 'boldsymbol', bm: 'boldsymbol', mathbb: 'mathbb', Bbb: 'mathbb',
  mathcal: 'mathcal', mathscr: 'mathcal', mathfrak: 'mathfrak', mathsf: 'mathsf', mathtt: 'mathtt', mathrm: 'upright', mathup: 'upright',
  mathnormal: 'italic', mathit: 'italic' }));

/** A letter or digit in one of the `fonts`. */
export function inFont(character, font) {
  const old = before[font]?.indexOf(character) ?? -1;
  if (old >= 0 && old % 2 === 0) return before[font][old + 1];
  const [capitals, small, digits] = alphabets[font] ?? [];
  if (capitals && /[A-Z]/.test(character)) return String.fromCodePoint(capitals + character.charCodeAt(0) - 65);
  if (small && /[a-z]/.test(character)) return String.fromCodePoint(small + character.charCodeAt(0) - 97);
  if (digits && /\d/.test(character)) return String.fromCodePoint(digits + Number(character));
  if (font === 'mathbf' || font === 'boldsymbol') {
    const greek = { mathbf: [0x1d6a8, 0x1d6c2], boldsymbol: [0x1d71c, 0x1d736] }[font];
    if (/[Α-Ω]/.test(character)) return String.fromCodePoint(greek[0] + character.charCodeAt(0) - 0x391);
    if (/[α-ω]/.test(character)) return String.fromCodePoint(greek[1] + character.charCodeAt(0) - 0x3b1);
  }
  return character;
}
