/** The source text of numbers (ECMAScript 2026), of which the types of TypeScript 7.0 know nothing yet. */
declare global {
  interface JSON {
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown
    rawJSON(text: string): object
  }
}

/** Digits enough, or an exponent, for a number that JavaScript may not hold as it is written. */
const SUSPECT = /\d{16}|\d[eE]/

/**
 * As `JSON.parse`, but a number that JavaScript would change (an id of 64 bits, 1e400) stays as it was written, and is
 * written so by `JSON.stringify`. Throws a SyntaxError.
 */
export const parseExactly = (text: string): unknown =>
  SUSPECT.test(text) ? JSON.parse(text, keepNumber) : JSON.parse(text)

function keepNumber(_key: string, value: unknown, { source }: { readonly source?: string }): unknown {
  return typeof value === 'number' && source !== undefined && String(value) !== source ? JSON.rawJSON(source) : value
}
