// Searches in texts: the rule of domain.Finder on the server.

// digit returns the ASCII digit for one of any script. The digits of a script are ten characters in a row.
function digit(text) {
  const code = text.codePointAt(0);
  let zero = code;
  while (code - zero < 9 && /\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero--;
  return code - zero;
}

// folded returns the form of a text in which searches compare it. Capitals know that "ß" is "ss". The two i of Turkish are
// one letter, and so are the kinds of apostrophes, quotes and dashes.
const folded = (text) =>
  text.normalize("NFKC").replace(/\u1e9e/g, "ss").toUpperCase().toLowerCase().replace(/ς/g, "σ").replace(/i\u0307/g, "i")
    .replace(/\p{Default_Ignorable_Code_Point}|\p{Cf}/gu, "").normalize("NFKC")
    .replace(/(?![0-9])\p{Nd}/gu, digit).replace(/[‘’ʼ]/g, "'").replace(/[“”„]/g, '"').replace(/⁄/g, "/").replace(/[‐‒–—―−]/g, "-");

// Letters with a stroke, or of two letters in one, which Unicode does not decompose.
const STROKES = { ø: "o", ł: "l", đ: "d", ħ: "h", ŧ: "t", æ: "ae", œ: "oe" };

// Only common accents, the vowels of Hebrew and Arabic, and what else Arabic leaves out: the marks of other scripts make
// another letter, as in Japanese.
const withoutAccents = (text) =>
  text.normalize("NFD").replace(/(?=[\p{Mn}\u0640])[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0655\u0670]/gu, "").normalize("NFC")
    .replace(/[øłđħŧæœ]/g, (letter) => STROKES[letter]);

// finder returns a function that reports whether a text contains all words of a search, as people read both: case, width
// and composition of characters make no difference, nor do characters that show nothing. A letter without an accent is found
// with one as well, but not the reverse.
export function finder(search) {
  const words = folded(search).split(/\s+/).filter(Boolean);
  return (text) => {
    const full = folded(text);
    const plain = withoutAccents(full);
    return words.every((word) => full.includes(word) || plain.includes(word));
  };
}
