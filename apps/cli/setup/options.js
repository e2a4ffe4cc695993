// @ts-check

/**
 * The part of a command line in which a word that looks like an option is one: what stands behind `--` is none.
 * @param {readonly string[]} args
 */
export function optionsOf(args) {
  const end = args.indexOf('--')
  return end === -1 ? args : args.slice(0, end)
}
